//! `sdpa_merge`: joins the results of the splits of each row.

use bytemuck::{Pod, Zeroable};

use super::{Access, AttentionProblem, Bounds, Kernel, Needs, Variant, Work};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 128;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "sdpa_merge",
    wgsl: include_str!("sdpa_merge.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Argued,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// q_heads * new_tokens.
    pub rows: u32,
    /// Splits of each row.
    pub splits: u32,
}

/// What a variant is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Elements of a head: a multiple of 4, at most 512.
    pub head_dim: u32,
}

/// The variant of a shape.
pub fn variant(shape: Shape) -> Variant {
    Variant {
        kernel: &KERNEL,
        label: KERNEL.stem,
        block: format!("const HEAD_QUADS: u32 = {}u;\n", shape.head_dim / 4).into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: WORKGROUP_SIZE * (4 + 4 + 16),
        needs: Needs::default(),
    }
}

/// Params of a step whose rows have that many splits.
pub fn params(problem: &AttentionProblem, splits: u32) -> Params {
    Params { rows: problem.q_heads * problem.new_tokens, splits }
}

/// Workgroups of a step: one a row.
pub fn workgroups(problem: &AttentionProblem) -> u64 {
    u64::from(problem.q_heads) * u64::from(problem.new_tokens)
}

/// What a step must do: write the output. What splits left to merge is scratch, which a step could do without.
pub fn work(problem: &AttentionProblem) -> Work {
    Work { bytes: 4 * problem.query_elements(), flops: problem.query_elements() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_the_output() {
        let problem =
            AttentionProblem { q_heads: 8, kv_heads: 2, head_dim: 64, new_tokens: 2, input_pos: 98, scale: 1.0 };
        assert_eq!(work(&problem), Work { bytes: 4 * 2 * 8 * 64, flops: 2 * 8 * 64 });
    }
}
