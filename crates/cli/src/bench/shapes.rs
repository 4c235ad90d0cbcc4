//! The steps of attention to time: those of known models, or the caller's own.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use torchlight::kernels::{AttentionProblem, KvType};

/// Options that say which steps.
#[derive(Debug, Args)]
pub(crate) struct ShapeArgs {
    /// The heads of a model. Default: llama-1b.
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["heads", "kv_heads", "head_dim"])]
    preset: Option<Preset>,

    /// Query heads, in place of a preset.
    #[arg(long, value_name = "N", value_parser = size(), requires_all = ["kv_heads", "head_dim"])]
    heads: Option<u32>,

    /// KV heads; they divide the query heads.
    #[arg(long, value_name = "N", value_parser = size(), requires = "heads")]
    kv_heads: Option<u32>,

    /// Elements of a head.
    #[arg(long, value_name = "N", value_parser = size(), requires = "heads")]
    head_dim: Option<u32>,

    /// New tokens of a step, one number or several: each with each context that holds them. Default: decode and
    /// prefill as models do them.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = size(), requires = "context")]
    seq: Vec<u32>,

    /// Keys in the cache after the step, the new ones included.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = size(), requires = "seq")]
    context: Vec<u32>,
}

fn size() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

/// Heads of models, and sets of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// 32 heads, 8 KV heads, head_dim 64.
    #[value(name = "llama-1b")]
    Llama1b,
    /// 32 heads, 8 KV heads, head_dim 128.
    #[value(name = "llama-8b")]
    Llama8b,
    /// 16 heads, 8 KV heads, head_dim 128.
    Qwen3,
    /// 9 heads, 3 KV heads, head_dim 64.
    Smollm2,
    /// Both llamas, and four shapes that nothing was tuned on.
    Sweep,
}

/// Query heads, KV heads, head_dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Heads {
    pub(crate) q_heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) head_dim: u32,
}

/// One step of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Shape {
    #[serde(flatten)]
    pub(crate) heads: Heads,
    pub(crate) new_tokens: u32,
    pub(crate) context_len: u32,
}

/// Decode, prefill, a long prompt in pieces, and a guess of a few tokens: tokens and keys.
const STEPS: [[u32; 2]; 9] =
    [[1, 512], [1, 2048], [1, 8192], [1, 32768], [512, 512], [2048, 2048], [4096, 4096], [128, 4096], [4, 8192]];

/// Steps that a software adapter does in no time, of every kind: one token, a few, and many.
const SMOKE: [(Heads, [u32; 2]); 4] = [
    (Heads::new(4, 2, 16), [1, 96]),
    (Heads::new(4, 2, 16), [4, 40]),
    (Heads::new(4, 2, 16), [33, 33]),
    (Heads::new(3, 1, 20), [17, 50]),
];

impl Heads {
    const fn new(q_heads: u32, kv_heads: u32, head_dim: u32) -> Self {
        Self { q_heads, kv_heads, head_dim }
    }
}

impl std::fmt::Display for Heads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} heads, {} KV heads, head_dim {}", self.q_heads, self.kv_heads, self.head_dim)
    }
}

impl Preset {
    fn heads(self) -> Vec<Heads> {
        let [llama_1b, llama_8b] = [Heads::new(32, 8, 64), Heads::new(32, 8, 128)];
        match self {
            Self::Llama1b => vec![llama_1b],
            Self::Llama8b => vec![llama_8b],
            Self::Qwen3 => vec![Heads::new(16, 8, 128)],
            Self::Smollm2 => vec![Heads::new(9, 3, 64)],
            Self::Sweep => {
                let untuned = [[14, 2, 64], [24, 8, 80], [32, 8, 96], [16, 8, 256]];
                let untuned = untuned.map(|[heads, kv_heads, head_dim]| Heads::new(heads, kv_heads, head_dim));
                [llama_1b, llama_8b].into_iter().chain(untuned).collect()
            }
        }
    }
}

impl ShapeArgs {
    /// The steps, in the order in which they are timed.
    pub(crate) fn shapes(&self) -> Result<Vec<Shape>> {
        let steps = self.steps()?;
        let shape = |heads, [new_tokens, context_len]: [u32; 2]| Shape { heads, new_tokens, context_len };
        let of_heads = |heads| steps.iter().map(move |&step| shape(heads, step));
        Ok(self.heads()?.into_iter().flat_map(of_heads).collect())
    }

    fn heads(&self) -> Result<Vec<Heads>> {
        let (Some(q_heads), Some(kv_heads), Some(head_dim)) = (self.heads, self.kv_heads, self.head_dim) else {
            return Ok(self.preset.unwrap_or(Preset::Llama1b).heads());
        };
        if q_heads % kv_heads != 0 {
            bail!("--heads {q_heads} is no multiple of --kv-heads {kv_heads}");
        }
        Ok(vec![Heads { q_heads, kv_heads, head_dim }])
    }

    fn steps(&self) -> Result<Vec<[u32; 2]>> {
        if self.seq.is_empty() {
            return Ok(STEPS.to_vec());
        }
        let most = self.context.iter().copied().max().unwrap_or(0);
        if let Some(seq) = self.seq.iter().find(|&&seq| seq > most) {
            bail!("--seq {seq} does not fit into --context {most}: the context counts the new tokens");
        }
        let each = self.seq.iter().flat_map(|&seq| self.context.iter().map(move |&context| [seq, context]));
        Ok(each.filter(|[seq, context]| seq <= context).collect())
    }

    /// The steps of a quick run.
    pub(crate) fn smoke() -> Vec<Shape> {
        SMOKE.map(|(heads, [new_tokens, context_len])| Shape { heads, new_tokens, context_len }).to_vec()
    }
}

impl Shape {
    /// The step as kernels see it.
    pub(crate) fn problem(&self) -> AttentionProblem {
        let Heads { q_heads, kv_heads, head_dim } = self.heads;
        AttentionProblem {
            q_heads,
            kv_heads,
            head_dim,
            new_tokens: self.new_tokens,
            input_pos: self.context_len - self.new_tokens,
            scale: (1.0 / f64::from(head_dim).sqrt()) as f32,
        }
    }

    /// The shape of q and of the output.
    pub(crate) fn q_dims(&self) -> [u32; 4] {
        [1, self.new_tokens, self.heads.q_heads, self.heads.head_dim]
    }

    /// The shape of either cache.
    pub(crate) fn cache_dims(&self) -> [u32; 4] {
        [1, self.context_len, self.heads.kv_heads, self.heads.head_dim]
    }

    /// Bytes of a K/V pair on the device.
    pub(crate) fn pair_bytes(&self, kv: KvType) -> u64 {
        2 * self.problem().context_elements() * u64::from(kv.size_bytes())
    }

    /// Bytes that a step must move: K, V, q and the output, each once; the last two are f32.
    pub(crate) fn bytes(&self, kv: KvType) -> u64 {
        self.pair_bytes(kv) + 2 * 4 * self.problem().query_elements()
    }

    /// Floating-point operations of a step: two products for every score that a row may see.
    pub(crate) fn flops(&self) -> u64 {
        4 * u64::from(self.heads.head_dim) * self.problem().visible_scores()
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} new over {} keys", self.heads, self.new_tokens, self.context_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_by_hand() {
        let shape = Shape { heads: Heads::new(4, 2, 8), new_tokens: 3, context_len: 5 };
        // Rows see 3, 4 and 5 keys.
        assert_eq!(shape.flops(), 4 * 8 * 4 * (3 + 4 + 5));
        assert_eq!(shape.bytes(KvType::F16), 2 * 2 * 5 * 2 * 8 + 2 * 4 * 3 * 4 * 8);
        assert_eq!(shape.pair_bytes(KvType::F32), 2 * 4 * 5 * 2 * 8);
    }

    #[test]
    fn every_preset_has_heads_that_divide() {
        for preset in Preset::value_variants() {
            assert!(preset.heads().iter().all(|heads| heads.q_heads % heads.kv_heads == 0), "{preset:?}");
        }
        assert_eq!(Preset::Sweep.heads().len(), 6);
    }
}
