//! `calibrate_copy`: how fast the device moves bytes.

use bytemuck::{Pod, Zeroable};

use super::{Access, Bounds, Kernel, Needs, Variant, Work};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 256;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "calibrate_copy",
    wgsl: include_str!("calibrate_copy.wgsl"),
    bindings: &[Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Params {
    /// Lanes of 16 bytes to copy.
    pub lanes: u32,
}

/// The one variant.
pub fn variant() -> Variant {
    Variant {
        kernel: &KERNEL,
        label: KERNEL.stem,
        block: "".into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: 0,
        needs: Needs::default(),
    }
}

/// Workgroups for a number of lanes.
pub fn workgroups(params: Params) -> u64 {
    u64::from(params.lanes).div_ceil(u64::from(WORKGROUP_SIZE))
}

/// What it must do: every lane read and written.
pub fn work(params: Params) -> Work {
    Work { bytes: 2 * 16 * u64::from(params.lanes), flops: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_sixteen_bytes_read_and_written() {
        assert_eq!(work(Params { lanes: 100 }).bytes, 3200);
        assert_eq!(workgroups(Params { lanes: 257 }), 2);
    }
}
