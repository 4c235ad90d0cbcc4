//! `sdpa_streaming`: attention in one kernel.

use crate::kernels::AttentionProblem;

/// The output `[s, h, d]`. What the kernel does not store, the scores and the weights, is made here all the same.
pub fn reference(problem: &AttentionProblem, q: &[f32], k_cache: &[f32], v_cache: &[f32]) -> Vec<f64> {
    super::attention(problem, q, k_cache, v_cache)
}
