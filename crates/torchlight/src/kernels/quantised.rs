//! Weights of 4-bit numbers: how the kernels of linear layers load them.
//!
//! Two numbers stand in a byte, the even column in its low half. A group of columns shares a scale:
//! value = (number - 8) * scale.

use std::borrow::Cow;

use super::linear::{Alignment, four};
use super::{Variant, linear_q4_tile};

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

    /// The functions of the variant block: `load` from a byte on, `word` of a load; the scales of four outputs that a
    /// load has in common, and the four numbers of an output with the scales that they have alone.
    pub(super) fn loads(self) -> Cow<'static, str> {
        const LOADS: &str = concat!(
            "const WORDS: u32 = 4u;\nalias Packed = vec4<u32>;\n",
            "fn load(first: u32) -> Packed { return weight[first / 16u]; }\n",
            "fn word(load: Packed, index: u32) -> u32 { return load[index]; }\n",
        );
        const WORDS: &str = concat!(
            "const WORDS: u32 = 1u;\nalias Packed = u32;\n",
            "fn load(first: u32) -> Packed { return weight[first / 4u]; }\n",
            "fn word(load: Packed, index: u32) -> u32 { return load; }\n",
        );
        const ANY: &str = concat!(
            "const WORDS: u32 = 1u;\nalias Packed = u32;\n",
            "fn load(first: u32) -> Packed { return (weight[first / 4u] >> (first % 4u * 8u)) | ",
            "((weight[first / 4u + 1u] << 1u) << (31u - first % 4u * 8u)); }\n",
            "fn word(load: Packed, index: u32) -> u32 { return load; }\n",
        );
        const SHARED_SCALES: &str = concat!(
            "fn shared_scales(column: u32, output: u32) -> vec4<f32> ",
            "{ return scales[(column / params.group * params.out_features + output) / 4u]; }\n",
            "fn scaled(quad: vec4<f32>, column: u32, output: u32) -> vec4<f32> { return quad; }\n",
        );
        match self {
            Self::Loads => format!("{LOADS}{SHARED_SCALES}").into(),
            Self::Words => format!("{WORDS}{SHARED_SCALES}").into(),
            Self::Any => format!(
                "{ANY}fn shared_scales(column: u32, output: u32) -> vec4<f32> {{ return vec4<f32>(1.0); }}\n\
                 fn scaled(quad: vec4<f32>, column: u32, output: u32) -> vec4<f32> \
                 {{ return inside(quad * {}, column); }}\n",
                four("scales[(column + #u) / params.group * params.out_features + output]")
            )
            .into(),
        }
    }
}

/// Every variant of the tile kernel.
pub(super) fn representatives() -> Vec<Variant> {
    [Packing::Words, Packing::Any].map(linear_q4_tile::variant).to_vec()
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
