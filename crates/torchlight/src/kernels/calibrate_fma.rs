//! `calibrate_fma`: how fast the device computes in f32 and f16.

use bytemuck::{Pod, Zeroable};

use super::{Access, Bounds, Kernel, Needs, Variant, Work};

/// Multiply-adds of an invocation in one iteration: eight steps of eight chains of four lanes.
const FMAS: u64 = 8 * 8 * 4;

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 256;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "calibrate_fma",
    wgsl: include_str!("calibrate_fma.wgsl"),
    bindings: &[Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Params {
    /// Turns of the loop.
    pub iterations: u32,
    /// Invocations that work; each writes 16 bytes.
    pub invocations: u32,
}

/// The type that is computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Real {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
}

/// The variant for a type.
pub fn variant(real: Real) -> Variant {
    let (label, block) = match real {
        Real::F32 => ("calibrate_fma_f32", "alias Real = f32;\n"),
        Real::F16 => ("calibrate_fma_f16", "enable f16;\nalias Real = f16;\n"),
    };
    Variant {
        kernel: &KERNEL,
        label,
        block: block.into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: 0,
        needs: Needs { shader_f16: real == Real::F16, ..Needs::default() },
    }
}

/// Workgroups for a number of invocations.
pub fn workgroups(params: Params) -> u64 {
    u64::from(params.invocations).div_ceil(u64::from(WORKGROUP_SIZE))
}

/// What it must do: two operations a multiply-add; the few before and after the loop are left out.
pub fn work(params: Params) -> Work {
    let (iterations, invocations) = (u64::from(params.iterations), u64::from(params.invocations));
    Work { bytes: 16 * invocations, flops: 2 * FMAS * iterations * invocations }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_512_operations() {
        let params = Params { iterations: 10, invocations: 3 };
        assert_eq!(work(params), Work { bytes: 48, flops: 512 * 10 * 3 });
    }
}
