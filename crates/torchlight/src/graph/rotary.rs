//! Rotary position embedding together with the writes of keys and values to their caches.

use super::operator::{check_cache_write, check_heads};
use super::{ApplyRotaryEmb, IntArg, Live, Part, SdpaWithKvCache, TensorId};
use crate::error::{Error, Result};
use crate::tensor::Dims;

/// Turns queries and keys by their tokens' angles, and writes keys and values into their caches at `input_pos`.
///
/// It stands in no file; [`Graph::fused`](super::Graph::fused) makes it, and [`Attend`](super::Attend) follows. Shapes: caches
/// `[1, rows, hk, d]`, q_out `[1, s, h, d]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RotaryUpdateCache {
    /// New queries, keys and values.
    pub qkv: Qkv,
    /// The angles.
    pub angles: Angles,
    /// Key cache, written in place.
    pub k_cache: TensorId,
    /// Value cache, written in place.
    pub v_cache: TensorId,
    /// Cache row of the first new token.
    pub input_pos: IntArg,
    /// Queries, turned.
    pub q_out: TensorId,
}

/// New queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qkv {
    /// Queries `[1, s, h, d]`, keys and values `[1, s, hk, d]`.
    Apart([TensorId; 3]),
    /// One tensor `[1, s, (h + 2 * hk) * d]`: of each token its queries, its keys, its values.
    Joined(TensorId),
}

/// The angles of tokens, `[s, d / 2]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Angles {
    /// Their cosines.
    pub cosines: TensorId,
    /// Their sines.
    pub sines: TensorId,
    /// The rows of both that the tokens have; without it all of them.
    pub rows: Option<AngleRows>,
    /// The node of the rotation in the delegate's graph, for messages.
    pub node: u32,
}

/// Some rows of tables of angles: what a slice of each would be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AngleRows {
    /// Which.
    pub part: Part,
    /// The node of the slice in the delegate's graph, for messages.
    pub node: u32,
}

impl RotaryUpdateCache {
    pub(super) const NAME: &'static str = "rotary_update_cache";

    pub(super) fn reads(&self) -> Vec<TensorId> {
        let qkv: &[TensorId] = match &self.qkv {
            Qkv::Apart(tensors) => tensors,
            Qkv::Joined(tensor) => std::slice::from_ref(tensor),
        };
        [qkv, &[self.angles.cosines, self.angles.sines]].concat()
    }

    pub(super) fn infer(&self, node: u32, live: &mut Live) -> Result<()> {
        let caches = [self.k_cache, self.v_cache].map(|tensor| live.dims(tensor));
        let [q, k] = self.shapes(node, live, caches)?;
        let (&[_, tokens, q_heads, head_dim], &[_, _, kv_heads, _]) = (q.as_slice(), k.as_slice()) else {
            return refuse(node, format!("wants q and k of rank 4, got {q} and {k}"));
        };
        self.angles.check(live, [tokens, head_dim / 2])?;
        check_heads(SdpaWithKvCache::NAME, node, q_heads, kv_heads)?;
        check_cache_write(SdpaWithKvCache::NAME, node, [k, caches[0]], live.int(self.input_pos))?;
        live.set_dims(self.q_out, q);
        Ok(())
    }

    /// The shapes of queries and keys.
    fn shapes(&self, node: u32, live: &Live, [k_cache, v_cache]: [Dims; 2]) -> Result<[Dims; 2]> {
        if k_cache != v_cache {
            return refuse(node, format!("k_cache {k_cache} and v_cache {v_cache} must agree"));
        }
        match self.qkv {
            Qkv::Apart(tensors) => {
                let [q, k, v] = tensors.map(|tensor| live.dims(tensor));
                let (&[1, tokens, _, head_dim], &[1, k_tokens, _, k_head_dim]) = (q.as_slice(), k.as_slice()) else {
                    return refuse(node, format!("wants q and k of rank 4 and batch 1, got {q} and {k}"));
                };
                if k != v || (tokens, head_dim) != (k_tokens, k_head_dim) || head_dim % 2 != 0 {
                    let wanted = "must have the same tokens and the same even head_dim";
                    return refuse(node, format!("q {q}, k {k} and v {v} {wanted}"));
                }
                Ok([q, k])
            }
            Qkv::Joined(tensor) => {
                let qkv = live.dims(tensor);
                joined_heads(qkv, k_cache)
                    .ok_or(())
                    .or_else(|()| refuse(node, format!("{qkv} holds no queries, keys and values for {k_cache}")))
            }
        }
    }
}

/// The shapes of queries and keys that are joined in one tensor, by that of a cache.
pub(super) fn joined_heads(qkv: Dims, cache: Dims) -> Option<[Dims; 2]> {
    let (&[1, tokens, width], &[1, _, kv_heads, head_dim]) = (qkv.as_slice(), cache.as_slice()) else {
        return None;
    };
    let queries = u64::from(width).checked_sub(2 * u64::from(kv_heads) * u64::from(head_dim))?;
    let q_heads = queries.checked_div(head_dim.into())?;
    if head_dim % 2 != 0 || q_heads * u64::from(head_dim) != queries {
        return None;
    }
    Some([Dims::new(&[1, tokens, q_heads as u32, head_dim])?, Dims::new(&[1, tokens, kv_heads, head_dim])?])
}

fn refuse<T>(node: u32, detail: String) -> Result<T> {
    Err(Error::Shape { operator: RotaryUpdateCache::NAME, node, detail })
}

impl Angles {
    /// The first row that a run reads. That it is there was checked when shapes were inferred.
    pub(crate) fn first_row(&self, live: &Live) -> u32 {
        self.rows_of(live.dims(self.cosines), live).map_or(0, |(first, _)| first)
    }

    /// The first row of a table that is read, and the shape of those that are.
    fn rows_of(&self, mut table: Dims, live: &Live) -> Option<(u32, Dims)> {
        let Some(AngleRows { part, .. }) = self.rows else { return Some((0, table)) };
        let rows = table.as_mut_slice().first_mut()?;
        let (first, count) = part.resolve(*rows, live)?;
        *rows = count;
        Some((first, table))
    }

    /// Refuses angles that are not those of the tokens, in the names of the operators that would.
    fn check(&self, live: &Live, wanted: [u32; 2]) -> Result<()> {
        let [cosines, sines] = [self.cosines, self.sines].map(|tensor| self.rows_of(live.dims(tensor), live));
        let (Some((_, cosines)), Some((_, sines))) = (cosines, sines) else {
            let table = live.dims(self.cosines);
            let Some(AngleRows { part: Part::Range { start, end, .. }, node }) = self.rows else {
                return refuse(self.node, format!("wants tables of angles, got {table}"));
            };
            let (start, end) = (live.int(start), live.int(end));
            let size = table.as_slice().first().copied().unwrap_or(0);
            return Err(Error::EmptySlice { operator: "slice_copy", node, start, end, size });
        };
        if [cosines, sines].iter().all(|angles| angles.as_slice() == wanted) {
            return Ok(());
        }
        let operator = ApplyRotaryEmb::NAME;
        let detail = format!("wants cosines and sines of shape {wanted:?}, got {cosines} and {sines}");
        Err(Error::Shape { operator, node: self.node, detail })
    }
}
