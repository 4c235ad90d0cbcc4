//! Constants of several parts: what a program holds apart and a kernel reads as one tensor.

use super::{Origin, Tensor};

/// Several constants, joined along a dimension.
///
/// Along the first dimension the parts stand one after the other; along a later one they take turns, a run of each for
/// every step of the dimensions before it. Nothing is copied: [`Tensor::segments`] says which bytes belong where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Joined<'a> {
    parts: Vec<&'a [u8]>,
    /// How often the parts take turns: the product of the sizes before the joined dimension.
    turns: usize,
}

impl<'a> Joined<'a> {
    /// The parts in their order, or `None` where there are none or some have no whole number of bytes a turn.
    pub fn new(parts: Vec<&'a [u8]>, turns: usize) -> Option<Self> {
        let is_whole = |part: &&[u8]| part.len().checked_rem(turns) == Some(0);
        (!parts.is_empty() && parts.iter().all(is_whole)).then_some(Self { parts, turns })
    }

    /// The parts, in their order.
    pub fn parts(&self) -> &[&'a [u8]] {
        &self.parts
    }
}

impl<'a> Tensor<'a> {
    /// The bytes of the program that the tensor begins with, and where each run of them goes: in order, without gaps,
    /// together [`Self::size_bytes`]. Nothing for a tensor that has its content from elsewhere.
    pub fn segments(&self) -> impl Iterator<Item = (u64, &'a [u8])> + '_ {
        let (parts, turns): (&[&'a [u8]], usize) = match &self.origin {
            Origin::Constant(bytes) | Origin::State(bytes) => (std::slice::from_ref(bytes), 1),
            Origin::Joined(joined) => (&joined.parts, joined.turns),
            Origin::Input(_) | Origin::Computed => (&[], 0),
        };
        let runs = (0..turns).flat_map(move |turn| {
            parts.iter().map(move |part| {
                let bytes = part.len() / turns;
                &part[turn * bytes..(turn + 1) * bytes]
            })
        });
        runs.scan(0, |next, run| {
            let offset = *next;
            *next += run.len() as u64;
            Some((offset, run))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{DType, Dims};

    fn tensor<'a>(dims: &[u32], origin: Origin<'a>) -> Tensor<'a> {
        Tensor { dtype: DType::U8, bound: Dims::new(dims).unwrap(), origin }
    }

    #[test]
    fn a_plain_constant_is_one_segment() {
        let bytes = [1, 2, 3, 4, 5, 6];
        for origin in [Origin::Constant(&bytes), Origin::State(&bytes)] {
            assert_eq!(tensor(&[2, 3], origin).segments().collect::<Vec<_>>(), [(0, &bytes[..])]);
        }
        for origin in [Origin::Computed, Origin::Input(0)] {
            assert_eq!(tensor(&[2, 3], origin).segments().count(), 0);
        }
    }

    #[test]
    fn parts_along_rows_stand_one_after_the_other() {
        let (a, b) = ([1, 2, 3, 4], [5, 6]);
        let joined = Joined::new(vec![&a, &b], 1).unwrap();
        let segments: Vec<(u64, &[u8])> = vec![(0, &a), (4, &b)];
        assert_eq!(tensor(&[3, 2], Origin::Joined(joined)).segments().collect::<Vec<_>>(), segments);
    }

    #[test]
    fn parts_along_columns_take_turns() {
        // [2, 3] and [2, 1] along the second dimension.
        let (a, b) = ([1, 2, 3, 5, 6, 7], [4, 8]);
        let tensor = tensor(&[2, 4], Origin::Joined(Joined::new(vec![&a, &b], 2).unwrap()));
        let offsets: Vec<u64> = tensor.segments().map(|(offset, _)| offset).collect();
        assert_eq!(offsets, [0, 3, 4, 7]);
        let bytes: Vec<u8> = tensor.segments().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bytes.len() as u64, tensor.size_bytes());
    }

    #[test]
    fn parts_without_whole_turns_are_not_joined() {
        assert_eq!(Joined::new(vec![], 1), None);
        assert_eq!(Joined::new(vec![&[1, 2]], 0), None);
        assert_eq!(Joined::new(vec![&[1, 2], &[1, 2, 3]], 2), None);
    }
}
