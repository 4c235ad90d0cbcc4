//! `sdpa_compute_attn_weights`: the scores of the visible keys.

use super::{head_range, rows};
use crate::kernels::AttentionProblem;

/// The scores `[h, s, t]`; NaN where row `s` may not see key `t`.
pub fn reference(problem: &AttentionProblem, q: &[f32], k_cache: &[f32]) -> Vec<f64> {
    let context_len = problem.context_len() as usize;
    let mut scores = vec![f64::NAN; problem.scores() as usize];
    for row in rows(problem) {
        let q_row = &q[head_range(row.token as usize, problem.q_heads, row.head, problem.head_dim)];
        let kv_head = row.head / (problem.q_heads / problem.kv_heads);
        for t in 0..row.visible {
            let k_row = &k_cache[head_range(t, problem.kv_heads, kv_head, problem.head_dim)];
            let dot: f64 = q_row.iter().zip(k_row).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
            scores[row.index * context_len + t] = f64::from(problem.scale) * dot;
        }
    }
    scores
}
