//! `sdpa_softmax`: scores to weights, in place.

use bytemuck::{Pod, Zeroable};

use super::{Access, AttentionProblem, Kernel, Variant};

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "sdpa_softmax",
    wgsl: include_str!("sdpa_softmax.wgsl"),
    bindings: &[Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    workgroup_size: 64,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// q_heads * new_tokens.
    pub rows: u32,
    /// Query rows of this step.
    pub new_tokens: u32,
    /// Keys in the cache after this step: the stride between rows.
    pub context_len: u32,
}

/// The one variant.
pub fn variant() -> Variant {
    Variant { kernel: &KERNEL, label: KERNEL.stem, block: "", workgroup_bytes: KERNEL.workgroup_size * 4 }
}

/// Params of a step.
pub fn params(problem: &AttentionProblem) -> Params {
    Params {
        rows: problem.q_heads * problem.new_tokens,
        new_tokens: problem.new_tokens,
        context_len: problem.context_len(),
    }
}

/// Workgroups of a step: one a row.
pub fn workgroups(problem: &AttentionProblem) -> u64 {
    u64::from(problem.q_heads) * u64::from(problem.new_tokens)
}
