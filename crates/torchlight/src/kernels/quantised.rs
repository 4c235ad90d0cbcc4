//! Weights of 4-bit numbers: how the kernels of linear layers load them.
//!
//! Two numbers stand in a byte, the even column in its low half. A group of columns shares a scale:
//! value = (number - 8) * scale.

use super::linear::Alignment;

/// How much of a weight is loaded at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packing {
    /// Four words of eight numbers, all of one group.
    Loads,
    /// A word of eight numbers, all of one group.
    Words,
    /// A word of eight numbers from any byte on, with a scale for each number.
    Any,
}

impl Packing {
    /// The most that fits.
    pub const fn of(in_features: u32, out_features: u32, group: u32) -> Self {
        match (in_features % 32, in_features % 8, group % 32, group % 8) {
            _ if !out_features.is_multiple_of(4) => Self::Any,
            (0, _, 0, _) => Self::Loads,
            (_, 0, _, 0) => Self::Words,
            _ => Self::Any,
        }
    }

    /// How x is loaded and the result stored.
    pub(super) const fn alignment(self) -> Alignment {
        match self {
            Self::Loads | Self::Words => Alignment::Four,
            Self::Any => Alignment::One,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_one_scale() {
        for (features, group, wanted) in [
            ([64, 32], 32, Packing::Loads),
            ([64, 32], 64, Packing::Loads),
            ([64, 32], 16, Packing::Words),
            ([40, 32], 8, Packing::Words),
            ([96, 32], 24, Packing::Words),
            ([64, 32], 4, Packing::Any),
            ([64, 33], 32, Packing::Any),
            ([60, 32], 30, Packing::Any),
        ] {
            assert_eq!(Packing::of(features[0], features[1], group), wanted, "{features:?} in groups of {group}");
        }
    }
}
