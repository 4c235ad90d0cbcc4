//! `sdpa_compute_out`: weights times values.

use super::{head_range, rows};
use crate::kernels::AttentionProblem;

/// The output `[s, h, d]`.
pub fn reference(problem: &AttentionProblem, weights: &[f64], v_cache: &[f32]) -> Vec<f64> {
    let context_len = problem.context_len() as usize;
    let mut out = vec![0.0; problem.new_tokens as usize * problem.q_heads as usize * problem.head_dim as usize];
    for row in rows(problem) {
        let kv_head = row.head / (problem.q_heads / problem.kv_heads);
        let out_row = &mut out[head_range(row.token as usize, problem.q_heads, row.head, problem.head_dim)];
        for t in 0..row.visible {
            let weight = weights[row.index * context_len + t];
            let v_row = &v_cache[head_range(t, problem.kv_heads, kv_head, problem.head_dim)];
            for (out, &v) in out_row.iter_mut().zip(v_row) {
                *out += weight * f64::from(v);
            }
        }
    }
    out
}
