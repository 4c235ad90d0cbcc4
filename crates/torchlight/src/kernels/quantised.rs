//! Weights of 4-bit numbers: how the kernels of linear layers load them.
//!
//! Two numbers stand in a byte, the even column in its low half. A group of columns shares a scale:
//! value = (number - 8) * scale.

use super::linear::{Alignment, four};

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

    /// How the vector kernel loads a word of eight columns, and the `values` of its quads; of `outputs` rows the scales that
    /// they have each in common, or none where each value has its own.
    pub(super) fn vector_loads(self, outputs: u32) -> String {
        const WORDS: &str = "{ return weight[(weight_row * (params.in_features / 2u) + column / 2u) / 4u]; }";
        const ANY: &str = concat!(
            "{ let first = weight_row * (params.in_features / 2u) + column / 2u; let shift = first % 4u * 8u; ",
            "return (weight[first / 4u] >> shift) | ((weight[first / 4u + 1u] << 1u) << (31u - shift)); }",
        );
        let row_scales = "(PARTS * params.out_features)";
        let (load, values, [scales, shared, scale]) = match self {
            Self::Loads | Self::Words => {
                let (scales, scale) = match outputs {
                    1 => ("f32".to_owned(), "scales"),
                    _ => (format!("vec{outputs}<f32>"), "scales[output]"),
                };
                let index = format!("column / params.group * {row_scales} + weight_row");
                let shared = match outputs {
                    1 => format!("scales[{index}]"),
                    _ => format!("scales[({index}) / OUTPUTS]"),
                };
                (WORDS, "numbers(load >> (quad * 16u))".to_owned(), [scales, shared, scale.to_owned()])
            }
            Self::Any => {
                let own = four(&format!("scales[(column + #u) / params.group * {row_scales} + weight_row]"));
                let values = format!("inside(numbers(load >> (quad * 16u)) * {own}, column)");
                (ANY, values, ["f32", "1.0", "scales"].map(str::to_owned))
            }
        };
        format!(
            "const COLUMNS: u32 = 8u;\n\
             alias Stored = u32;\n\
             alias Load = u32;\n\
             fn load(weight_row: u32, column: u32) -> Load {load}\n\
             fn where_there(load: Load, is_there: bool) -> Load {{ return load; }}\n\
             fn values(load: Load, quad: u32, column: u32, weight_row: u32) -> vec4<f32> {{ return {values}; }}\n\
             alias Scales = {scales};\n\
             fn shared_scales(column: u32, weight_row: u32) -> Scales {{ return {shared}; }}\n\
             fn scale(scales: Scales, output: u32) -> f32 {{ return {scale}; }}\n"
        )
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
