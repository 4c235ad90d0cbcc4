//! Where the commands of a run are parted, so that the device begins while the host still encodes.
//!
//! Encoding a dispatch takes the host about 2 µs, and small dispatches take a GPU 2 to 4: handed over at once, the device would
//! idle for as long as all of it takes to encode. Each part costs a submission, some 20 µs of the host and a few of the device,
//! so parts are few. The first is small, and so is the wait for it; those that follow are encoded while the device has the one
//! before, and are as large as that allows.

/// Dispatches of the first part: about as much work as it takes to encode the next one.
const FIRST: u32 = 24;
/// Dispatches of each part that follows.
const NEXT: u32 = 48;
/// The last part has at least so many: fewer are done sooner than another submission takes.
const LEAST: u32 = 8;

/// Whether a part ends behind the dispatch with which `encoded` are, of a run that launches `all`.
///
/// Only runs without timestamps are parted: stamps are to tell the time of the device, and not how far the host had come.
pub(super) fn ends_part(encoded: u32, all: u32) -> bool {
    encoded >= FIRST && (encoded - FIRST).is_multiple_of(NEXT) && all >= encoded + LEAST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(all: u32) -> Vec<u32> {
        (1..=all).filter(|&encoded| ends_part(encoded, all)).collect()
    }

    #[test]
    fn a_small_part_and_then_larger_ones() {
        assert_eq!(ends(190), [24, 72, 120, 168]);
        // 5 behind the twelfth: they stay with the part before.
        let wanted: Vec<u32> = (0..11).map(|part| 24 + 48 * part).collect();
        assert_eq!(ends(557), wanted);
    }

    #[test]
    fn no_part_is_hardly_worth_its_submission() {
        for (all, wanted) in [(0, &[][..]), (24, &[]), (31, &[]), (32, &[24]), (79, &[24]), (80, &[24, 72])] {
            assert_eq!(ends(all), wanted, "{all}");
        }
    }
}
