//! Attention without a program: prefill, then decode, and what each kernel cost.
//!
//! `cargo run --release -p torchlight --example profile_session`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use torchlight::{DType, Gpu, GpuOptions, GraphBuilder, Input, Session, SessionOptions, TensorView, TimestampMode};

const HEADS: u32 = 8;
const KV_HEADS: u32 = 2;
const HEAD_DIM: u32 = 64;
const CACHE_ROWS: u32 = 512;
const PREFILL: u32 = 128;

fn main() -> torchlight::Result<()> {
    let zeros = vec![0; (CACHE_ROWS * KV_HEADS * HEAD_DIM * 4) as usize];
    let mut graph = GraphBuilder::new("attention");
    let q = graph.input(DType::F32, &[1, PREFILL, HEADS, HEAD_DIM])?;
    let k = graph.input(DType::F32, &[1, PREFILL, KV_HEADS, HEAD_DIM])?;
    let v = graph.input(DType::F32, &[1, PREFILL, KV_HEADS, HEAD_DIM])?;
    graph.input(DType::I64, &[1])?;
    let input_pos = graph.select_as_symint(3, 0);
    let cache = [1, CACHE_ROWS, KV_HEADS, HEAD_DIM];
    let caches = [graph.constant(DType::F32, &cache, &zeros)?, graph.constant(DType::F32, &cache, &zeros)?];
    let out = graph.sdpa_with_kv_cache([q, k, v], caches, input_pos, None)?;
    graph.output(out);

    let gpu = Gpu::open_blocking(&GpuOptions::default())?;
    let options = SessionOptions { timestamps: TimestampMode::Pass, ..SessionOptions::default() };
    let mut session = Session::new(&gpu, &graph.finish()?, options)?;
    let mut position = 0;
    for tokens in [PREFILL, 1, 1, 1, 1] {
        let ones = vec![0.01; (tokens * HEADS * HEAD_DIM) as usize];
        let queries = TensorView::f32(&[1, tokens, HEADS, HEAD_DIM], &ones)?;
        let kv = TensorView::f32(&[1, tokens, KV_HEADS, HEAD_DIM], &ones[..(tokens * KV_HEADS * HEAD_DIM) as usize])?;
        let at = [i64::from(position)];
        session.run(&[queries.into(), kv.into(), kv.into(), Input::Host(TensorView::i64(&[1], &at)?)])?;
        position += tokens;
    }
    for kernel in session.take_profile()?.kernels() {
        let mean_us = kernel.durations.mean_ns().map_or("-".to_owned(), |ns| format!("{:.1}", ns / 1000.0));
        println!("{:26} {:3} dispatches, {mean_us:>8} µs each", kernel.kernel, kernel.durations.dispatches);
    }
    Ok(())
}
