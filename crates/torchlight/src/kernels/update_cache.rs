//! `update_cache`: new rows into their place in a cache.

use bytemuck::{Pod, Zeroable};

use super::{Access, AttentionProblem, Bounds, Kernel, Needs, Variant, Width, Work};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "update_cache",
    wgsl: include_str!("update_cache.wgsl"),
    bindings: &[Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// Lanes to write.
    pub lanes: u32,
    /// Where they start in the cache.
    pub first_lane: u32,
}

/// The variant for rows of `width` lanes.
pub fn variant(width: Width) -> Variant {
    let block = match width {
        Width::Four => "alias Lanes = vec4<f32>;\n",
        Width::One => "alias Lanes = f32;\n",
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

/// Rows to write: `new_tokens` of `row_elements` (kv_heads * head_dim) each, from row `input_pos` on.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Elements of a row.
    pub row_elements: u32,
    /// Rows to write.
    pub new_tokens: u32,
    /// Row of the cache for the first of them.
    pub input_pos: u32,
}

impl From<AttentionProblem> for Rows {
    fn from(problem: AttentionProblem) -> Self {
        Self {
            row_elements: problem.kv_heads * problem.head_dim,
            new_tokens: problem.new_tokens,
            input_pos: problem.input_pos,
        }
    }
}

/// Params of a step.
pub fn params(rows: Rows) -> Params {
    let row_lanes = rows.row_elements / Width::dividing(rows.row_elements).elements();
    Params { lanes: rows.new_tokens * row_lanes, first_lane: rows.input_pos * row_lanes }
}

/// Workgroups of a step.
pub fn workgroups(rows: Rows) -> u64 {
    u64::from(params(rows).lanes).div_ceil(u64::from(WORKGROUP_SIZE))
}

/// What a step must do: every new element read and written.
pub fn work(rows: Rows) -> Work {
    Work { bytes: 2 * 4 * u64::from(rows.new_tokens) * u64::from(rows.row_elements), flops: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_two_moves_an_element() {
        let rows = Rows { row_elements: 2 * 16, new_tokens: 5, input_pos: 3 };
        assert_eq!(work(rows), Work { bytes: 2 * 5 * 32 * 4, flops: 0 });
    }
}
