//! The operators of a transformer besides attention and products: norms, activations, embeddings.

use super::rotary::joined_heads;
use super::{Angles, GraphBuilder, IntArg, Live, Operator, Qkv, RotaryUpdateCache, TensorId};
use crate::error::{Error, Result};
use crate::tensor::{DType, Dims, MAX_RANK};

/// `rms_norm`: `out = x / sqrt(mean(x^2) + eps) * weight`, with the mean over the last dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct RmsNorm {
    /// Rows, of any rank from 1 on.
    pub x: TensorId,
    /// One factor an element of a row.
    pub weight: TensorId,
    /// Added to the mean square.
    pub eps: f32,
    /// The result, of x's shape.
    pub out: TensorId,
}

/// `sigmoid`: `out = 1 / (1 + exp(-x))`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sigmoid {
    /// Any shape.
    pub x: TensorId,
    /// The result, of x's shape.
    pub out: TensorId,
}

/// `apply_rotary_emb`: turns each pair of neighbours `(2i, 2i + 1)` of every head by its token's `i`-th angle.
///
/// Shapes: q and its result `[1, s, h, d]`, k and its result `[1, s, hk, d]`, cosines and sines `[s, d / 2]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyRotaryEmb {
    /// Queries.
    pub q: TensorId,
    /// Keys.
    pub k: TensorId,
    /// The angles' cosines.
    pub cosines: TensorId,
    /// The angles' sines.
    pub sines: TensorId,
    /// Queries, turned.
    pub q_out: TensorId,
    /// Keys, turned.
    pub k_out: TensorId,
}

/// `embedding`: row `ids[i]` of a table becomes row `i` of the result.
///
/// Shapes: table `[rows, width]`, ids any, the result that of the ids with `width` behind it. An id outside the table is
/// refused where the ids come from the host; otherwise it takes the nearest row.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// Rows.
    pub table: TensorId,
    /// Which rows, as 32-bit integers.
    pub ids: TensorId,
    /// The program's input that holds the ids, where one does: the host looks at them.
    pub ids_input: Option<usize>,
    /// The rows that were asked for.
    pub out: TensorId,
}

impl RmsNorm {
    pub(super) const NAME: &'static str = "rms_norm";

    pub(super) fn infer(&self, node: u32, live: &mut Live) -> Result<()> {
        let [x, weight] = [self.x, self.weight].map(|tensor| live.dims(tensor));
        if weight.as_slice().len() != 1 || x.as_slice().last() != weight.as_slice().last() {
            let detail = format!("wants a weight as long as the rows of x, got x {x} and weight {weight}");
            return Err(Error::Shape { operator: Self::NAME, node, detail });
        }
        live.set_dims(self.out, x);
        Ok(())
    }
}

impl Sigmoid {
    pub(super) const NAME: &'static str = "sigmoid";

    pub(super) fn infer(&self, _node: u32, live: &mut Live) -> Result<()> {
        live.set_dims(self.out, live.dims(self.x));
        Ok(())
    }
}

impl ApplyRotaryEmb {
    pub(super) const NAME: &'static str = "apply_rotary_emb";

    pub(super) fn infer(&self, node: u32, live: &mut Live) -> Result<()> {
        let [q, k, cosines, sines] = [self.q, self.k, self.cosines, self.sines].map(|tensor| live.dims(tensor));
        let refuse = |detail: String| Err(Error::Shape { operator: Self::NAME, node, detail });
        let ([1, tokens, _, head_dim], [1, k_tokens, _, k_head_dim]) = (q.as_slice(), k.as_slice()) else {
            return refuse(format!("wants q and k of rank 4 and batch 1, got {q} and {k}"));
        };
        if (tokens, head_dim) != (k_tokens, k_head_dim) || !head_dim.is_multiple_of(2) {
            return refuse(format!("q {q} and k {k} must have the same tokens and the same even head_dim"));
        }
        let angles = [*tokens, head_dim / 2];
        if cosines.as_slice() != angles || sines.as_slice() != angles {
            return refuse(format!("wants cosines and sines of shape {angles:?}, got {cosines} and {sines}"));
        }
        live.set_dims(self.q_out, q);
        live.set_dims(self.k_out, k);
        Ok(())
    }
}

impl Embedding {
    pub(super) const NAME: &'static str = "embedding";

    pub(super) fn infer(&self, node: u32, live: &mut Live, ids_given: Option<&[i32]>) -> Result<()> {
        let [table, ids] = [self.table, self.ids].map(|tensor| live.dims(tensor));
        let refuse = |detail: String| Err(Error::Shape { operator: Self::NAME, node, detail });
        let &[rows, width] = table.as_slice() else {
            return refuse(format!("wants a table of rank 2, got {table}"));
        };
        check_ids(Self::NAME, node, ids_given, rows)?;
        let Some(out) = with_last(ids, width) else {
            return refuse(format!("ids of shape {ids} have too many dimensions"));
        };
        live.set_dims(self.out, out);
        Ok(())
    }
}

/// Refuses ids that name no row of a table.
pub(super) fn check_ids(operator: &'static str, node: u32, ids: Option<&[i32]>, rows: u32) -> Result<()> {
    let is_outside = |id: &i32| u32::try_from(*id).map_or(true, |id| id >= rows);
    match ids.and_then(|ids| ids.iter().copied().find(is_outside)) {
        Some(id) => Err(Error::IdOutside { operator, node, id, rows }),
        None => Ok(()),
    }
}

/// A shape with one more size behind the others, where there is room for it.
pub(super) fn with_last(dims: Dims, size: u32) -> Option<Dims> {
    let mut sizes = [0; MAX_RANK];
    let rank = dims.as_slice().len();
    sizes.get_mut(..rank)?.copy_from_slice(dims.as_slice());
    *sizes.get_mut(rank)? = size;
    Dims::new(&sizes[..=rank])
}

impl GraphBuilder<'_> {
    /// The rows of a table that 32-bit ids name.
    ///
    /// # Errors
    /// As [`Self::input`], for the result: the shape of the ids with the width of a row behind it.
    pub fn embedding(&mut self, table: TensorId, ids: TensorId) -> Result<TensorId> {
        let mut bound = self.bound(ids).as_slice().to_vec();
        bound.extend(self.bound(table).as_slice().last());
        let out = self.computed(DType::F32, &bound)?;
        let ids_input = self.input_of(ids);
        self.push(Operator::Embedding(Embedding { table, ids, ids_input, out }));
        Ok(out)
    }

    /// Queries and keys with their positions' rotations: `angles` are cosines and sines.
    ///
    /// # Errors
    /// As [`Self::input`], for the results, which have the shapes of q and k.
    pub fn apply_rotary_emb(&mut self, [q, k]: [TensorId; 2], angles: [TensorId; 2]) -> Result<[TensorId; 2]> {
        let [q_out, k_out] = [self.computed_like(q)?, self.computed_like(k)?];
        let [cosines, sines] = angles;
        self.push(Operator::ApplyRotaryEmb(ApplyRotaryEmb { q, k, cosines, sines, q_out, k_out }));
        Ok([q_out, k_out])
    }

    /// Queries and keys turned as by [`Self::apply_rotary_emb`], and keys and values written into `caches` at `input_pos`.
    ///
    /// # Errors
    /// As [`Self::input`], for the turned queries. Shapes that do not fit are refused here or by [`Self::finish`].
    pub fn rotary_update_cache(
        &mut self,
        qkv: Qkv,
        angles: [TensorId; 2],
        caches: [TensorId; 2],
        input_pos: IntArg,
    ) -> Result<TensorId> {
        let q = match qkv {
            Qkv::Apart([q, ..]) => self.bound(q),
            Qkv::Joined(tensor) => {
                let (qkv, cache) = (self.bound(tensor), self.bound(caches[0]));
                let refuse = || Error::Malformed(format!("{qkv} holds no queries, keys and values for {cache}"));
                joined_heads(qkv, cache).ok_or_else(refuse)?[0]
            }
        };
        let q_out = self.computed(DType::F32, q.as_slice())?;
        let ([cosines, sines], [k_cache, v_cache]) = (angles, caches);
        let angles = Angles { cosines, sines, rows: None, node: self.next_node() };
        let op = RotaryUpdateCache { qkv, angles, k_cache, v_cache, input_pos, q_out };
        self.push(Operator::RotaryUpdateCache(op));
        Ok(q_out)
    }

    /// `1 / (1 + exp(-x))` of each element.
    ///
    /// # Errors
    /// As [`Self::input`], for the result, which has x's shape.
    pub fn sigmoid(&mut self, x: TensorId) -> Result<TensorId> {
        let out = self.computed_like(x)?;
        self.push(Operator::Sigmoid(Sigmoid { x, out }));
        Ok(out)
    }

    /// `x / sqrt(mean(x^2) + eps) * weight`, row by row.
    ///
    /// # Errors
    /// As [`Self::input`], for the result, which has x's shape.
    pub fn rms_norm(&mut self, x: TensorId, weight: TensorId, eps: f32) -> Result<TensorId> {
        let out = self.computed_like(x)?;
        self.push(Operator::RmsNorm(RmsNorm { x, weight, eps, out }));
        Ok(out)
    }
}
