//! `linear_matrix`: a linear layer of many rows on cooperative matrices.

use std::fmt::Write as _;

use super::linear::{Ending, Form, LinearProblem, Loads, VECTOR_ROWS, WeightType};
use super::linear_tile::{ending, halves};
use super::{Access, Bounds, Kernel, Needs, Variant};

pub use super::linear::{Params, params};

/// Invocations of a subgroup: the kernel is written for this size.
pub const SUBGROUP: u32 = 32;
/// Rows and columns of a matrix.
pub const MATRIX: u32 = 16;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "linear_matrix",
    wgsl: include_str!("linear_matrix.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::Read, Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Argued,
};

/// How a workgroup is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Matrices of sums of a subgroup: along rows and along outputs, which must be even with SwiGLU.
    pub tiles: [u32; 2],
    /// Subgroups along rows, along outputs, and of the same sums that share the columns.
    pub ways: [u32; 3],
    /// Columns in workgroup memory at a time: a multiple of 16 for each of the subgroups that share them.
    pub columns: u32,
    /// Lots of columns in workgroup memory: 1 or 2.
    pub stages: u32,
    /// Lots of columns that are on their way in registers while one is used: 1 or 2.
    pub ahead: u32,
}

impl Shape {
    /// The shape for a problem, or for the largest that a variant is to serve.
    pub const fn of(_problem: &LinearProblem) -> Self {
        Self { tiles: [2, 4], ways: [2, 2, 1], columns: 32, stages: 1, ahead: 1 }
    }

    /// Subgroups of a workgroup.
    pub const fn subgroups(self) -> u32 {
        self.ways[0] * self.ways[1] * self.ways[2]
    }

    /// Rows of x of a workgroup.
    pub const fn rows(self) -> u32 {
        self.tiles[0] * self.ways[0] * MATRIX
    }

    /// Rows of the weight of a workgroup.
    pub const fn outputs(self) -> u32 {
        self.tiles[1] * self.ways[1] * MATRIX
    }

    /// Bytes of workgroup memory.
    pub const fn workgroup_bytes(self) -> u32 {
        self.ways[2] * self.stages * (self.rows() + self.outputs()) * (self.columns + 8) * 2
            + self.subgroups() * MATRIX * 20 * 4
    }
}

/// Whether it takes a problem: more rows than a vector kernel has, no norm, and rows that divide into whole loads.
pub const fn suits(problem: &LinearProblem) -> bool {
    let LinearProblem { rows, in_features, out_features, weight, has_norm, .. } = *problem;
    let columns = match weight {
        WeightType::F32 => in_features.is_multiple_of(4),
        WeightType::Q4 { group } => in_features.is_multiple_of(8) && group.is_multiple_of(8),
    };
    rows > VECTOR_ROWS && !has_norm && columns && out_features.is_multiple_of(4)
}

/// The variant for a form without a norm, in a shape. Loads are the widest in any case.
pub fn variant(form: Form, shape: Shape) -> Variant {
    let Shape { tiles, ways, columns, stages, ahead } = shape;
    let mut block = String::new();
    let constants = [
        ("ROW_TILES", tiles[0]),
        ("OUTPUT_TILES", tiles[1]),
        ("ROW_WAYS", ways[0]),
        ("OUTPUT_WAYS", ways[1]),
        ("COLUMN_WAYS", ways[2]),
        ("COLUMNS", columns),
        ("STAGES", stages),
        ("AHEAD", ahead),
        ("TURNS", if stages > ahead { stages } else { ahead }),
        ("ENDING", ending(form.ending)),
        ("HALVES", halves(form.ending)),
    ];
    for (name, value) in constants {
        // Writing to a string cannot fail.
        _ = writeln!(block, "const {name}: u32 = {value}u;");
    }
    let (label, words) = match form.loads {
        Loads::F32(_) => ("linear_matrix_f32", FLOATS),
        Loads::Q4(_) => ("linear_matrix_q4", NUMBERS),
    };
    block.push_str(words);
    Variant {
        kernel: &KERNEL,
        label,
        block: block.into(),
        workgroup_size: shape.subgroups() * SUBGROUP,
        workgroup_bytes: shape.workgroup_bytes(),
        needs: Needs { subgroup_size: SUBGROUP, shader_f16: true, cooperative_matrix: true },
    }
}

const FLOATS: &str = "const WORD_QUADS: u32 = 1u;
alias Word = vec4<f32>;
fn load_scale(column: u32, row: u32) -> f32 { return 1.0; }
fn exact(word: Word, part: u32, scale: f32) -> vec4<f32> { return word; }
fn rounded(word: Word, part: u32, scale: f32) -> vec4<f16> { return vec4<f16>(word); }
";

const NUMBERS: &str = "const WORD_QUADS: u32 = 2u;
alias Word = u32;
fn load_scale(column: u32, row: u32) -> f32 { return scales[column / params.group * HALVES * params.out_features + row]; }
fn four(word: Word, part: u32, scale: vec2<f16>) -> vec4<f16> { return vec4<f16>((numbers(word) * scale)[part], (numbers(word >> 4u) * scale)[part], (numbers(word >> 8u) * scale)[part], (numbers(word >> 12u) * scale)[part]); }
fn exact(word: Word, part: u32, scale: f32) -> vec4<f32> { return vec4<f32>(four(word, part, vec2<f16>(1.0h))) * scale; }
fn rounded(word: Word, part: u32, scale: f32) -> vec4<f16> { return four(word, part, vec2<f16>(f16(scale))); }
";

/// Workgroups of a step.
pub const fn workgroups(problem: &LinearProblem, shape: Shape) -> u64 {
    let features = shape.outputs() / halves(problem.ending);
    problem.rows.div_ceil(shape.rows()) as u64 * problem.out_features.div_ceil(features) as u64
}

/// Variants of every kind.
pub(super) fn representatives() -> Vec<Variant> {
    let loads = [Loads::of(WeightType::F32, 64, 64), Loads::of(WeightType::Q4 { group: 32 }, 64, 64)];
    let forms = loads.into_iter().flat_map(|loads| {
        [Ending::Plain, Ending::Add, Ending::SwiGlu].map(|ending| Form { loads, has_norm: false, ending })
    });
    forms.flat_map(|form| shapes().map(|shape| variant(form, shape))).collect()
}

/// Every shape that [`Shape::of`] gives.
fn shapes() -> [Shape; 1] {
    [Shape { tiles: [2, 4], ways: [2, 2, 1], columns: 32, stages: 1, ahead: 1 }]
}
