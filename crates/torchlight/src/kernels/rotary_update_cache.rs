//! `rotary_update_cache`: rotary position embedding of queries and keys, and new keys and values to their caches.

use bytemuck::{Pod, Zeroable};

use super::{Access, Bounds, Kernel, KvType, Needs, Variant, Work};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "rotary_update_cache",
    wgsl: include_str!("rotary_update_cache.wgsl"),
    bindings: &[
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::ReadWrite,
        Access::ReadWrite,
        Access::ReadWrite,
    ],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Params {
    /// Tokens.
    pub tokens: u32,
    /// Pairs of a token's queries.
    pub q_pairs: u32,
    /// Pairs of a token's keys, and of its values.
    pub kv_pairs: u32,
    /// Pairs of a head: angles of a token.
    pub head_pairs: u32,
    /// The cache row of the first token.
    pub input_pos: u32,
    /// The row of cosines and sines of the first token.
    pub first_angle: u32,
    /// Where the first token's queries begin, in pairs.
    pub q_first: u32,
    /// The same of keys.
    pub k_first: u32,
    /// The same of values.
    pub v_first: u32,
    /// From a token's queries to the next one's, in pairs.
    pub q_step: u32,
    /// The same of keys.
    pub k_step: u32,
    /// The same of values.
    pub v_step: u32,
}

/// The variant for a type of caches.
pub fn variant(kv: KvType) -> Variant {
    let block = match kv {
        KvType::F32 => "alias Stored = vec2<f32>;\nfn pack(x: Pair) -> Stored { return x; }\n",
        KvType::F16 => "alias Stored = u32;\nfn pack(x: Pair) -> Stored { return halves(x); }\n",
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

/// How queries, keys and values stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Each in a buffer of its own.
    Apart,
    /// In one buffer, token by token: its queries, then its keys, then its values.
    Joined,
}

/// The new tokens of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many.
    pub tokens: u32,
    /// Query heads.
    pub q_heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Elements of a head; even.
    pub head_dim: u32,
    /// The cache row of the first token.
    pub input_pos: u32,
    /// The row of cosines and sines of the first token.
    pub first_angle: u32,
    /// How queries, keys and values stand.
    pub layout: Layout,
}

impl Step {
    /// Pairs of all queries and keys, which are turned, and of all values, which are not.
    fn pairs(&self) -> (u64, u64) {
        let pairs = |heads: u32| u64::from(self.tokens) * u64::from(heads) * u64::from(self.head_dim / 2);
        (pairs(self.q_heads + self.kv_heads), pairs(self.kv_heads))
    }
}

/// Params of a step.
pub fn params(step: Step) -> Params {
    let Step { tokens, q_heads, kv_heads, head_dim, input_pos, first_angle, layout } = step;
    let head_pairs = head_dim / 2;
    let (q_pairs, kv_pairs) = (q_heads * head_pairs, kv_heads * head_pairs);
    let token_pairs = q_pairs + 2 * kv_pairs;
    let ([q_first, k_first, v_first], [q_step, k_step, v_step]) = match layout {
        Layout::Apart => ([0; 3], [q_pairs, kv_pairs, kv_pairs]),
        Layout::Joined => ([0, q_pairs, q_pairs + kv_pairs], [token_pairs; 3]),
    };
    Params {
        tokens,
        q_pairs,
        kv_pairs,
        head_pairs,
        input_pos,
        first_angle,
        q_first,
        k_first,
        v_first,
        q_step,
        k_step,
        v_step,
    }
}

/// Workgroups of a step.
pub fn workgroups(step: Step) -> u64 {
    let (turned, others) = step.pairs();
    (turned + others).div_ceil(u64::from(WORKGROUP_SIZE))
}

/// What a step must do: read queries, keys, values and each angle's cosine and sine once; write queries, and keys and values
/// as the caches hold them; four products, a sum and a difference a pair that is turned.
pub fn work(step: Step, kv: KvType) -> Work {
    let (turned, values) = step.pairs();
    let queries = turned - values;
    let angles = u64::from(step.tokens) * u64::from(step.head_dim / 2);
    let read = 8 * (turned + values) + 8 * angles;
    Work { bytes: read + 8 * queries + 2 * u64::from(kv.size_bytes()) * 2 * values, flops: 6 * turned }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Step =
        Step { tokens: 2, q_heads: 3, kv_heads: 1, head_dim: 8, input_pos: 5, first_angle: 7, layout: Layout::Apart };

    #[test]
    fn work_reads_and_writes_once() {
        // 2 x 3 x 4 pairs of q, 2 x 4 of k and of v, 2 x 4 angles.
        let read = 8 * (24 + 8 + 8) + 8 * 8;
        assert_eq!(work(STEP, KvType::F32), Work { bytes: read + 8 * (24 + 8 + 8), flops: 6 * 32 });
        assert_eq!(work(STEP, KvType::F16), Work { bytes: read + 8 * 24 + 4 * 16, flops: 6 * 32 });
    }

    #[test]
    fn one_buffer_holds_a_token_after_the_other() {
        let params = params(Step { layout: Layout::Joined, ..STEP });
        assert_eq!([params.q_first, params.k_first, params.v_first], [0, 12, 16]);
        assert_eq!([params.q_step, params.k_step, params.v_step], [20; 3]);
        let apart = super::params(STEP);
        assert_eq!([apart.q_first, apart.k_first, apart.v_first], [0; 3]);
        assert_eq!([apart.q_step, apart.k_step, apart.v_step], [12, 4, 4]);
        // 2 x (12 + 4 + 4) pairs.
        assert_eq!(workgroups(STEP), 1);
    }
}
