//! `sdpa_softmax`: scores to weights, in place.

use bytemuck::{Pod, Zeroable};

use super::{Access, AttentionProblem, Bounds, Kernel, Needs, Variant, Work};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "sdpa_softmax",
    wgsl: include_str!("sdpa_softmax.wgsl"),
    bindings: &[Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
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
    Variant {
        kernel: &KERNEL,
        label: KERNEL.stem,
        block: "".into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: WORKGROUP_SIZE * 4,
        needs: Needs::default(),
    }
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

/// What a step must do: read and write the visible scores; maximum, subtraction, exponential, sum and division of each.
pub fn work(problem: &AttentionProblem) -> Work {
    let scores = problem.visible_scores();
    Work { bytes: 4 * 2 * scores, flops: 5 * scores }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_visible_scores_alone() {
        let problem =
            AttentionProblem { q_heads: 2, kv_heads: 1, head_dim: 8, new_tokens: 1, input_pos: 9, scale: 1.0 };
        assert_eq!(work(&problem), Work { bytes: 8 * 20, flops: 5 * 20 });
    }
}
