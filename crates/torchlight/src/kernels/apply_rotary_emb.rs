//! `apply_rotary_emb`: rotary position embedding of queries and keys, in pairs of neighbours.

use bytemuck::{Pod, Zeroable};

use super::{Access, Bounds, Kernel, Needs, Variant, Work};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "apply_rotary_emb",
    wgsl: include_str!("apply_rotary_emb.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::Read, Access::ReadWrite, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// Pairs of q.
    pub q_pairs: u32,
    /// Pairs of k.
    pub k_pairs: u32,
    /// Heads of q.
    pub q_heads: u32,
    /// Heads of k.
    pub k_heads: u32,
    /// Pairs of a head: angles of a token.
    pub head_pairs: u32,
}

/// The one variant.
pub fn variant() -> Variant {
    Variant {
        kernel: &KERNEL,
        label: KERNEL.stem,
        block: "alias Pair = vec2<f32>;\n".into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: 0,
        needs: Needs::default(),
    }
}

/// The sizes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Tokens.
    pub tokens: u32,
    /// Heads of q.
    pub q_heads: u32,
    /// Heads of k.
    pub k_heads: u32,
    /// Elements of a head; even.
    pub head_dim: u32,
}

/// Params of a step.
pub fn params(heads: Heads) -> Params {
    let head_pairs = heads.head_dim / 2;
    let pairs = |heads_of: u32| heads.tokens * heads_of * head_pairs;
    Params {
        q_pairs: pairs(heads.q_heads),
        k_pairs: pairs(heads.k_heads),
        q_heads: heads.q_heads,
        k_heads: heads.k_heads,
        head_pairs,
    }
}

/// Workgroups of a step.
pub fn workgroups(heads: Heads) -> u64 {
    let Params { q_pairs, k_pairs, .. } = params(heads);
    (u64::from(q_pairs) + u64::from(k_pairs)).div_ceil(u64::from(WORKGROUP_SIZE))
}

/// What a step must do: read and write q and k, read each angle's cosine and sine once; four products, a sum and a
/// difference a pair.
pub fn work(heads: Heads) -> Work {
    let Params { q_pairs, k_pairs, head_pairs, .. } = params(heads);
    let (pairs, angles) = (u64::from(q_pairs) + u64::from(k_pairs), u64::from(heads.tokens) * u64::from(head_pairs));
    Work { bytes: 16 * pairs + 8 * angles, flops: 6 * pairs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_reads_an_angle_once_for_all_heads() {
        // 2 x 3 x 4 pairs of q and 2 x 1 x 4 of k, 2 x 4 angles.
        let heads = Heads { tokens: 2, q_heads: 3, k_heads: 1, head_dim: 8 };
        assert_eq!(work(heads), Work { bytes: 16 * 32 + 8 * 8, flops: 6 * 32 });
    }
}
