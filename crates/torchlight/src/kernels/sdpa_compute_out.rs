//! `sdpa_compute_out`: weights times values.

use bytemuck::{Pod, Zeroable};

use super::{Access, AttentionProblem, Bounds, Kernel, KvType, Needs, Variant, Width, Work};

/// Lanes that one workgroup makes; the WGSL file's COLUMNS.
pub const COLUMNS: u32 = 16;
/// Keys that one workgroup takes at a time; the WGSL file's STRANDS.
pub const STRANDS: u32 = 8;

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = COLUMNS * STRANDS;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "sdpa_compute_out",
    wgsl: include_str!("sdpa_compute_out.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[allow(missing_docs, reason = "the fields are the sizes of AttentionProblem, documented there")]
pub struct Params {
    pub q_heads: u32,
    pub kv_heads: u32,
    pub head_lanes: u32,
    pub new_tokens: u32,
    pub context_len: u32,
    pub column_blocks: u32,
}

/// The variant for heads of `width` lanes.
pub fn variant(width: Width, kv: KvType) -> Variant {
    let block = [width.aliases(kv), width.unpack(kv)].concat();
    let workgroup_bytes = WORKGROUP_SIZE * width.elements() * 4;
    Variant {
        kernel: &KERNEL,
        label: KERNEL.stem,
        block: block.into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes,
        needs: Needs::default(),
    }
}

/// Params of a step.
pub fn params(problem: &AttentionProblem, kv: KvType) -> Params {
    let head_lanes = problem.head_dim / Width::dividing(problem.head_dim, kv).elements();
    Params {
        q_heads: problem.q_heads,
        kv_heads: problem.kv_heads,
        head_lanes,
        new_tokens: problem.new_tokens,
        context_len: problem.context_len(),
        column_blocks: head_lanes.div_ceil(COLUMNS),
    }
}

/// Workgroups of a step.
pub fn workgroups(problem: &AttentionProblem, kv: KvType) -> u64 {
    u64::from(problem.q_heads) * u64::from(problem.new_tokens) * u64::from(params(problem, kv).column_blocks)
}

/// What a step must do: read the visible weights and the values, write the output; a multiply-add an element.
pub fn work(problem: &AttentionProblem, kv: KvType) -> Work {
    let weights = problem.visible_scores();
    Work {
        bytes: 4 * (weights + problem.query_elements()) + u64::from(kv.size_bytes()) * problem.context_elements(),
        flops: weights * 2 * u64::from(problem.head_dim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_reads_each_value_once_for_all_heads_that_share_it() {
        let problem =
            AttentionProblem { q_heads: 8, kv_heads: 2, head_dim: 64, new_tokens: 1, input_pos: 99, scale: 1.0 };
        let bytes = 4 * (8 * 100 + 100 * 2 * 64 + 8 * 64);
        assert_eq!(work(&problem, KvType::F32), Work { bytes, flops: 8 * 100 * 128 });
        assert_eq!(work(&problem, KvType::F16), Work { bytes: bytes - 2 * 100 * 2 * 64, flops: 8 * 100 * 128 });
    }
}
