//! `sdpa_compute_attn_weights`: the scores of the visible keys.

use bytemuck::{Pod, Zeroable};

use super::{Access, AttentionProblem, Bounds, Kernel, KvType, Needs, Variant, Width, Work};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "sdpa_compute_attn_weights",
    wgsl: include_str!("sdpa_compute_attn_weights.wgsl"),
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
    pub scale: f32,
}

/// The variant for heads of `width` lanes.
pub fn variant(width: Width, kv: KvType) -> Variant {
    let sum_lanes = match width {
        Width::Four | Width::Two => "fn sum_lanes(x: Lanes) -> f32 { return dot(x, Lanes(1.0)); }\n",
        Width::One => "fn sum_lanes(x: Lanes) -> f32 { return x; }\n",
    };
    let block = [width.aliases(kv), width.unpack(kv), sum_lanes].concat();
    Variant {
        kernel: &KERNEL,
        label: KERNEL.stem,
        block: block.into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: 0,
        needs: Needs::default(),
    }
}

/// Params of a step.
pub fn params(problem: &AttentionProblem, kv: KvType) -> Params {
    Params {
        q_heads: problem.q_heads,
        kv_heads: problem.kv_heads,
        head_lanes: problem.head_dim / Width::dividing(problem.head_dim, kv).elements(),
        new_tokens: problem.new_tokens,
        context_len: problem.context_len(),
        scale: problem.scale,
    }
}

/// Workgroups of a step: one invocation a score.
pub fn workgroups(problem: &AttentionProblem) -> u64 {
    problem.scores().div_ceil(u64::from(WORKGROUP_SIZE))
}

/// What a step must do: read q and the keys, write the visible scores; a multiply-add an element and a scale a score.
pub fn work(problem: &AttentionProblem, kv: KvType) -> Work {
    let scores = problem.visible_scores();
    Work {
        bytes: 4 * (problem.query_elements() + scores) + u64::from(kv.size_bytes()) * problem.context_elements(),
        flops: scores * (2 * u64::from(problem.head_dim) + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_visible_scores_alone() {
        let problem =
            AttentionProblem { q_heads: 4, kv_heads: 2, head_dim: 16, new_tokens: 3, input_pos: 5, scale: 1.0 };
        // Rows see 6, 7 and 8 keys in each of 4 heads.
        assert_eq!(problem.visible_scores(), 4 * (6 + 7 + 8));
        let bytes = 4 * (3 * 4 * 16 + 8 * 2 * 16 + 84);
        assert_eq!(work(&problem, KvType::F32), Work { bytes, flops: 84 * 33 });
        assert_eq!(work(&problem, KvType::F16), Work { bytes: bytes - 2 * 8 * 2 * 16, flops: 84 * 33 });
    }
}
