//! `sdpa_matrix`: attention of one step.

use crate::kernels::AttentionProblem;

/// The output `[s, h, d]`: all three stages of attention. The caches hold what f16 keeps of keys and values.
pub fn reference(problem: &AttentionProblem, q: &[f32], k_cache: &[f32], v_cache: &[f32]) -> Vec<f64> {
    super::attention(problem, q, k_cache, v_cache)
}
