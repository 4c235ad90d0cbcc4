//! `linear_vector`: a linear layer of few rows, one pass over an f32 weight.

use super::linear::{Alignment, LinearProblem};
use super::{Access, Bounds, Kernel, Needs, Variant};

pub use super::linear::{Params, params};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "linear_vector",
    wgsl: include_str!("linear_vector.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The variant for at most `rows` rows, up to [`VECTOR_ROWS`](linear::VECTOR_ROWS).
pub fn variant(alignment: Alignment, rows: u32) -> Variant {
    let (loads, weight_loads) = (alignment.loads(), alignment.weight_loads());
    Variant {
        kernel: &KERNEL,
        label: "linear_vector",
        block: format!("const ROWS: u32 = {rows}u;\n{loads}{weight_loads}").into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: rows * WORKGROUP_SIZE * 16,
        needs: Needs::default(),
    }
}

/// Workgroups of a step, whatever its rows.
pub fn workgroups(problem: &LinearProblem) -> u64 {
    problem.vectors()
}
