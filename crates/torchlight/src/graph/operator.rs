//! The operators, one variant each with named fields, and what each reads, writes and infers.

use super::{
    ApplyRotaryEmb, Embedding, EmbeddingQ4, IntArg, Linear, LinearQ4, Live, Projection, RmsNorm, RotaryUpdateCache,
    Sigmoid, SliceCopy, SymIntId, TensorId, ViewCopy,
};
use crate::error::{Error, Result};
use crate::tensor::{DType, Dims};

/// `sdpa_with_kv_cache`: writes K and V into their caches at `input_pos`, then attends causally over the caches.
///
/// Shapes: q and out `[1, s, h, d]`, k and v `[1, s, hk, d]`, caches `[1, rows, hk, d]`, all f32. Query row `i` of the
/// step attends to the keys `0..=input_pos + i`; `h / hk` query heads share a KV head.
#[derive(Clone, Debug, PartialEq)]
pub struct SdpaWithKvCache {
    /// Queries.
    pub q: TensorId,
    /// New keys.
    pub k: TensorId,
    /// New values.
    pub v: TensorId,
    /// Key cache, written in place.
    pub k_cache: TensorId,
    /// Value cache, written in place.
    pub v_cache: TensorId,
    /// Cache row of the first new token.
    pub input_pos: IntArg,
    /// Factor on the scores; `None` is `1 / sqrt(d)`.
    pub scale: Option<f32>,
    /// Attention's result.
    pub out: TensorId,
}

/// Causal attention over caches that already hold the keys and values of the step: [`SdpaWithKvCache`] without its writes.
///
/// It stands in no file; [`GraphBuilder`](super::GraphBuilder) makes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attend {
    /// Queries.
    pub q: TensorId,
    /// Key cache.
    pub k_cache: TensorId,
    /// Value cache.
    pub v_cache: TensorId,
    /// Cache row of the step's first token.
    pub input_pos: IntArg,
    /// Factor on the scores; `None` is `1 / sqrt(d)`.
    pub scale: Option<f32>,
    /// Attention's result.
    pub out: TensorId,
}

/// `update_cache`: writes `[1, s, hk, d]` rows into a cache `[1, rows, hk, d]` from row `input_pos` on.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateCache {
    /// New rows.
    pub value: TensorId,
    /// The cache, written in place.
    pub cache: TensorId,
    /// Cache row of the first new row.
    pub input_pos: IntArg,
}

/// `add.Tensor`: `out = a + alpha * b`, with broadcasting.
#[derive(Clone, Debug, PartialEq)]
pub struct Add {
    /// First summand.
    pub a: TensorId,
    /// Second summand.
    pub b: TensorId,
    /// Factor on `b`.
    pub alpha: f32,
    /// Sum.
    pub out: TensorId,
}

/// `mul.Tensor`: `out = a * b`, with broadcasting.
#[derive(Clone, Debug, PartialEq)]
pub struct Mul {
    /// First factor.
    pub a: TensorId,
    /// Second factor.
    pub b: TensorId,
    /// Product.
    pub out: TensorId,
}

/// A copy of one tensor to another of the same shape, outside a delegate.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyTensor {
    /// Read.
    pub from: TensorId,
    /// Written.
    pub to: TensorId,
}

/// `sym_size.int`: a live size becomes a symbolic integer.
#[derive(Clone, Debug, PartialEq)]
pub struct SymSize {
    /// The tensor whose size is asked for.
    pub tensor: TensorId,
    /// Which dimension.
    pub dim: usize,
    /// The size.
    pub out: SymIntId,
}

/// `select_as_symint`: an element of an integer input becomes a symbolic integer.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectAsSymInt {
    /// Index of the program's input; the host reads it.
    pub input: usize,
    /// Dimension to select in.
    pub dim: usize,
    /// Position along `dim`; negative counts from the end of the live size.
    pub index: i64,
    /// The element.
    pub out: SymIntId,
}

/// `add` on symbolic integers.
#[derive(Clone, Debug, PartialEq)]
pub struct AddSymInt {
    /// First summand.
    pub a: IntArg,
    /// Second summand.
    pub b: IntArg,
    /// Sum.
    pub out: SymIntId,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant is documented at the struct it holds")]
pub enum Operator {
    SdpaWithKvCache(SdpaWithKvCache),
    Attend(Attend),
    UpdateCache(UpdateCache),
    Add(Add),
    Mul(Mul),
    CopyTensor(CopyTensor),
    SymSize(SymSize),
    SelectAsSymInt(SelectAsSymInt),
    AddSymInt(AddSymInt),
    Linear(Linear),
    LinearQ4(LinearQ4),
    EmbeddingQ4(EmbeddingQ4),
    RmsNorm(RmsNorm),
    Sigmoid(Sigmoid),
    ApplyRotaryEmb(ApplyRotaryEmb),
    Embedding(Embedding),
    ViewCopy(ViewCopy),
    SliceCopy(SliceCopy),
    Projection(Projection),
    RotaryUpdateCache(RotaryUpdateCache),
}

impl Operator {
    /// The operator's short name, as profiles and messages show it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SdpaWithKvCache(_) => SdpaWithKvCache::NAME,
            Self::Attend(_) => Attend::NAME,
            Self::UpdateCache(_) => "update_cache",
            Self::Add(_) => "add",
            Self::Mul(_) => "mul",
            Self::CopyTensor(_) => "copy",
            Self::SymSize(_) => "sym_size",
            Self::SelectAsSymInt(_) => "select_as_symint",
            Self::AddSymInt(_) => "add_symint",
            Self::Linear(_) => Linear::NAME,
            Self::LinearQ4(_) => LinearQ4::NAME,
            Self::EmbeddingQ4(_) => EmbeddingQ4::NAME,
            Self::RmsNorm(_) => RmsNorm::NAME,
            Self::Sigmoid(_) => Sigmoid::NAME,
            Self::ApplyRotaryEmb(_) => ApplyRotaryEmb::NAME,
            Self::Embedding(_) => Embedding::NAME,
            Self::ViewCopy(op) => op.name(),
            Self::SliceCopy(op) => op.name(),
            Self::Projection(op) => op.name(),
            Self::RotaryUpdateCache(_) => RotaryUpdateCache::NAME,
        }
    }

    /// The tensors it reads on the GPU.
    pub fn reads(&self) -> Vec<TensorId> {
        match self {
            Self::SdpaWithKvCache(op) => vec![op.q, op.k, op.v, op.k_cache, op.v_cache],
            Self::Attend(op) => vec![op.q, op.k_cache, op.v_cache],
            Self::UpdateCache(op) => vec![op.value],
            Self::Add(op) => vec![op.a, op.b],
            Self::Mul(op) => vec![op.a, op.b],
            Self::CopyTensor(op) => vec![op.from],
            Self::SymSize(_) | Self::SelectAsSymInt(_) | Self::AddSymInt(_) => vec![],
            Self::Linear(op) => [op.x, op.weight].into_iter().chain(op.bias).collect(),
            Self::LinearQ4(op) => [op.x, op.weight.weight, op.weight.scales].into_iter().chain(op.bias).collect(),
            Self::EmbeddingQ4(op) => vec![op.table.weight, op.table.scales, op.ids],
            Self::RmsNorm(op) => vec![op.x, op.weight],
            Self::Sigmoid(op) => vec![op.x],
            Self::ApplyRotaryEmb(op) => vec![op.q, op.k, op.cosines, op.sines],
            Self::Embedding(op) => vec![op.table, op.ids],
            Self::ViewCopy(op) => vec![op.x],
            Self::SliceCopy(op) => vec![op.x],
            Self::Projection(op) => op.reads(),
            Self::RotaryUpdateCache(op) => op.reads(),
        }
    }

    /// The tensors it writes.
    pub fn writes(&self) -> Vec<TensorId> {
        match self {
            Self::SdpaWithKvCache(op) => vec![op.k_cache, op.v_cache, op.out],
            Self::Attend(op) => vec![op.out],
            Self::UpdateCache(op) => vec![op.cache],
            Self::Add(op) => vec![op.out],
            Self::Mul(op) => vec![op.out],
            Self::CopyTensor(op) => vec![op.to],
            Self::SymSize(_) | Self::SelectAsSymInt(_) | Self::AddSymInt(_) => vec![],
            Self::Linear(op) => vec![op.out],
            Self::LinearQ4(op) => vec![op.out],
            Self::EmbeddingQ4(op) => vec![op.out],
            Self::RmsNorm(op) => vec![op.out],
            Self::Sigmoid(op) => vec![op.out],
            Self::ApplyRotaryEmb(op) => vec![op.q_out, op.k_out],
            Self::Embedding(op) => vec![op.out],
            Self::ViewCopy(op) => vec![op.out],
            Self::SliceCopy(op) => vec![op.out],
            Self::Projection(op) => vec![op.out],
            Self::RotaryUpdateCache(op) => vec![op.k_cache, op.v_cache, op.q_out],
        }
    }

    /// The element type of the tensor at a place among [`Self::reads`], then [`Self::writes`]; nothing where any will do.
    pub(super) fn dtype_at(&self, place: usize) -> Option<DType> {
        match (self, place) {
            (Self::CopyTensor(_) | Self::ViewCopy(_) | Self::SliceCopy(_), _) => None,
            (Self::Projection(op), place) => Some(op.dtype_at(place)),
            (Self::LinearQ4(_), 1) | (Self::EmbeddingQ4(_), 0) => Some(DType::U8),
            (Self::EmbeddingQ4(_), 2) | (Self::Embedding(_), 1) => Some(DType::I32),
            _ => Some(DType::F32),
        }
    }

    /// Computes the live shapes and integers that follow from this operator's inputs.
    ///
    /// Called for every node, in order, before anything of a run is written: all that can be refused is refused here.
    /// `integers(input)` gives the elements of an integer input.
    ///
    /// # Errors
    /// Shapes that do not fit, a position outside the cache, or an id outside a table.
    pub fn infer<'i>(&self, node: u32, live: &mut Live, integers: impl Fn(usize) -> Option<&'i [i32]>) -> Result<()> {
        match self {
            Self::SdpaWithKvCache(op) => op.infer(node, live),
            Self::Attend(op) => op.infer(node, live),
            Self::UpdateCache(op) => {
                let dims = [live.dims(op.value), live.dims(op.cache)];
                check_cache_write("update_cache", node, dims, live.int(op.input_pos))
            }
            Self::Add(op) => infer_broadcast("add", node, live, [op.a, op.b], op.out),
            Self::Mul(op) => infer_broadcast("mul", node, live, [op.a, op.b], op.out),
            Self::CopyTensor(op) => {
                live.set_dims(op.to, live.dims(op.from));
                Ok(())
            }
            Self::SymSize(op) => {
                let size = live.dims(op.tensor).as_slice()[op.dim];
                live.set_sym_int(op.out, i64::from(size));
                Ok(())
            }
            Self::SelectAsSymInt(op) => op.infer(node, live, integers(op.input)),
            Self::AddSymInt(op) => {
                let sum = live.int(op.a).checked_add(live.int(op.b)).ok_or_else(|| Error::Shape {
                    operator: "add_symint",
                    node,
                    detail: format!("{} + {} overflows", live.int(op.a), live.int(op.b)),
                })?;
                live.set_sym_int(op.out, sum);
                Ok(())
            }
            Self::Linear(op) => op.infer(node, live),
            Self::LinearQ4(op) => op.infer(node, live),
            Self::EmbeddingQ4(op) => op.infer(node, live, op.ids_input.and_then(integers)),
            Self::RmsNorm(op) => op.infer(node, live),
            Self::Sigmoid(op) => op.infer(node, live),
            Self::ApplyRotaryEmb(op) => op.infer(node, live),
            Self::Embedding(op) => op.infer(node, live, op.ids_input.and_then(integers)),
            Self::ViewCopy(op) => op.infer(node, live),
            Self::SliceCopy(op) => op.infer(node, live),
            Self::Projection(op) => op.infer(node, live),
            Self::RotaryUpdateCache(op) => op.infer(node, live),
        }
    }
}

impl SdpaWithKvCache {
    pub(super) const NAME: &'static str = "sdpa_with_kv_cache";

    fn infer(&self, node: u32, live: &mut Live) -> Result<()> {
        let [q, k, v] = [self.q, self.k, self.v].map(|tensor| live.dims(tensor));
        let [k_cache, v_cache] = [self.k_cache, self.v_cache].map(|tensor| live.dims(tensor));
        let refuse = |detail: String| Err(Error::Shape { operator: Self::NAME, node, detail });
        let ([1, s, q_heads, head_dim], [1, k_s, kv_heads, k_head_dim]) = (q.as_slice(), k.as_slice()) else {
            return refuse(format!("wants q and k of rank 4 and batch 1, got {q} and {k}"));
        };
        if k != v || k_cache != v_cache {
            return refuse(format!("k {k} and v {v}, k_cache {k_cache} and v_cache {v_cache} must agree"));
        }
        if s != k_s || head_dim != k_head_dim {
            return refuse(format!("q {q} and k {k} must have the same tokens and head_dim"));
        }
        check_heads(Self::NAME, node, *q_heads, *kv_heads)?;
        check_cache_write(Self::NAME, node, [k, k_cache], live.int(self.input_pos))?;
        live.set_dims(self.out, q);
        Ok(())
    }
}

impl Attend {
    const NAME: &'static str = "attend";

    fn infer(&self, node: u32, live: &mut Live) -> Result<()> {
        let [q, k_cache, v_cache] = [self.q, self.k_cache, self.v_cache].map(|tensor| live.dims(tensor));
        let refuse = |detail: String| Err(Error::Shape { operator: Self::NAME, node, detail });
        let ([1, tokens, q_heads, head_dim], [1, _, kv_heads, cache_head_dim]) = (q.as_slice(), k_cache.as_slice())
        else {
            return refuse(format!("wants q and caches of rank 4 and batch 1, got {q} and {k_cache}"));
        };
        if k_cache != v_cache || head_dim != cache_head_dim {
            return refuse(format!("q {q}, k_cache {k_cache} and v_cache {v_cache} must agree"));
        }
        check_heads(Self::NAME, node, *q_heads, *kv_heads)?;
        let mut written = k_cache;
        written.as_mut_slice()[1] = *tokens;
        check_cache_write(Self::NAME, node, [written, k_cache], live.int(self.input_pos))?;
        live.set_dims(self.out, q);
        Ok(())
    }
}

pub(super) fn check_heads(operator: &'static str, node: u32, q_heads: u32, kv_heads: u32) -> Result<()> {
    if kv_heads > 0 && q_heads.is_multiple_of(kv_heads) {
        return Ok(());
    }
    let detail = format!("{q_heads} query heads are not a multiple of {kv_heads} KV heads");
    Err(Error::Shape { operator, node, detail })
}

impl SelectAsSymInt {
    fn infer(&self, node: u32, live: &mut Live, integers: Option<&[i32]>) -> Result<()> {
        let refuse = |detail: String| Error::Shape { operator: "select_as_symint", node, detail };
        let integers = integers.ok_or_else(|| refuse(format!("input {} must come from the host", self.input)))?;
        // All dimensions but `dim` have size 1 (checked when the graph is made), so `dim` runs over the elements.
        let size = integers.len() as i64;
        let index = if self.index < 0 { self.index + size } else { self.index };
        let element = usize::try_from(index).ok().and_then(|index| integers.get(index));
        let element = element.ok_or_else(|| {
            refuse(format!("index {} is outside input {}, which has {size} elements", self.index, self.input))
        })?;
        live.set_sym_int(self.out, i64::from(*element));
        Ok(())
    }
}

/// Refuses rows that do not fit the cache: by shape, or by position.
pub(super) fn check_cache_write(operator: &'static str, node: u32, dims: [Dims; 2], input_pos: i64) -> Result<()> {
    let [value, cache] = dims;
    let ([1, new_tokens, heads, head_dim], [1, rows, cache_heads, cache_head_dim]) =
        (value.as_slice(), cache.as_slice())
    else {
        let detail = format!("wants a value and a cache of rank 4 and batch 1, got {value} and {cache}");
        return Err(Error::Shape { operator, node, detail });
    };
    if (heads, head_dim) != (cache_heads, cache_head_dim) {
        let detail = format!("the value {value} and the cache {cache} must have the same heads and head_dim");
        return Err(Error::Shape { operator, node, detail });
    }
    if input_pos < 0 {
        return Err(Error::NegativePosition { operator, node, input_pos });
    }
    if input_pos.saturating_add(i64::from(*new_tokens)) > i64::from(*rows) {
        return Err(Error::CacheFull { operator, node, input_pos, new_tokens: *new_tokens, cache_rows: *rows });
    }
    Ok(())
}

fn infer_broadcast(
    operator: &'static str,
    node: u32,
    live: &mut Live,
    inputs: [TensorId; 2],
    out: TensorId,
) -> Result<()> {
    let [a, b] = inputs.map(|tensor| live.dims(tensor));
    let dims = broadcast(a, b).ok_or_else(|| Error::Shape {
        operator,
        node,
        detail: format!("{a} and {b} do not broadcast together"),
    })?;
    live.set_dims(out, dims);
    Ok(())
}

/// The shape to which two shapes broadcast, by the rule of NumPy and PyTorch: aligned at the end, sizes equal or 1.
pub(crate) fn broadcast(a: Dims, b: Dims) -> Option<Dims> {
    let (longer, shorter) = if a.as_slice().len() >= b.as_slice().len() { (a, b) } else { (b, a) };
    let mut out = longer;
    let lead = longer.as_slice().len() - shorter.as_slice().len();
    for (size, &other) in out.as_mut_slice()[lead..].iter_mut().zip(shorter.as_slice()) {
        *size = match (*size, other) {
            (size, other) if size == other => size,
            (1, other) => other,
            (size, 1) => size,
            _ => return None,
        };
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_aligns_at_the_end() {
        let dims = |sizes: &[u32]| Dims::new(sizes).unwrap();
        for (a, b, wanted) in [
            (&[2, 3, 8][..], &[1, 8][..], Some(&[2, 3, 8][..])),
            (&[], &[4], Some(&[4])),
            (&[5, 1, 7], &[6, 1], Some(&[5, 6, 7])),
            (&[3], &[4], None),
            (&[2, 1, 4, 1], &[7, 1, 5], Some(&[2, 7, 4, 5])),
        ] {
            assert_eq!(broadcast(dims(a), dims(b)), wanted.map(dims), "{a:?} {b:?}");
            assert_eq!(broadcast(dims(b), dims(a)), wanted.map(dims), "{b:?} {a:?}");
        }
    }
}
