//! What timestamps are worth: overlap removed, every sample judged, the clock's quantum found from the data.

use serde::{Deserialize, Serialize};

use super::TickPair;

/// What a duration is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quality {
    /// Two stamps, in order, after everything before.
    Ok,
    /// It began before an earlier dispatch ended: only the time after that end is counted.
    OverlapRemoved,
    /// It ended before an earlier dispatch did: nothing is left to count.
    OutOfOrder,
    /// The end comes before the begin.
    Negative,
    /// The stamps were not written.
    NotMeasured,
    /// It is shorter than the clock can tell.
    BelowQuantum,
}

impl Quality {
    /// All qualities.
    pub const ALL: [Self; 6] =
        [Self::Ok, Self::OverlapRemoved, Self::OutOfOrder, Self::Negative, Self::NotMeasured, Self::BelowQuantum];

    /// Whether a duration of this quality counts in statistics.
    pub const fn counts(self) -> bool {
        matches!(self, Self::Ok | Self::OverlapRemoved)
    }

    /// The name used in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::OverlapRemoved => "overlap_removed",
            Self::OutOfOrder => "out_of_order",
            Self::Negative => "negative",
            Self::NotMeasured => "not_measured",
            Self::BelowQuantum => "below_quantum",
        }
    }
}

/// A pair of stamps, judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What the duration is worth.
    pub quality: Quality,
    /// Ticks that the dispatch took, where the stamps say.
    ///
    /// A dispatch out of order has 0: all of its time was counted before. One below the quantum has none.
    pub ticks: Option<u64>,
}

/// Judges the stamps of a run's dispatches, in order. `quantum` is the clock's step in ticks, 1 where none is known.
pub fn judge(stamps: &[TickPair], quantum: u64) -> Vec<Judged> {
    let mut latest_end = 0;
    stamps.iter().map(|&pair| judge_next(pair, quantum, &mut latest_end)).collect()
}

fn judge_next(TickPair { begin, end }: TickPair, quantum: u64, latest_end: &mut u64) -> Judged {
    if (begin, end) == (0, 0) {
        return Judged { quality: Quality::NotMeasured, ticks: None };
    }
    if end < begin {
        return Judged { quality: Quality::Negative, ticks: None };
    }
    let overlaps = begin < *latest_end;
    if overlaps && end <= *latest_end {
        return Judged { quality: Quality::OutOfOrder, ticks: Some(0) };
    }
    let ticks = end - begin.max(*latest_end);
    *latest_end = end;
    if ticks < quantum {
        return Judged { quality: Quality::BelowQuantum, ticks: None };
    }
    let quality = if overlaps { Quality::OverlapRemoved } else { Quality::Ok };
    Judged { quality, ticks: Some(ticks) }
}

/// Finds the step of a clock from its stamps: the greatest common divisor of the differences between them.
///
/// Browsers round timestamps, and some hardware counts in steps of many ticks. A few stamps may share a divisor by chance, so
/// a step is believed only after [`Quantum::BELIEVED_AFTER`] differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantum {
    last: u64,
    divisor: u64,
    differences: u32,
}

impl Quantum {
    /// Differences that are needed before a step is believed: 16 numbers share a divisor of 2 by chance once in 65536.
    pub const BELIEVED_AFTER: u32 = 16;

    /// Learns from the stamps of a run.
    pub fn learn(&mut self, stamps: &[TickPair]) {
        for stamp in stamps.iter().flat_map(|pair| [pair.begin, pair.end]).filter(|&stamp| stamp != 0) {
            let difference = stamp.abs_diff(std::mem::replace(&mut self.last, stamp));
            // The first stamp has no difference; equal stamps tell nothing.
            if difference != 0 && difference != stamp {
                self.divisor = greatest_common_divisor(self.divisor, difference);
                self.differences = self.differences.saturating_add(1);
            }
        }
    }

    /// The step in ticks: 1 until enough is known.
    pub fn ticks(&self) -> u64 {
        if self.differences < Self::BELIEVED_AFTER { 1 } else { self.divisor.max(1) }
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(pairs: &[(u64, u64)], quantum: u64) -> Vec<(Quality, Option<u64>)> {
        let stamps: Vec<TickPair> = pairs.iter().map(|&(begin, end)| TickPair { begin, end }).collect();
        judge(&stamps, quantum).into_iter().map(|judged| (judged.quality, judged.ticks)).collect()
    }

    #[test]
    fn pinned_begins_count_from_the_end_before() {
        use Quality::{Ok, OverlapRemoved};
        let wanted = [(Ok, Some(20)), (OverlapRemoved, Some(30)), (OverlapRemoved, Some(40))];
        assert_eq!(judged(&[(0, 20), (0, 50), (0, 90)], 1), wanted);
    }

    #[test]
    fn ends_out_of_order_are_flagged() {
        use Quality::{Ok, OutOfOrder, OverlapRemoved};
        let wanted = [(Ok, Some(100)), (OutOfOrder, Some(0)), (OverlapRemoved, Some(20))];
        assert_eq!(judged(&[(0, 100), (0, 40), (0, 120)], 1), wanted);
    }

    #[test]
    fn stamps_that_measure_nothing_have_no_duration() {
        use Quality::{Negative, NotMeasured, Ok};
        let pairs = [(10, 20), (0, 0), (90, 50), (u64::MAX, 0), (30, 40)];
        let wanted = [(Ok, Some(10)), (NotMeasured, None), (Negative, None), (Negative, None), (Ok, Some(10))];
        assert_eq!(judged(&pairs, 1), wanted);
    }

    #[test]
    fn a_coarse_clock_is_found_and_what_it_cannot_tell_is_flagged() {
        let step = 65536;
        let pairs: Vec<(u64, u64)> = (1..20).map(|i| (i * 7 * step, i * 7 * step + step * (i % 3))).collect();
        let stamps: Vec<TickPair> = pairs.iter().map(|&(begin, end)| TickPair { begin, end }).collect();
        let mut quantum = Quantum::default();
        assert_eq!(quantum.ticks(), 1);
        quantum.learn(&stamps);
        assert_eq!(quantum.ticks(), step);
        let judged = judge(&stamps, quantum.ticks());
        assert_eq!(judged[0].ticks, Some(step));
        assert_eq!((judged[2].quality, judged[2].ticks), (Quality::BelowQuantum, None));
    }

    #[test]
    fn a_fine_clock_has_no_quantum() {
        let stamps: Vec<TickPair> = (1..50).map(|i: u64| TickPair { begin: i * i, end: i * i + 7 }).collect();
        let mut quantum = Quantum::default();
        quantum.learn(&stamps);
        assert_eq!(quantum.ticks(), 1);
    }
}
