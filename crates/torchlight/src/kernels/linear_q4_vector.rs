//! `linear_q4_vector`: a linear layer of few rows, one pass over a weight of 4-bit numbers.

use super::linear::LinearProblem;
use super::quantised::Packing;
use super::{Access, Bounds, Kernel, Needs, Variant};

pub use super::linear::{Params, params};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "linear_q4_vector",
    wgsl: include_str!("linear_q4_vector.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The variant for at most `rows` rows, up to [`VECTOR_ROWS`](super::linear::VECTOR_ROWS).
pub fn variant(packing: Packing, rows: u32) -> Variant {
    let (floats, numbers) = (packing.alignment().loads(), packing.loads());
    Variant {
        kernel: &KERNEL,
        label: "linear_q4_vector",
        block: format!("const ROWS: u32 = {rows}u;\n{floats}{numbers}").into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: rows * WORKGROUP_SIZE * 16,
        needs: Needs::default(),
    }
}

/// Workgroups of a step, whatever its rows.
pub fn workgroups(problem: &LinearProblem) -> u64 {
    problem.vectors()
}
