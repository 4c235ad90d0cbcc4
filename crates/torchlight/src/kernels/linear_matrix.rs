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
    /// Matrices of sums of a subgroup: along rows and along outputs. With SwiGLU the latter are even.
    pub tiles: [u32; 2],
    /// Subgroups along rows, along outputs, and of the same sums over different columns.
    pub ways: [u32; 3],
    /// Columns of a lot, of which each way has one in workgroup memory: a multiple of 16. A quad of them is loaded by an
    /// invocation, so the quads divide the invocations of a way.
    pub columns: u32,
    /// Lots that are on their way in registers while one is used.
    pub ahead: u32,
}

/// What [`Shape::of`] chooses from: shapes by growing tiles, and what 64 columns of a workgroup cost in nanoseconds, as
/// measured on an H200. Tiles of few rows make up for it by subgroups that share the columns.
const CANDIDATES: [(Shape, u64); 10] = [
    (Shape { tiles: [1, 1], ways: [1, 1, 8], columns: 32, ahead: 2 }, 110),
    (Shape { tiles: [1, 2], ways: [1, 1, 8], columns: 32, ahead: 2 }, 170),
    (Shape { tiles: [1, 1], ways: [2, 2, 2], columns: 64, ahead: 2 }, 290),
    (Shape { tiles: [1, 1], ways: [3, 3, 1], columns: 128, ahead: 1 }, 420),
    (Shape { tiles: [1, 2], ways: [2, 2, 2], columns: 32, ahead: 2 }, 500),
    (Shape { tiles: [2, 2], ways: [2, 2, 1], columns: 64, ahead: 1 }, 630),
    (Shape { tiles: [1, 2], ways: [3, 3, 1], columns: 64, ahead: 1 }, 840),
    (Shape { tiles: [2, 4], ways: [2, 2, 1], columns: 64, ahead: 1 }, 980),
    (Shape { tiles: [2, 2], ways: [4, 3, 1], columns: 64, ahead: 1 }, 1150),
    (Shape { tiles: [2, 4], ways: [4, 2, 1], columns: 64, ahead: 1 }, 1420),
];
/// What a workgroup costs besides, in nanoseconds: to begin, and to write its result.
const WORKGROUP_NS: u64 = 1500;
/// Workgroups that run at once: an H200 has so many multiprocessors, each with workgroup memory for one of these.
const AT_ONCE: u64 = 132;

impl Shape {
    /// The shape for a problem, or for the largest that a variant is to serve: the one that should be done first.
    pub fn of(problem: &LinearProblem) -> Self {
        let cost = |(shape, ns): &(Self, u64)| {
            let turns = workgroups(problem, *shape).div_ceil(AT_ONCE);
            turns * (64 * WORKGROUP_NS + ns * u64::from(problem.in_features))
        };
        let serves = |(shape, _): &&(Self, u64)| shape.tiles[1].is_multiple_of(halves(problem.ending));
        // A shape for every ending is among them.
        CANDIDATES.iter().filter(serves).min_by_key(|candidate| cost(candidate)).map_or(CANDIDATES[5].0, |best| best.0)
    }

    /// Every shape that serves an ending.
    pub fn all(ending: Ending) -> impl Iterator<Item = Self> {
        let serves = move |shape: &Self| shape.tiles[1].is_multiple_of(halves(ending));
        CANDIDATES.into_iter().map(|(shape, _)| shape).filter(serves)
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

    /// Bytes of workgroup memory: a lot for each way in rows of 16 bytes more than they hold, and a matrix of sums for each
    /// subgroup in rows of five quads.
    pub const fn workgroup_bytes(self) -> u32 {
        let lots = self.ways[2] * (self.rows() + self.outputs()) * (self.columns + 8) * 2;
        lots + self.subgroups() * MATRIX * 80
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
    let Shape { tiles, ways, columns, ahead } = shape;
    let mut block = String::new();
    let constants = [
        ("ROW_TILES", tiles[0]),
        ("OUTPUT_TILES", tiles[1]),
        ("ROW_WAYS", ways[0]),
        ("OUTPUT_WAYS", ways[1]),
        ("COLUMN_WAYS", ways[2]),
        ("COLUMNS", columns),
        ("AHEAD", ahead),
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

/// Every shape for each type of weights, with all endings among them.
pub(super) fn representatives() -> Vec<Variant> {
    let loads = [Loads::of(WeightType::F32, 64, 64), Loads::of(WeightType::Q4 { group: 32 }, 64, 64)];
    let endings = |(index, (shape, _)): (usize, (Shape, u64))| {
        let own = [Ending::Plain, Ending::Add][index % 2];
        let gated = shape.tiles[1].is_multiple_of(2).then_some(Ending::SwiGlu);
        [own].into_iter().chain(gated).map(move |ending| (shape, ending))
    };
    let cuts = CANDIDATES.into_iter().enumerate().map(|(index, candidate)| (index + 1, candidate)).flat_map(endings);
    cuts.flat_map(|(shape, ending)| loads.map(|loads| variant(Form { loads, has_norm: false, ending }, shape)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem([rows, in_features, out_features]: [u32; 3], ending: Ending) -> LinearProblem {
        let weight = WeightType::Q4 { group: 32 };
        LinearProblem { rows, in_features, out_features, weight, has_bias: false, has_norm: false, ending }
    }

    #[test]
    fn tiles_grow_with_the_problem() {
        for (sizes, ending, wanted) in [
            ([16, 576, 960], Ending::Plain, [16, 16, 60]),
            ([16, 576, 1536], Ending::SwiGlu, [16, 32, 96]),
            ([64, 576, 960], Ending::Plain, [16, 32, 120]),
            ([128, 576, 576], Ending::Add, [32, 32, 72]),
            ([512, 576, 576], Ending::Add, [48, 48, 132]),
            ([512, 1536, 576], Ending::Add, [48, 48, 132]),
            ([512, 576, 960], Ending::Plain, [64, 64, 120]),
            ([1024, 576, 576], Ending::Add, [48, 96, 132]),
            ([512, 2048, 2048], Ending::Plain, [64, 128, 128]),
            ([512, 576, 1536], Ending::SwiGlu, [128, 96, 128]),
            ([512, 2048, 8192], Ending::Plain, [128, 128, 256]),
        ] {
            let problem = problem(sizes, ending);
            let shape = Shape::of(&problem);
            let got = [u64::from(shape.rows()), u64::from(shape.outputs()), workgroups(&problem, shape)];
            assert_eq!(got, wanted, "{problem:?}");
        }
    }

    #[test]
    fn shapes_are_what_the_kernel_can_do() {
        for (shape, _) in CANDIDATES {
            let way_invocations = shape.ways[0] * shape.ways[1] * SUBGROUP;
            assert!(
                shape.columns.is_multiple_of(MATRIX) && way_invocations.is_multiple_of(shape.columns / 4),
                "{shape:?}"
            );
            assert!(shape.workgroup_bytes() <= 49152, "{shape:?}: {}", shape.workgroup_bytes());
        }
    }

    #[test]
    fn what_divides_into_whole_loads_suits() {
        let rows = |rows| problem([rows, 64, 64], Ending::Plain);
        assert!(suits(&rows(5)) && !suits(&rows(4)));
        assert!(!suits(&LinearProblem { has_norm: true, ..rows(9) }));
        for ([in_features, out_features], weight, wanted) in [
            ([36, 4], WeightType::F32, true),
            ([34, 4], WeightType::F32, false),
            ([36, 6], WeightType::F32, false),
            ([40, 4], WeightType::Q4 { group: 8 }, true),
            ([36, 4], WeightType::Q4 { group: 36 }, false),
            ([40, 4], WeightType::Q4 { group: 20 }, false),
        ] {
            let problem = LinearProblem { in_features, out_features, weight, ..rows(9) };
            assert_eq!(suits(&problem), wanted, "{problem:?}");
        }
    }
}
