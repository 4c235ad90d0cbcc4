//! Linear layers: the sizes and choices that their kernels share.
//!
//! A layer multiplies rows of `in_features` with the transpose of a weight. Few rows take a vector kernel, which reads the
//! weight once; more take a tile kernel, which reads it once for each tile of rows. A norm of the rows in front, and what
//! becomes of the product behind, belong to the layer.

use bytemuck::{Pod, Zeroable};

use super::quantised::Packing;
use super::{Variant, Work, linear_matrix, linear_tile, linear_vector, rms_norm};

/// The most rows that a vector kernel takes.
pub const VECTOR_ROWS: u32 = 4;

/// A linear layer in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinearProblem {
    /// Rows of x, and of the result.
    pub rows: u32,
    /// Elements of a row of x, and of the weight.
    pub in_features: u32,
    /// Elements of a row of the result.
    pub out_features: u32,
    /// The type of the weight.
    pub weight: WeightType,
    /// Whether a bias is added to the product: an element for each row of the weight.
    pub has_bias: bool,
    /// Whether x is divided by the root of its rows' mean squares, and multiplied by a weight of their norm, in front.
    pub has_norm: bool,
    /// What becomes of the product.
    pub ending: Ending,
}

impl LinearProblem {
    /// Rows of the weight: the elements of a row of the product.
    pub const fn weight_rows(&self) -> u32 {
        match self.ending {
            Ending::Plain | Ending::Add => self.out_features,
            Ending::SwiGlu => 2 * self.out_features,
        }
    }

    /// Whether it takes a vector kernel.
    pub const fn is_vector(&self) -> bool {
        self.rows <= VECTOR_ROWS
    }

    /// What a step must do: read x, the norm's weight, weight, scales, bias and residual once, write the result. A norm is
    /// what `rms_norm` does; an element of SwiGLU is a sigmoid and two products.
    pub fn work(&self) -> Work {
        let [rows, inputs, outputs] = [self.rows, self.in_features, self.out_features].map(u64::from);
        let products = u64::from(self.weight_rows());
        let bias = if self.has_bias { products } else { 0 };
        let norm = if self.has_norm { inputs } else { 0 };
        let norm_flops = match self.has_norm {
            true => rms_norm::work(rms_norm::Rows { rows: self.rows, width: self.in_features }).flops,
            false => 0,
        };
        let (residual, ending_flops) = match self.ending {
            Ending::Plain => (0, 0),
            Ending::Add => (rows * outputs, rows * outputs),
            Ending::SwiGlu => (0, 6 * rows * outputs),
        };
        Work {
            bytes: 4 * (rows * (inputs + outputs) + norm + bias + residual) + self.weight.size_bytes(inputs, products),
            flops: 2 * rows * inputs * products + rows * bias + norm_flops + ending_flops,
        }
    }
}

/// What becomes of a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It is the result.
    #[default]
    Plain,
    /// A residual of the result's shape is added.
    Add,
    /// The weight has the rows of a gate, then as many of an up projection: the result is `silu(gate) * up`.
    SwiGlu,
}

/// The type in which layers of many rows multiply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Products {
    /// 32-bit floats, as the program has it.
    #[default]
    F32,
    /// 16-bit floats with sums of 32 bits, where the device has cooperative matrices: several times as fast, and x and weights
    /// are rounded to 11 bits.
    F16,
}

/// The type of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightType {
    /// 32-bit floats.
    F32,
    /// Numbers of 4 bits; so many columns share a scale.
    Q4 {
        /// Columns that share a scale.
        group: u32,
    },
}

impl WeightType {
    /// Columns that share a scale, or 1 where there are none.
    pub const fn group(self) -> u32 {
        match self {
            Self::F32 => 1,
            Self::Q4 { group } => group,
        }
    }

    /// Bytes of a weight with its scales.
    const fn size_bytes(self, columns: u64, rows: u64) -> u64 {
        match self {
            Self::F32 => 4 * columns * rows,
            Self::Q4 { group } => rows * (columns / 2 + 4 * (columns / group as u64)),
        }
    }
}

/// What a variant of a kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// How x and weight are loaded.
    pub loads: Loads,
    /// Whether a norm stands in front.
    pub has_norm: bool,
    /// What becomes of the product.
    pub ending: Ending,
}

impl Form {
    /// The form of a problem, with the widest loads that fit.
    pub const fn of(problem: &LinearProblem) -> Self {
        let LinearProblem { in_features, out_features, weight, has_norm, ending, .. } = *problem;
        Self { loads: Loads::of(weight, in_features, out_features), has_norm, ending }
    }
}

/// How x, weight and result are loaded and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loads {
    /// An f32 weight.
    F32(Alignment),
    /// A weight of 4-bit numbers.
    Q4(Packing),
}

impl Loads {
    /// The widest that fit.
    pub const fn of(weight: WeightType, in_features: u32, out_features: u32) -> Self {
        match weight {
            WeightType::F32 => Self::F32(Alignment::of(in_features, out_features)),
            WeightType::Q4 { group } => Self::Q4(Packing::of(in_features, out_features, group)),
        }
    }

    /// The narrowest for a type of weights: what serves sizes that are known only when they are there.
    pub const fn any(weight: WeightType) -> Self {
        match weight {
            WeightType::F32 => Self::F32(Alignment::One),
            WeightType::Q4 { .. } => Self::Q4(Packing::Any),
        }
    }
}

/// The params slot of every kernel of linear layers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// Rows of x.
    pub rows: u32,
    /// Elements of a row of x.
    pub in_features: u32,
    /// Elements of a row of the result.
    pub out_features: u32,
    /// 1 where a bias is added, or 0.
    pub has_bias: u32,
    /// Columns that share a scale; 1 where there are none.
    pub group: u32,
    /// Added to the mean square, where a norm stands in front.
    pub eps: f32,
}

/// Params of a step.
pub fn params(problem: &LinearProblem, eps: f32) -> Params {
    let LinearProblem { rows, in_features, out_features, weight, has_bias, .. } = *problem;
    Params { rows, in_features, out_features, has_bias: has_bias.into(), group: weight.group(), eps }
}

/// How x, an f32 weight and the result are loaded and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alignment {
    /// Four elements at a time: both numbers of features are multiples of four.
    Four,
    /// One at a time.
    One,
}

impl Alignment {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Four, Self::One];

    /// The widest that fits.
    pub const fn of(in_features: u32, out_features: u32) -> Self {
        if in_features.is_multiple_of(4) && out_features.is_multiple_of(4) { Self::Four } else { Self::One }
    }
}

/// Some of everything of the kernels.
pub(super) fn representatives() -> Vec<Variant> {
    let kernels = [linear_vector::representatives(), linear_tile::representatives(), linear_matrix::representatives()];
    kernels.into_iter().flatten().collect()
}

/// A quad of which columns past the last are 0.
pub(super) const INSIDE: &str = "select(vec4<f32>(0.0), quad, vec4<u32>(column, column + 1u, column + 2u, column + 3u) < \
                      vec4<u32>(params.in_features))";

/// A vector of four terms that differ in the place of `#`.
pub(super) fn four(term: &str) -> String {
    let terms = ["0", "1", "2", "3"].map(|index| term.replace('#', index));
    format!("vec4<f32>({})", terms.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: LinearProblem = LinearProblem {
        rows: 3,
        in_features: 5,
        out_features: 7,
        weight: WeightType::F32,
        has_bias: false,
        has_norm: false,
        ending: Ending::Plain,
    };

    #[test]
    fn work_counts_each_element_once() {
        // x 15, weight 35, out 21.
        assert_eq!(PLAIN.work(), Work { bytes: 4 * (15 + 35 + 21), flops: 2 * 105 });
        let biased = LinearProblem { has_bias: true, ..PLAIN };
        assert_eq!(biased.work(), Work { bytes: 4 * (15 + 35 + 21 + 7), flops: 2 * 105 + 21 });
        let normed = LinearProblem { has_norm: true, ..PLAIN };
        assert_eq!(normed.work(), Work { bytes: 4 * (15 + 5 + 35 + 21), flops: 2 * 105 + 3 * (4 * 5 + 3) });
        let added = LinearProblem { ending: Ending::Add, ..PLAIN };
        assert_eq!(added.work(), Work { bytes: 4 * (15 + 35 + 21 + 21), flops: 2 * 105 + 21 });
        let gated = LinearProblem { ending: Ending::SwiGlu, has_bias: true, ..PLAIN };
        assert_eq!(gated.work(), Work { bytes: 4 * (15 + 70 + 14 + 21), flops: 2 * 210 + 42 + 6 * 21 });
    }

    #[test]
    fn work_counts_each_number_and_scale_once() {
        let packed = LinearProblem { in_features: 12, out_features: 5, weight: WeightType::Q4 { group: 6 }, ..PLAIN };
        // x 36 and out 15 of 4 bytes; 60 numbers of half a byte; 10 scales.
        assert_eq!(packed.work(), Work { bytes: 4 * (36 + 15) + 30 + 40, flops: 2 * 180 });
    }

    #[test]
    fn few_rows_take_a_vector_kernel() {
        assert_eq!([1, 4, 5].map(|rows| LinearProblem { rows, ..PLAIN }.is_vector()), [true, true, false]);
    }
}
