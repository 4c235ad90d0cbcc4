//! `embedding`: rows of a table, by their ids.

use bytemuck::{Pod, Zeroable};

use super::{Access, Bounds, Kernel, Lane, Needs, Variant, Work};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "embedding",
    wgsl: include_str!("embedding.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// Lanes of the result.
    pub lanes: u32,
    /// Lanes of a row.
    pub row_lanes: u32,
    /// Rows of the table.
    pub rows: u32,
}

/// The variant for a width of lanes.
pub fn variant(lane: Lane) -> Variant {
    let block = match lane {
        Lane::Four => "alias Lanes = vec4<f32>;\n",
        Lane::One => "alias Lanes = f32;\n",
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

/// The sizes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Ids to look up.
    pub ids: u32,
    /// Rows of the table.
    pub rows: u32,
    /// Elements of a row.
    pub width: u32,
}

/// Params of a step.
pub fn params(lookup: Lookup, lane: Lane) -> Params {
    let row_lanes = lookup.width / lane.elements();
    Params { lanes: lookup.ids * row_lanes, row_lanes, rows: lookup.rows }
}

/// Workgroups of a step.
pub fn workgroups(lookup: Lookup, lane: Lane) -> u64 {
    u64::from(params(lookup, lane).lanes).div_ceil(u64::from(WORKGROUP_SIZE))
}

/// What a step must do: read each id and its row, write the row. Ids that repeat read their row again.
pub fn work(lookup: Lookup) -> Work {
    let (ids, width) = (u64::from(lookup.ids), u64::from(lookup.width));
    Work { bytes: 4 * (ids + 2 * ids * width), flops: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_reads_the_rows_that_are_asked_for() {
        let lookup = Lookup { ids: 3, rows: 1000, width: 8 };
        assert_eq!(work(lookup), Work { bytes: 4 * (3 + 24 + 24), flops: 0 });
    }
}
