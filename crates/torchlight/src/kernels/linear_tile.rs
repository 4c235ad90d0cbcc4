//! `linear_tile`: a linear layer of many rows over an f32 weight, tile by tile.

use super::linear::{self, Alignment, LinearProblem};
use super::{Access, Bounds, Kernel, Needs, Variant};

pub use super::linear::{Params, params};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 128;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "linear_tile",
    wgsl: include_str!("linear_tile.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The variant for an alignment.
pub fn variant(alignment: Alignment) -> Variant {
    let (loads, weight_loads, stores) = (alignment.loads(), alignment.weight_loads(), alignment.stores());
    let [rows, outputs] = linear::TILE;
    Variant {
        kernel: &KERNEL,
        label: "linear_tile",
        block: format!("{loads}{weight_loads}{stores}").into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: (rows + outputs) * 32 * 4,
        needs: Needs::default(),
    }
}

/// Workgroups of a step.
pub fn workgroups(problem: &LinearProblem) -> u64 {
    problem.tiles()
}
