//! Checks of the numbers in a file: byte ranges, indices and sizes.

use crate::Error;

/// The bytes `offset..offset + length` of a container, which is called by name in the error.
pub(crate) fn subslice<'a>(
    (container, bytes): (&'static str, &'a [u8]),
    offset: u64,
    length: u64,
    what: impl FnOnce() -> String,
) -> Result<&'a [u8], Error> {
    let range = offset.checked_add(length).and_then(|end| {
        let start = usize::try_from(offset).ok()?;
        bytes.get(start..usize::try_from(end).ok()?)
    });
    range.ok_or_else(|| Error::OutsideOf {
        what: what(),
        start: offset.into(),
        // The end of a hostile range may not fit 64 bits.
        end: u128::from(offset) + u128::from(length),
        container,
        available: bytes.len(),
    })
}

/// A kind of content that carries an identifier behind its first four bytes.
pub(crate) struct Kind {
    /// What it is, with an article.
    pub(crate) name: &'static str,
    pub(crate) identifier: &'static str,
    /// What to call its bytes.
    pub(crate) container: &'static str,
}

impl Kind {
    /// Refuses bytes of another kind.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), Error> {
        let Some(found) = bytes.get(4..8) else {
            return Err(self.truncated("its identifier ends at", 8, bytes));
        };
        if found == self.identifier.as_bytes() {
            return Ok(());
        }
        let found = found.escape_ascii().to_string();
        Err(Error::WrongIdentifier { kind: self.name, found, wanted: self.identifier })
    }

    pub(crate) fn truncated(&self, claim: &'static str, needed: u128, bytes: &[u8]) -> Error {
        Error::Truncated { claim, needed, container: self.container, available: bytes.len() }
    }
}

/// `N` bytes at an offset, for a little-endian number.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// A number from the file as an index into a list of `count` things.
pub(crate) fn checked_index(raw: impl Into<i64>, count: usize, what: &'static str) -> Result<u32, Error> {
    let raw = raw.into();
    u32::try_from(raw)
        .ok()
        .filter(|&index| usize::try_from(index).is_ok_and(|index| index < count))
        .ok_or_else(|| Error::malformed(what, format!("{raw} is out of range, there are {count}")))
}

/// The number of elements of a tensor, where elements of `element_bytes` fit an address space of 63 bits.
///
/// Empty dimensions count as one for the check, so that strides do not overflow either.
pub(crate) fn element_count(dims: &[u32], element_bytes: usize) -> Result<u64, Error> {
    let element_bytes = u64::try_from(element_bytes).ok();
    dims.iter()
        .try_fold(element_bytes, |bytes, &dim| Some(bytes?.checked_mul(dim.max(1).into())))
        .flatten()
        .filter(|&bytes| i64::try_from(bytes).is_ok())
        // Bounded by the product above.
        .map(|_| dims.iter().map(|&dim| u64::from(dim)).product())
        .ok_or_else(|| Error::malformed("size", format!("dimensions {} overflow", shortened(dims))))
}

/// Dimensions, fit for a message of one line.
fn shortened(dims: &[u32]) -> String {
    const MOST: usize = 8;
    match dims.get(..MOST) {
        Some(start) if dims.len() > MOST => format!("{start:?}... ({} of them)", dims.len()),
        _ => format!("{dims:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overflow_are_refused_with_their_numbers() {
        let file = ("file", &[0u8; 2000][..]);
        let range = |offset, length| subslice(file, offset, length, || "segment 1".into()).map(<[u8]>::len);
        assert_eq!(range(1920, 80), Ok(80));
        assert_eq!(range(2000, 0), Ok(0));
        assert_eq!(
            range(1920, 800).unwrap_err().to_string(),
            "segment 1: bytes 1920..2720 lie outside the file of 2000 bytes"
        );
        assert_eq!(
            range(u64::MAX, 2).unwrap_err().to_string(),
            "segment 1: bytes 18446744073709551615..18446744073709551617 lie outside the file of 2000 bytes"
        );
    }

    #[test]
    fn element_counts_are_exact_or_refused() {
        assert_eq!(element_count(&[], 4), Ok(1));
        assert_eq!(element_count(&[2, 0, 3], 4), Ok(0));
        assert_eq!(element_count(&[1 << 31, 1 << 31], 1), Ok(1 << 62));
        assert!(element_count(&[1 << 31, 1 << 31], 2).is_err());
        assert!(element_count(&[u32::MAX; 3], 1).is_err());
        assert!(element_count(&[0, u32::MAX, u32::MAX, u32::MAX], 1).is_err());
        assert!(element_count(&[u32::MAX; 100], 1).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn indices_are_below_their_count() {
        assert_eq!(checked_index(2, 3, "id"), Ok(2));
        for raw in [-1, 3, i64::MAX, i64::MIN] {
            assert!(checked_index(raw, 3, "id").is_err(), "{raw}");
        }
        assert_eq!(
            checked_index(7, 3, "value id").unwrap_err().to_string(),
            "value id: 7 is out of range, there are 3"
        );
    }
}
