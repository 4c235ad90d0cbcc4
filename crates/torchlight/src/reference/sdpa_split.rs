//! `sdpa_split`: attention to the keys of each split, not yet normalised.

use super::{head_range, rows, sdpa_compute_attn_weights};
use crate::kernels::AttentionProblem;

/// What the splits leave to merge.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// `[row][split][head_dim]`, row = token * q_heads + head: the values, each times exp(score - max).
    pub out: Vec<f64>,
    /// `[row][split]`: the highest score, and the sum of exp(score - max); a sum of 0 where the row sees no key of the split.
    pub max_sum: Vec<[f64; 2]>,
}

/// The partial results where split i has the keys `i * chunk..(i + 1) * chunk`.
pub fn reference(problem: &AttentionProblem, caches: [&[f32]; 2], q: &[f32], chunk: usize) -> Partial {
    let [k_cache, v_cache] = caches;
    let (context_len, head_dim) = (problem.context_len() as usize, problem.head_dim as usize);
    let splits = context_len.div_ceil(chunk);
    let scores = sdpa_compute_attn_weights::reference(problem, q, k_cache);
    let entries = rows(problem).count() * splits;
    let mut partial = Partial { out: vec![0.0; entries * head_dim], max_sum: vec![[f64::MIN, 0.0]; entries] };
    for row in rows(problem) {
        let kv_head = row.head / (problem.q_heads / problem.kv_heads);
        let first_entry = (row.token * problem.q_heads + row.head) as usize * splits;
        for split in 0..splits {
            let keys = (split * chunk).min(row.visible)..((split + 1) * chunk).min(row.visible);
            let entry = first_entry + split;
            let score = |key: usize| scores[row.index * context_len + key];
            let highest = keys.clone().map(score).fold(f64::MIN, f64::max);
            partial.max_sum[entry][0] = highest;
            for key in keys {
                let weight = (score(key) - highest).exp();
                partial.max_sum[entry][1] += weight;
                let v_row = &v_cache[head_range(key, problem.kv_heads, kv_head, problem.head_dim)];
                for (out, &v) in partial.out[entry * head_dim..].iter_mut().zip(v_row) {
                    *out += weight * f64::from(v);
                }
            }
        }
    }
    partial
}
