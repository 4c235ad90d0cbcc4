//! How params and grid of a dispatch follow from live shapes.

use bytemuck::Pod;

use super::{EmbeddingLaunch, LinearLaunch, RotaryLaunch, Stage};
use crate::graph::{IntArg, Live, Part, TensorId};
use crate::kernels::{
    AttentionProblem, KvType, Lane, Work, apply_rotary_emb, binary, calibrate_copy, calibrate_fma, calibrate_matrix,
    embedding, rms_norm, slice_copy, unary, update_cache,
};
use crate::tensor::Dims;

/// Where an attention kernel finds its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Queries: tokens, query heads and head_dim.
    pub q: TensorId,
    /// The key cache: KV heads.
    pub k_cache: TensorId,
    /// Cache row of the first new token.
    pub input_pos: IntArg,
    /// Factor on the scores; `None` is `1 / sqrt(head_dim)`.
    pub scale: Option<f32>,
    /// The type of the caches.
    pub kv: KvType,
}

impl Attention {
    /// The problem of a run. Shapes were checked when they were inferred.
    pub fn problem(&self, live: &Live) -> AttentionProblem {
        attention_problem(live.dims(self.q), live.dims(self.k_cache), live.int(self.input_pos) as u32, self.scale)
    }
}

/// Attention's sizes from the shapes of q and a cache.
pub(super) fn attention_problem(q: Dims, cache: Dims, input_pos: u32, scale: Option<f32>) -> AttentionProblem {
    let size = |dims: Dims, dim: usize| dims.as_slice().get(dim).copied().unwrap_or(1);
    let head_dim = size(q, 3);
    AttentionProblem {
        q_heads: size(q, 2),
        kv_heads: size(cache, 2),
        head_dim,
        new_tokens: size(q, 1),
        input_pos,
        scale: scale.unwrap_or_else(|| (1.0 / f64::from(head_dim).sqrt()) as f32),
    }
}

/// What a dispatch computes its params from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Launch {
    /// Rows into a cache.
    UpdateCache {
        /// The new rows.
        value: TensorId,
        /// Cache row of the first.
        input_pos: IntArg,
        /// The type of the cache.
        kv: KvType,
    },
    /// A kernel of attention.
    Attention(Attention, Stage),
    /// A copy of fixed size, to measure a device.
    CalibrateCopy(calibrate_copy::Params),
    /// Multiply-adds of fixed number, to measure a device.
    CalibrateFma(calibrate_fma::Params),
    /// Matrix products of fixed number, to measure a device.
    CalibrateMatrix(calibrate_matrix::Params),
    /// A sum or product.
    Binary {
        /// First input.
        a: TensorId,
        /// Second input.
        b: TensorId,
        /// Result.
        out: TensorId,
        /// Whether it is a sum or a product.
        function: binary::Function,
        /// Factor on b, for sums.
        alpha: f32,
        /// Whether the variant is dense.
        dense: bool,
    },
    /// A kernel of a linear layer.
    Linear(LinearLaunch),
    /// A lookup in a table of 4-bit numbers.
    EmbeddingQ4(EmbeddingLaunch),
    /// Rows divided by the root of their mean square.
    RmsNorm {
        /// The rows.
        x: TensorId,
        /// The weight, which gives their width.
        weight: TensorId,
        /// How the variant cuts a row.
        cut: rms_norm::Cut,
        /// Added to the mean square.
        eps: f32,
    },
    /// A function of each element.
    Unary {
        /// The elements.
        x: TensorId,
        /// Which function.
        function: unary::Function,
    },
    /// Queries and keys turned by their positions.
    ApplyRotaryEmb {
        /// Queries.
        q: TensorId,
        /// Keys.
        k: TensorId,
    },
    /// Rows of a table.
    Embedding {
        /// The table.
        table: TensorId,
        /// Which rows.
        ids: TensorId,
        /// The variant's lanes.
        lane: Lane,
    },
    /// A part of a tensor along one dimension.
    SliceCopy {
        /// The whole.
        x: TensorId,
        /// Which dimension.
        dim: usize,
        /// Which part.
        part: Part,
        /// The variant's lanes.
        lane: Lane,
    },
    /// Queries and keys turned by their positions, keys and values into their caches.
    RotaryUpdateCache(RotaryLaunch),
}

impl Launch {
    /// Writes the params of a run into their slot and returns the number of workgroups.
    ///
    /// `slot` has at least the kernel's params_bytes.
    pub fn resolve(&self, live: &Live, slot: &mut [u8]) -> u64 {
        match self {
            Self::UpdateCache { value, input_pos, kv } => {
                let rows = rows(live.dims(*value), live.int(*input_pos) as u32);
                write(slot, &update_cache::params(rows, *kv));
                update_cache::workgroups(rows, *kv)
            }
            Self::Attention(attention, stage) => stage.resolve(&attention.problem(live), attention.kv, slot),
            Self::CalibrateCopy(_) | Self::CalibrateFma(_) | Self::CalibrateMatrix(_) => self.resolve_fixed(slot),
            Self::Binary { a, b, out, alpha, dense, .. } => {
                let shapes = binary::Shapes { a: live.dims(*a), b: live.dims(*b), out: live.dims(*out) };
                write(slot, &binary::params(&shapes, *dense, *alpha));
                binary::workgroups(&shapes, *dense)
            }
            Self::Linear(launch) => launch.resolve(live, slot),
            Self::EmbeddingQ4(launch) => launch.resolve(live, slot),
            Self::RmsNorm { x, weight, cut, eps } => {
                let rows = norm_rows(live, *x, *weight);
                write(slot, &rms_norm::params(rows, *cut, *eps));
                rms_norm::workgroups(rows)
            }
            Self::Unary { x, .. } => {
                write(slot, &unary::params(live.dims(*x)));
                unary::workgroups(live.dims(*x))
            }
            Self::ApplyRotaryEmb { q, k } => {
                let heads = rotary_heads(live, *q, *k);
                write(slot, &apply_rotary_emb::params(heads));
                apply_rotary_emb::workgroups(heads)
            }
            Self::Embedding { table, ids, lane } => {
                let lookup = lookup(live, *table, *ids);
                write(slot, &embedding::params(lookup, *lane));
                embedding::workgroups(lookup, *lane)
            }
            Self::SliceCopy { x, dim, part, lane } => {
                let slice = slice(live, *x, (*dim, *part));
                write(slot, &slice_copy::params(slice, *lane));
                slice_copy::workgroups(slice, *lane)
            }
            Self::RotaryUpdateCache(launch) => launch.resolve(live, slot),
        }
    }
}

impl Launch {
    /// [`Self::resolve`] for launches that depend on no live shape; the others have no workgroups here.
    pub(crate) fn resolve_fixed(&self, slot: &mut [u8]) -> u64 {
        match self {
            Self::CalibrateCopy(params) => {
                write(slot, params);
                calibrate_copy::workgroups(*params)
            }
            Self::CalibrateFma(params) => {
                write(slot, params);
                calibrate_fma::workgroups(*params)
            }
            Self::CalibrateMatrix(params) => {
                write(slot, params);
                u64::from(params.workgroups)
            }
            _ => 0,
        }
    }
}

/// What a dispatch does in one run, for profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The live sizes, without the context.
    pub shape: String,
    /// Keys in the cache after the step, for the kernels of attention.
    pub context_len: Option<u32>,
    /// What it must do.
    pub work: Work,
}

impl Described {
    /// A dispatch that one shape tells apart.
    fn plain(dims: Dims, work: Work) -> Self {
        Self { shape: dims.to_string(), context_len: None, work }
    }
}

impl Launch {
    /// Describes a dispatch by the live shapes of a run.
    pub fn describe(&self, live: &Live) -> Described {
        match self {
            Self::UpdateCache { value, input_pos, kv } => {
                let rows = rows(live.dims(*value), live.int(*input_pos) as u32);
                Described {
                    shape: format!("s{} row{}", rows.new_tokens, rows.row_elements),
                    context_len: Some(rows.input_pos + rows.new_tokens),
                    work: update_cache::work(rows, *kv),
                }
            }
            Self::Attention(attention, stage) => attention.describe(live, stage),
            Self::CalibrateCopy(params) => Described {
                shape: format!("[{}]", params.lanes),
                context_len: None,
                work: calibrate_copy::work(*params),
            },
            Self::CalibrateFma(params) => Described {
                shape: format!("[{}]", params.invocations),
                context_len: None,
                work: calibrate_fma::work(*params),
            },
            Self::CalibrateMatrix(params) => Described {
                shape: format!("[{}]", params.workgroups),
                context_len: None,
                work: calibrate_matrix::work(*params),
            },
            Self::Binary { a, b, out, function, alpha, .. } => {
                let shapes = binary::Shapes { a: live.dims(*a), b: live.dims(*b), out: live.dims(*out) };
                let shape =
                    if shapes.are_equal() { shapes.out.to_string() } else { format!("{} and {}", shapes.a, shapes.b) };
                Described { shape, context_len: None, work: binary::work(&shapes, *function, *alpha) }
            }
            Self::Linear(launch) => launch.describe(live),
            Self::EmbeddingQ4(launch) => launch.describe(live),
            Self::RmsNorm { x, weight, .. } => {
                Described::plain(live.dims(*x), rms_norm::work(norm_rows(live, *x, *weight)))
            }
            Self::Unary { x, function } => Described::plain(live.dims(*x), unary::work(live.dims(*x), *function)),
            Self::ApplyRotaryEmb { q, k } => {
                let heads = rotary_heads(live, *q, *k);
                let apply_rotary_emb::Heads { tokens, q_heads, k_heads, head_dim } = heads;
                Described {
                    shape: format!("s{tokens} h{q_heads} hk{k_heads} d{head_dim}"),
                    context_len: None,
                    work: apply_rotary_emb::work(heads),
                }
            }
            Self::Embedding { table, ids, .. } => {
                let lookup = lookup(live, *table, *ids);
                let embedding::Lookup { ids, rows, width } = lookup;
                Described {
                    shape: format!("{ids} of [{rows}, {width}]"),
                    context_len: None,
                    work: embedding::work(lookup),
                }
            }
            Self::SliceCopy { x, dim, part, .. } => {
                let slice = slice(live, *x, (*dim, *part));
                let shape = format!("{} of {} in {}", slice.count, live.dims(*x), dim);
                Described { shape, context_len: None, work: slice_copy::work(slice) }
            }
            Self::RotaryUpdateCache(launch) => launch.describe(live),
        }
    }
}

impl Attention {
    fn describe(&self, live: &Live, stage: &Stage) -> Described {
        let problem = self.problem(live);
        let AttentionProblem { new_tokens, q_heads, kv_heads, head_dim, .. } = problem;
        Described {
            shape: format!("s{new_tokens} h{q_heads} hk{kv_heads} d{head_dim}{}", kv_suffix(self.kv)),
            context_len: Some(problem.context_len()),
            work: stage.work(&problem, self.kv),
        }
    }
}

/// The type of caches behind a shape, where it is not the usual one.
pub(super) const fn kv_suffix(kv: KvType) -> &'static str {
    match kv {
        KvType::F32 => "",
        KvType::F16 => " f16",
    }
}

/// The rows of a tensor that are as long as a weight.
fn norm_rows(live: &Live, x: TensorId, weight: TensorId) -> rms_norm::Rows {
    let width = live.dims(weight).elements().max(1);
    rms_norm::Rows { rows: (live.dims(x).elements() / width) as u32, width: width as u32 }
}

/// The heads of queries and keys, `[1, s, h, d]` and `[1, s, hk, d]`.
fn rotary_heads(live: &Live, q: TensorId, k: TensorId) -> apply_rotary_emb::Heads {
    let (q, k) = (live.dims(q), live.dims(k));
    let size = |dims: Dims, dim: usize| dims.as_slice().get(dim).copied().unwrap_or(1);
    apply_rotary_emb::Heads { tokens: size(q, 1), q_heads: size(q, 2), k_heads: size(k, 2), head_dim: size(q, 3) }
}

/// Ids of any shape, to be looked up in a table `[rows, width]`.
fn lookup(live: &Live, table: TensorId, ids: TensorId) -> embedding::Lookup {
    let table = live.dims(table);
    let size = |dim: usize| table.as_slice().get(dim).copied().unwrap_or(1);
    embedding::Lookup { ids: live.dims(ids).elements() as u32, rows: size(0), width: size(1) }
}

/// A part of a tensor along one of its dimensions. One that is empty was refused when it was inferred.
fn slice(live: &Live, x: TensorId, (dim, part): (usize, Part)) -> slice_copy::Slice {
    let x = live.dims(x);
    let (before, rest) = x.as_slice().split_at(dim.min(x.as_slice().len()));
    let size = rest.first().copied().unwrap_or(1);
    let (first, count) = part.resolve(size, live).unwrap_or((0, 0));
    let step = match part {
        Part::Range { step, .. } => step,
        Part::One(_) => 1,
    };
    let inner = rest.iter().skip(1).product();
    slice_copy::Slice { outer: before.iter().product(), size, inner, first, count, step }
}

/// The rows of a `[1, s, hk, d]` value.
pub(super) fn rows(value: Dims, input_pos: u32) -> update_cache::Rows {
    let size = |dim: usize| value.as_slice().get(dim).copied().unwrap_or(1);
    update_cache::Rows { row_elements: size(2) * size(3), new_tokens: size(1), input_pos }
}

/// Writes params into the start of their slot.
pub(super) fn write(slot: &mut [u8], params: &impl Pod) {
    let bytes = bytemuck::bytes_of(params);
    slot[..bytes.len()].copy_from_slice(bytes);
}
