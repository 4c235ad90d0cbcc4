//! Attention with a KV cache and no program: a prefill, some decode steps, and a step back.
//!
//! `cargo run --release --example attention`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use torchlight::kernels::KvType;
use torchlight::{Attention, AttentionShape, Gpu, GpuOptions, Result, SessionOptions};

fn main() -> Result<()> {
    let gpu = Gpu::open_blocking(&GpuOptions::default())?;
    let shape =
        AttentionShape { q_heads: 8, kv_heads: 2, head_dim: 64, max_new_tokens: 32, cache_rows: 512, scale: None };
    let options = SessionOptions { kv: KvType::F16, ..SessionOptions::default() };
    let mut attention = Attention::new(&gpu, shape, options)?;

    // Numbers in place of what a model's projections would give.
    let values = |count: usize| -> Vec<f32> { (0..count).map(|i| (i as f32 * 0.37).sin()).collect() };
    let (q, kv) = (values(32 * 8 * 64), values(32 * 2 * 64));
    let prefill = attention.attend(&q, &kv, &kv)?;
    println!("prefill of 32 tokens: {} results, the first is {:.4}", prefill.len(), prefill[0]);

    for _ in 0..3 {
        let decode = attention.attend(&q[..8 * 64], &kv[..2 * 64], &kv[..2 * 64])?;
        println!("context {}: the first result is {:.4}", attention.context_len(), decode[0]);
    }
    attention.rewind(32)?;
    println!("back at context {}", attention.context_len());
    Ok(())
}
