//! `calibrate_fma`: how fast the device computes in f32.

use bytemuck::{Pod, Zeroable};

use super::{Access, Kernel, Variant, Work};

/// Multiply-adds of an invocation in one iteration: eight steps of eight chains of four lanes.
const FMAS: u64 = 8 * 8 * 4;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "calibrate_fma",
    wgsl: include_str!("calibrate_fma.wgsl"),
    bindings: &[Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    workgroup_size: 256,
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

/// The one variant.
pub fn variant() -> Variant {
    Variant { kernel: &KERNEL, label: KERNEL.stem, block: "", workgroup_bytes: 0 }
}

/// Workgroups for a number of invocations.
pub fn workgroups(params: Params) -> u64 {
    u64::from(params.invocations).div_ceil(u64::from(KERNEL.workgroup_size))
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
