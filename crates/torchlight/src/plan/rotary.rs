//! Rotary position embedding with the writes of keys and values, as a dispatch.

use super::builder::{Builder, Draft, Operand};
use super::launch::{Described, Launch, kv_suffix, write};
use crate::graph::{Angles, IntArg, Live, Qkv, RotaryUpdateCache, TensorId};
use crate::kernels::KvType;
use crate::kernels::rotary_update_cache::{self, Layout, Step};

/// Where a dispatch of `rotary_update_cache` finds its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RotaryLaunch {
    /// Turned queries: tokens, query heads and head_dim.
    pub q_out: TensorId,
    /// The key cache: KV heads.
    pub k_cache: TensorId,
    /// How queries, keys and values stand.
    pub layout: Layout,
    /// The angles.
    pub angles: Angles,
    /// Cache row of the first new token.
    pub input_pos: IntArg,
    /// The type of the caches.
    pub kv: KvType,
}

impl RotaryLaunch {
    /// The step of a run. Shapes were checked when they were inferred.
    fn step(&self, live: &Live) -> Step {
        let (q, cache) = (live.dims(self.q_out), live.dims(self.k_cache));
        let [q, cache] = [&q, &cache].map(|dims| |dim: usize| dims.as_slice().get(dim).copied().unwrap_or(1));
        Step {
            tokens: q(1),
            q_heads: q(2),
            kv_heads: cache(2),
            head_dim: q(3),
            input_pos: live.int(self.input_pos) as u32,
            first_angle: self.angles.first_row(live),
            layout: self.layout,
        }
    }

    /// Writes the params of a run and returns the number of workgroups.
    pub(super) fn resolve(&self, live: &Live, slot: &mut [u8]) -> u64 {
        let step = self.step(live);
        write(slot, &rotary_update_cache::params(step));
        rotary_update_cache::workgroups(step)
    }

    pub(super) fn describe(&self, live: &Live) -> Described {
        let step = self.step(live);
        let Step { tokens, q_heads, kv_heads, head_dim, input_pos, .. } = step;
        Described {
            shape: format!("s{tokens} h{q_heads} hk{kv_heads} d{head_dim}{}", kv_suffix(self.kv)),
            context_len: Some(input_pos + tokens),
            work: rotary_update_cache::work(step, self.kv),
        }
    }
}

impl Builder<'_, '_> {
    pub(super) fn rotary_update_cache(&self, op: &RotaryUpdateCache) -> Draft {
        let (layout, qkv) = match op.qkv {
            Qkv::Apart(tensors) => (Layout::Apart, tensors),
            Qkv::Joined(tensor) => (Layout::Joined, [tensor; 3]),
        };
        let RotaryUpdateCache { angles, k_cache, v_cache, input_pos, q_out, .. } = *op;
        let others = [angles.cosines, angles.sines, k_cache, v_cache, q_out];
        let kv = self.options.kv;
        let launch = RotaryLaunch { q_out, k_cache, layout, angles, input_pos, kv };
        Draft {
            variant: rotary_update_cache::variant(kv),
            operands: qkv.into_iter().chain(others).map(Operand::Tensor).collect(),
            alternative: None,
            launch: Launch::RotaryUpdateCache(launch),
            max_workgroups: None,
        }
    }
}
