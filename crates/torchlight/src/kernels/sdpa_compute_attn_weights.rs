//! `sdpa_compute_attn_weights`: the scores of the visible keys.

use bytemuck::{Pod, Zeroable};

use super::{Access, AttentionProblem, Kernel, Variant, Width};

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "sdpa_compute_attn_weights",
    wgsl: include_str!("sdpa_compute_attn_weights.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    workgroup_size: 64,
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
pub fn variant(width: Width) -> Variant {
    let block = match width {
        Width::Four => "alias Lanes = vec4<f32>;\nfn sum_lanes(x: Lanes) -> f32 { return dot(x, Lanes(1.0)); }\n",
        Width::One => "alias Lanes = f32;\nfn sum_lanes(x: Lanes) -> f32 { return x; }\n",
    };
    Variant { kernel: &KERNEL, label: KERNEL.stem, block, workgroup_bytes: 0 }
}

/// Params of a step.
pub fn params(problem: &AttentionProblem) -> Params {
    Params {
        q_heads: problem.q_heads,
        kv_heads: problem.kv_heads,
        head_lanes: problem.head_dim / Width::dividing(problem.head_dim).elements(),
        new_tokens: problem.new_tokens,
        context_len: problem.context_len(),
        scale: problem.scale,
    }
}

/// Workgroups of a step: one invocation a score.
pub fn workgroups(problem: &AttentionProblem) -> u64 {
    problem.scores().div_ceil(u64::from(KERNEL.workgroup_size))
}
