//! `calibrate_matrix`: how fast the device's matrix units are, with f16 operands and f32 sums.

use bytemuck::{Pod, Zeroable};

use super::{Access, Bounds, Kernel, Needs, Variant, Work};

/// Invocations of a workgroup: four subgroups of 32.
pub const WORKGROUP_SIZE: u32 = 128;
/// Subgroups of a workgroup.
pub const SUBGROUPS: u32 = 4;
/// Products of a subgroup in one iteration: eight steps of four sums.
pub const PRODUCTS: u32 = 8 * 4;
/// Operations of a product of 16 x 16 matrices.
const PRODUCT_FLOPS: u64 = 2 * 16 * 16 * 16;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "calibrate_matrix",
    wgsl: include_str!("calibrate_matrix.wgsl"),
    bindings: &[Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Argued,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Params {
    /// Turns of the loop.
    pub iterations: u32,
    /// Workgroups that work; each writes four matrices.
    pub workgroups: u32,
}

/// The one variant.
pub fn variant() -> Variant {
    Variant {
        kernel: &KERNEL,
        label: KERNEL.stem,
        block: "".into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: 4 * 256 * 2,
        needs: Needs { subgroup_size: 32, shader_f16: true, cooperative_matrix: true },
    }
}

/// What it must do: the products; loading operands and adding the sums are left out.
pub fn work(params: Params) -> Work {
    let (iterations, subgroups) = (u64::from(params.iterations), u64::from(params.workgroups * SUBGROUPS));
    Work { bytes: 4 * 256 * subgroups, flops: u64::from(PRODUCTS) * PRODUCT_FLOPS * iterations * subgroups }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_32_products_a_subgroup() {
        let params = Params { iterations: 10, workgroups: 3 };
        assert_eq!(work(params), Work { bytes: 12 * 1024, flops: 32 * 8192 * 10 * 12 });
    }
}
