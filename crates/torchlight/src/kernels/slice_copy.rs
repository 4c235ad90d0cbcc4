//! `slice_copy`: positions of one dimension of a tensor, evenly spaced.

use bytemuck::{Pod, Zeroable};

use super::{Access, Bounds, Kernel, Lane, Needs, Variant, Work};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "slice_copy",
    wgsl: include_str!("slice_copy.wgsl"),
    bindings: &[Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// Lanes of the result.
    pub lanes: u32,
    /// Lanes behind the sliced dimension.
    pub inner_lanes: u32,
    /// Positions of the result.
    pub count: u32,
    /// Positions of the whole.
    pub size: u32,
    /// The first position.
    pub first: u32,
    /// From one position to the next.
    pub step: u32,
}

/// The variant for a width of lanes.
pub fn variant(lane: Lane) -> Variant {
    let block = match lane {
        Lane::Four => "alias Lanes = vec4<u32>;\n",
        Lane::One => "alias Lanes = u32;\n",
    };
    Variant {
        kernel: &KERNEL,
        label: KERNEL.stem,
        block: block.into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: 0,
        needs: Needs::default(),
    }
}

/// A slice of a tensor of elements of 4 bytes, seen as `[outer, size, inner]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Elements before the sliced dimension.
    pub outer: u32,
    /// Positions of the whole.
    pub size: u32,
    /// Elements behind the sliced dimension.
    pub inner: u32,
    /// The first position.
    pub first: u32,
    /// Positions of the result.
    pub count: u32,
    /// From one position to the next.
    pub step: u32,
}

/// Params of a step; `lane` divides the inner elements.
pub fn params(slice: Slice, lane: Lane) -> Params {
    let Slice { outer, size, inner, first, count, step } = slice;
    let inner_lanes = inner / lane.elements();
    Params { lanes: outer * count * inner_lanes, inner_lanes, count, size, first, step }
}

/// Workgroups of a step.
pub fn workgroups(slice: Slice, lane: Lane) -> u64 {
    u64::from(params(slice, lane).lanes).div_ceil(u64::from(WORKGROUP_SIZE))
}

/// What a step must do: read and write what the slice holds.
pub fn work(slice: Slice) -> Work {
    Work { bytes: 8 * u64::from(slice.outer) * u64::from(slice.count) * u64::from(slice.inner), flops: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_of_the_slice_alone() {
        let slice = Slice { outer: 2, size: 100, inner: 8, first: 90, count: 3, step: 4 };
        assert_eq!(work(slice), Work { bytes: 8 * 48, flops: 0 });
        let params = params(slice, Lane::Four);
        assert_eq!((params.lanes, params.inner_lanes), (12, 2));
    }
}
