//! Attention with a KV cache for those who have no program: keys and values stay on the device, step after step.

use super::{Input, Session, SessionOptions};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::graph::{Graph, GraphBuilder, IntArg};
use crate::tensor::{DType, TensorView};

/// The sizes of an [`Attention`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionShape {
    /// Query heads: a multiple of `kv_heads`.
    pub q_heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// The most tokens of one step.
    pub max_new_tokens: u32,
    /// Rows of the cache: the most tokens in all.
    pub cache_rows: u32,
    /// Factor on the scores; `None` is `1 / sqrt(head_dim)`.
    pub scale: Option<f32>,
}

/// Causal attention over a KV cache that lives on the device.
///
/// Tensors are dense and row-major: queries and results `[tokens, q_heads, head_dim]`, keys and values
/// `[tokens, kv_heads, head_dim]`.
///
/// ```no_run
/// use torchlight::{Attention, AttentionShape, Gpu, GpuOptions, SessionOptions};
///
/// let gpu = Gpu::open_blocking(&GpuOptions::default())?;
/// let shape = AttentionShape {
///     q_heads: 8, kv_heads: 2, head_dim: 64, max_new_tokens: 16, cache_rows: 1024, scale: None,
/// };
/// let mut attention = Attention::new(&gpu, shape, SessionOptions::default())?;
/// let (q, kv) = (vec![0.1; 16 * 8 * 64], vec![0.1; 16 * 2 * 64]);
/// let prefill = attention.attend(&q, &kv, &kv)?;
/// let decode = attention.attend(&q[..8 * 64], &kv[..2 * 64], &kv[..2 * 64])?;
/// assert_eq!(attention.context_len(), 17);
/// attention.rewind(16)?;
/// # Ok::<(), torchlight::Error>(())
/// ```
#[derive(Debug)]
pub struct Attention {
    session: Session,
    shape: AttentionShape,
    context_len: u32,
}

impl Attention {
    /// Makes the caches, empty, and the kernels.
    ///
    /// # Errors
    /// Where the sizes do not fit together, or the device cannot hold them.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(gpu: &Gpu, shape: AttentionShape, options: SessionOptions) -> Result<Self> {
        pollster::block_on(Self::new_async(gpu, shape, options))
    }

    /// [`Attention::new`] for executors and browsers.
    ///
    /// # Errors
    /// As [`Attention::new`].
    pub async fn new_async(gpu: &Gpu, shape: AttentionShape, options: SessionOptions) -> Result<Self> {
        if shape.max_new_tokens > shape.cache_rows {
            return Err(Error::Input {
                what: "max_new_tokens".into(),
                wanted: format!("at most the cache's {} rows", shape.cache_rows),
                got: shape.max_new_tokens.to_string(),
            });
        }
        let cache_bytes = [shape.cache_rows, shape.kv_heads, shape.head_dim, 4]
            .iter()
            .try_fold(1usize, |bytes, &size| bytes.checked_mul(size as usize));
        let zeros = vec![0; cache_bytes.unwrap_or(0)];
        let session = Session::new_async(gpu, &graph(&shape, &zeros)?, options).await?;
        Ok(Self { session, shape, context_len: 0 })
    }

    /// Appends the keys and values of some tokens, and attends from their queries to all tokens so far.
    ///
    /// Returns `[tokens, q_heads, head_dim]`: each token sees itself and those before it.
    ///
    /// # Errors
    /// Where the lengths do not fit together or the cache has no room: then nothing has changed. [`Error::Gpu`] where the
    /// device failed.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn attend(&mut self, q: &[f32], k: &[f32], v: &[f32]) -> Result<Vec<f32>> {
        pollster::block_on(self.attend_async(q, k, v))
    }

    /// [`Attention::attend`] for executors and browsers.
    ///
    /// # Errors
    /// As [`Attention::attend`].
    pub async fn attend_async(&mut self, q: &[f32], k: &[f32], v: &[f32]) -> Result<Vec<f32>> {
        let tokens = self.tokens("k", k, self.shape.kv_heads)?;
        if self.tokens("q", q, self.shape.q_heads)? != tokens {
            return Err(mismatch("q", q.len(), tokens * self.shape.q_heads * self.shape.head_dim));
        }
        self.step((q, tokens), k, v).await
    }

    /// Appends the keys and values of some tokens whose queries do not matter.
    ///
    /// # Errors
    /// As [`Attention::attend`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn append(&mut self, k: &[f32], v: &[f32]) -> Result<()> {
        pollster::block_on(self.append_async(k, v))
    }

    /// [`Attention::append`] for executors and browsers.
    ///
    /// # Errors
    /// As [`Attention::attend`].
    pub async fn append_async(&mut self, k: &[f32], v: &[f32]) -> Result<()> {
        // A run attends in any case: one row is the least.
        let row = vec![0.0; (self.shape.q_heads * self.shape.head_dim) as usize];
        self.step((&row, 1), k, v).await.map(drop)
    }

    /// Forgets all tokens from `context_len` on: the next ones take their place.
    ///
    /// # Errors
    /// [`Error::Input`] where there are not so many.
    pub fn rewind(&mut self, context_len: u32) -> Result<()> {
        if context_len > self.context_len {
            return Err(Error::Input {
                what: "context_len".into(),
                wanted: format!("at most the {} tokens so far", self.context_len),
                got: context_len.to_string(),
            });
        }
        self.context_len = context_len;
        Ok(())
    }

    /// Tokens in the cache.
    pub fn context_len(&self) -> u32 {
        self.context_len
    }

    /// The sizes.
    pub fn shape(&self) -> &AttentionShape {
        &self.shape
    }

    /// The session that computes: for profiles, its plan, and its caches as they are.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Appends, then attends from the last `q_tokens` of the tokens.
    async fn step(&mut self, (q, q_tokens): (&[f32], u32), k: &[f32], v: &[f32]) -> Result<Vec<f32>> {
        let AttentionShape { q_heads, kv_heads, head_dim, cache_rows, .. } = self.shape;
        let tokens = self.tokens("k", k, kv_heads)?;
        if v.len() != k.len() {
            return Err(mismatch("v", v.len(), tokens * kv_heads * head_dim));
        }
        if self.context_len + tokens > cache_rows {
            return Err(Error::CacheFull {
                operator: "attend",
                node: 0,
                input_pos: self.context_len.into(),
                new_tokens: tokens,
                cache_rows,
            });
        }
        let positions = [self.context_len, self.context_len + tokens - q_tokens].map(i64::from);
        let positions = positions.map(i64::to_le_bytes);
        let inputs = [
            TensorView::f32(&[1, q_tokens, q_heads, head_dim], q)?,
            TensorView::f32(&[1, tokens, kv_heads, head_dim], k)?,
            TensorView::f32(&[1, tokens, kv_heads, head_dim], v)?,
            TensorView::new(DType::I64, &[1], &positions[0])?,
            TensorView::new(DType::I64, &[1], &positions[1])?,
        ];
        let outputs = self.session.run_async(&inputs.map(Input::Host)).await?;
        self.context_len += tokens;
        outputs
            .first()
            .and_then(|output| output.tensor())
            .ok_or_else(|| Error::Gpu("the attention returned nothing".into()))?
            .to_f32()
    }

    /// How many tokens a tensor has.
    fn tokens(&self, name: &str, values: &[f32], heads: u32) -> Result<u32> {
        let row = (heads * self.shape.head_dim) as usize;
        let tokens = values.len() / row;
        let fits = tokens * row == values.len() && (1..=self.shape.max_new_tokens as usize).contains(&tokens);
        if fits {
            return Ok(tokens as u32);
        }
        Err(Error::Input {
            what: name.into(),
            wanted: format!("1 to {} tokens of {row} elements", self.shape.max_new_tokens),
            got: format!("{} elements", values.len()),
        })
    }
}

fn mismatch(name: &str, got: usize, wanted: u32) -> Error {
    Error::Input { what: name.into(), wanted: format!("{wanted} elements"), got: got.to_string() }
}

/// Keys and values into their caches, then attention from the queries on. Queries have a position of their own, so that
/// there can be fewer of them than keys.
fn graph<'a>(shape: &AttentionShape, zeros: &'a [u8]) -> Result<Graph<'a>> {
    let AttentionShape { q_heads, kv_heads, head_dim, max_new_tokens, cache_rows, scale } = *shape;
    let mut graph = GraphBuilder::new("attention");
    let q = graph.input(DType::F32, &[1, max_new_tokens, q_heads, head_dim])?;
    let values = [
        graph.input(DType::F32, &[1, max_new_tokens, kv_heads, head_dim])?,
        graph.input(DType::F32, &[1, max_new_tokens, kv_heads, head_dim])?,
    ];
    let mut position = |input: usize| -> Result<IntArg> {
        graph.input(DType::I64, &[1])?;
        Ok(graph.select_as_symint(input, 0))
    };
    let (kv_pos, q_pos) = (position(3)?, position(4)?);
    let mut caches = Vec::with_capacity(2);
    for value in values {
        let cache = graph.constant(DType::F32, &[1, cache_rows, kv_heads, head_dim], zeros)?;
        graph.update_cache(value, cache, kv_pos);
        caches.push(cache);
    }
    let out = graph.attend(q, [caches[0], caches[1]], q_pos, scale)?;
    graph.output(out);
    graph.finish()
}
