//! `update_cache`: new rows into their place in a cache.

use bytemuck::{Pod, Zeroable};

use super::{Access, AttentionProblem, Bounds, Kernel, KvType, Needs, Variant, Width, Work};

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
pub fn variant(width: Width, kv: KvType) -> Variant {
    let pack = match (width, kv) {
        (Width::Four, KvType::F16) => "fn pack(x: Lanes) -> Stored { return Stored(pair(x.xy), pair(x.zw)); }\n",
        (Width::Two, _) => "fn pack(x: Lanes) -> Stored { return pair(x); }\n",
        (Width::Four | Width::One, _) => "fn pack(x: Lanes) -> Stored { return x; }\n",
    };
    let block = [width.aliases(kv), pack].concat();
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
pub fn params(rows: Rows, kv: KvType) -> Params {
    let row_lanes = rows.row_elements / Width::dividing(rows.row_elements, kv).elements();
    Params { lanes: rows.new_tokens * row_lanes, first_lane: rows.input_pos * row_lanes }
}

/// Workgroups of a step.
pub fn workgroups(rows: Rows, kv: KvType) -> u64 {
    u64::from(params(rows, kv).lanes).div_ceil(u64::from(WORKGROUP_SIZE))
}

/// What a step must do: every new element read, and written as the cache holds it.
pub fn work(rows: Rows, kv: KvType) -> Work {
    Work { bytes: u64::from(4 + kv.size_bytes()) * u64::from(rows.new_tokens) * u64::from(rows.row_elements), flops: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_two_moves_an_element() {
        let rows = Rows { row_elements: 2 * 16, new_tokens: 5, input_pos: 3 };
        assert_eq!(work(rows, KvType::F32), Work { bytes: 2 * 5 * 32 * 4, flops: 0 });
        assert_eq!(work(rows, KvType::F16), Work { bytes: 5 * 32 * 6, flops: 0 });
    }
}
