//! The kernels in plain Rust with f64 inside: the oracle that tests hold the WGSL against.
//!
//! One module a kernel, with the same stem. Written to be read beside the formula, not to be fast. Shapes as in
//! [`crate::kernels`]: q and out `[s, h, d]`, caches `[rows, hk, d]`, scores and weights `[h, s, t]` with
//! `t < context_len`; elements that no row may see are NaN, so that a read of one shows.

pub mod apply_rotary_emb;
pub mod binary;
pub mod calibrate_copy;
pub mod calibrate_fma;
pub mod calibrate_matrix;
pub mod embedding;
pub mod embedding_q4;
pub mod linear_matrix;
pub mod linear_tile;
pub mod linear_vector;
pub mod rms_norm;
pub mod rotary_update_cache;
pub mod sdpa_compute_attn_weights;
pub mod sdpa_compute_out;
pub mod sdpa_matrix;
pub mod sdpa_merge;
pub mod sdpa_softmax;
pub mod sdpa_split;
pub mod sdpa_streaming;
pub mod slice_copy;
pub mod unary;
pub mod update_cache;

use crate::kernels::AttentionProblem;

/// Causal attention of one step over caches that already hold its keys and values: all three stages.
pub fn attention(problem: &AttentionProblem, q: &[f32], k_cache: &[f32], v_cache: &[f32]) -> Vec<f64> {
    let mut weights = sdpa_compute_attn_weights::reference(problem, q, k_cache);
    sdpa_softmax::reference(problem, &mut weights);
    sdpa_compute_out::reference(problem, &weights, v_cache)
}

/// Every row of a step with its head, its token and the number of keys that it sees.
fn rows(problem: &AttentionProblem) -> impl Iterator<Item = Row> + use<> {
    let problem = *problem;
    let row = move |index| {
        let (head, token) = (index / problem.new_tokens, index % problem.new_tokens);
        Row { index: index as usize, head, token, visible: (problem.input_pos + token + 1) as usize }
    };
    (0..problem.q_heads * problem.new_tokens).map(row)
}

struct Row {
    index: usize,
    head: u32,
    token: u32,
    visible: usize,
}

/// The elements of one head of one token or key.
fn head_range(position: usize, heads: u32, head: u32, head_dim: u32) -> std::ops::Range<usize> {
    let first = (position * heads as usize + head as usize) * head_dim as usize;
    first..first + head_dim as usize
}
