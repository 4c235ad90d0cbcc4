//! Columns of whole numbers as text: as arrays of JSON they would be most of the page. `columns.js` reads them.

use serde::{Serialize, Serializer};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const NULL: char = '-';

/// JavaScript's whole numbers are exact up to 2^53, and so is the difference of two within this.
pub(super) const LARGEST: i64 = 1 << 52;

/// Numbers, or nulls, by row and column. A row belongs to a group, and tells how far its numbers are from those of the row
/// before it in that group, which is mostly one or two characters.
pub(super) struct Columns<const N: usize> {
    texts: [(&'static str, String); N],
    /// The latest numbers of each group.
    before: Vec<[i64; N]>,
}

impl<const N: usize> Columns<N> {
    pub(super) fn new(names: [&'static str; N]) -> Self {
        Self { texts: names.map(|name| (name, String::new())), before: Vec::new() }
    }

    /// Adds a row. Numbers beyond [`LARGEST`] are told as that.
    pub(super) fn push(&mut self, group: usize, row: [Option<i64>; N]) {
        if self.before.len() <= group {
            self.before.resize(group + 1, [0; N]);
        }
        for (((_, text), before), number) in self.texts.iter_mut().zip(&mut self.before[group]).zip(row) {
            match number.map(|number| number.clamp(-LARGEST, LARGEST)) {
                Some(number) => write_number(text, number - std::mem::replace(before, number)),
                None => text.push(NULL),
            }
        }
    }
}

/// An object with a text a column.
impl<const N: usize> Serialize for Columns<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.texts.iter().map(|(name, text)| (name, text)))
    }
}

/// Writes a number in the variable-length digits of source maps: five bits a digit, the lowest first, and a sixth where
/// another digit follows. The lowest bit of the first digit is the sign.
fn write_number(text: &mut String, number: i64) {
    let mut rest = number.unsigned_abs() << 1 | u64::from(number < 0);
    loop {
        let digit = (rest & 31) as usize;
        rest >>= 5;
        text.push(DIGITS[if rest == 0 { digit } else { digit | 32 }].into());
        if rest == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_as_differences_within_their_group() {
        let mut columns = Columns::new(["a", "b"]);
        columns.push(0, [Some(15), None]);
        columns.push(1, [Some(-16), Some(1)]);
        columns.push(0, [Some(14), Some(0)]);
        columns.push(1, [None, Some(1000)]);
        columns.push(1, [Some(-16), Some(1000)]);
        // 15, -16, -1, null, 0; null, 1, 0, 999, 0.
        let wanted = serde_json::json!({ "a": "ehBD-A", "b": "-CAu+BA" });
        assert_eq!(serde_json::to_value(&columns).unwrap(), wanted);
    }

    #[test]
    fn numbers_that_javascript_cannot_hold_are_cut() {
        let [mut extreme, mut largest] = [(); 2].map(|()| Columns::new(["a"]));
        for (far, near) in [(i64::MIN, -LARGEST), (i64::MAX, LARGEST), (i64::MIN, -LARGEST)] {
            extreme.push(0, [Some(far)]);
            largest.push(0, [Some(near)]);
        }
        assert_eq!(extreme.texts, largest.texts);
    }
}
