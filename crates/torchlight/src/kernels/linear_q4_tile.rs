//! `linear_q4_tile`: a linear layer of many rows over a weight of 4-bit numbers, tile by tile.

use super::linear::{self, LinearProblem};
use super::quantised::Packing;
use super::{Access, Bounds, Kernel, Needs, Variant};

pub use super::linear::{Params, params};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 128;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "linear_q4_tile",
    wgsl: include_str!("linear_q4_tile.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The variant for a packing. An invocation takes a word at a time, also where four would fit.
pub fn variant(packing: Packing) -> Variant {
    let packing = if packing == Packing::Loads { Packing::Words } else { packing };
    let (floats, numbers, stores) = (packing.alignment().loads(), packing.loads(), packing.alignment().stores());
    let [rows, outputs] = linear::TILE;
    Variant {
        kernel: &KERNEL,
        label: "linear_q4_tile",
        block: format!("{floats}{numbers}{stores}").into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: (rows + outputs) * 32 * 4,
        needs: Needs::default(),
    }
}

/// Workgroups of a step.
pub fn workgroups(problem: &LinearProblem) -> u64 {
    problem.tiles()
}
