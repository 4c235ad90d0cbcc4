//! Linear layers: the sizes and choices that their kernels share.
//!
//! A layer multiplies rows of `in_features` with the transpose of a weight `[out_features, in_features]`. Few rows take a
//! vector kernel, which reads the weight once; more take a tile kernel, which reads it once for each tile of rows.

use std::borrow::Cow;

use bytemuck::{Pod, Zeroable};

use super::{Variant, Work, linear_tile, linear_vector};

/// The most rows that a vector kernel takes.
pub const VECTOR_ROWS: u32 = 4;

/// Rows and output features of a tile.
pub(super) const TILE: [u32; 2] = [32, 64];

/// Output features of a workgroup of a vector kernel.
pub(super) const VECTOR_OUTPUTS: u32 = 8;

/// The sizes of a linear layer in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearProblem {
    /// Rows of x, and of the result.
    pub rows: u32,
    /// Elements of a row of x, and of the weight.
    pub in_features: u32,
    /// Elements of a row of the result; rows of the weight.
    pub out_features: u32,
    /// Whether a bias is added.
    pub has_bias: bool,
}

impl LinearProblem {
    /// Whether it takes a vector kernel.
    pub const fn is_vector(&self) -> bool {
        self.rows <= VECTOR_ROWS
    }

    /// Workgroups of a vector kernel.
    pub(super) const fn vectors(&self) -> u64 {
        self.out_features.div_ceil(VECTOR_OUTPUTS) as u64
    }

    /// Workgroups of a tile kernel.
    pub(super) const fn tiles(&self) -> u64 {
        let [rows, outputs] = TILE;
        self.rows.div_ceil(rows) as u64 * self.out_features.div_ceil(outputs) as u64
    }

    /// What a step must do over a weight of so many bytes.
    pub(super) const fn work(&self, weight_bytes: u64) -> Work {
        let [rows, inputs, outputs] = [self.rows as u64, self.in_features as u64, self.out_features as u64];
        let bias = if self.has_bias { outputs } else { 0 };
        Work {
            bytes: 4 * (rows * (inputs + outputs) + bias) + weight_bytes,
            flops: 2 * rows * inputs * outputs + rows * bias,
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

/// The params slot of layers over f32 weights.
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
}

/// Params of a step.
pub(super) fn params(problem: &LinearProblem) -> Params {
    let LinearProblem { rows, in_features, out_features, has_bias } = *problem;
    Params { rows, in_features, out_features, has_bias: has_bias.into() }
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

    /// Loads of f32 as a quad: `x_quad` from its first element on, and `inside`, which is 0 in columns past the last.
    pub(super) fn loads(self) -> Cow<'static, str> {
        match self {
            Self::Four => concat!(
                "alias Floats = vec4<f32>;\n",
                "fn x_quad(first: u32) -> vec4<f32> { return x[first / 4u]; }\n",
                "fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> { return quad; }\n",
            )
            .into(),
            Self::One => format!(
                "alias Floats = f32;\nfn x_quad(first: u32) -> vec4<f32> {{ return {}; }}\n\
                 fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> {{ return {INSIDE}; }}\n",
                four("x[first + #u]")
            )
            .into(),
        }
    }

    /// The load of a quad of an f32 weight.
    pub(super) fn weight_loads(self) -> Cow<'static, str> {
        match self {
            Self::Four => "fn weight_quad(first: u32) -> vec4<f32> { return weight[first / 4u]; }\n".into(),
            Self::One => {
                format!("fn weight_quad(first: u32) -> vec4<f32> {{ return {}; }}\n", four("weight[first + #u]")).into()
            }
        }
    }

    /// The store of the first `count` elements of a quad.
    pub(super) const fn stores(self) -> &'static str {
        match self {
            Self::Four => "fn store(first: u32, count: u32, quad: vec4<f32>) { out[first / 4u] = quad; }\n",
            Self::One => {
                "fn store(first: u32, count: u32, quad: vec4<f32>) \
                 { for (var i = 0u; i < count; i += 1u) { out[first + i] = quad[i]; } }\n"
            }
        }
    }
}

/// Every variant of the kernels of linear layers; of the vector kernels those of the fewest rows and the most.
pub(super) fn representatives() -> Vec<Variant> {
    let floats = Alignment::ALL.into_iter().flat_map(|alignment| {
        let [one, most] = [1, VECTOR_ROWS].map(|rows| linear_vector::variant(alignment, rows));
        [one, most, linear_tile::variant(alignment)]
    });
    floats.collect()
}

/// A quad of which columns past the last are 0.
const INSIDE: &str = "select(vec4<f32>(0.0), quad, vec4<u32>(column, column + 1u, column + 2u, column + 3u) < \
                      vec4<u32>(params.in_features))";

/// A vector of four terms that differ in the place of `#`.
pub(super) fn four(term: &str) -> String {
    let terms = ["0", "1", "2", "3"].map(|index| term.replace('#', index));
    format!("vec4<f32>({})", terms.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_each_weight_once() {
        let problem = LinearProblem { rows: 3, in_features: 5, out_features: 7, has_bias: false };
        // x 15, weight 35, out 21.
        assert_eq!(problem.work(4 * 35), Work { bytes: 4 * (15 + 35 + 21), flops: 2 * 105 });
        let biased = LinearProblem { has_bias: true, ..problem };
        assert_eq!(biased.work(4 * 35), Work { bytes: 4 * (15 + 35 + 21 + 7), flops: 2 * 105 + 21 });
    }

    #[test]
    fn workgroups_cover_what_no_tile_divides() {
        let problem = |rows, out_features| LinearProblem { rows, in_features: 8, out_features, has_bias: false };
        assert_eq!([1, 8, 9].map(|outputs| problem(1, outputs).vectors()), [1, 1, 2]);
        assert_eq!([(32, 64), (33, 64), (33, 65)].map(|(rows, outputs)| problem(rows, outputs).tiles()), [1, 2, 4]);
        assert_eq!([1, 4, 5].map(|rows| problem(rows, 8).is_vector()), [true, true, false]);
    }
}
