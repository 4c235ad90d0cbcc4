//! `rotary_update_cache`: rotary position embedding of queries and keys, and new keys and values to their caches.

use super::{apply_rotary_emb, update_cache};
use crate::kernels::rotary_update_cache::{Layout, Step};
use crate::kernels::update_cache::Rows;

/// Turns queries, and writes keys, turned, and values into their caches.
///
/// `qkv` are queries, keys and values, each `[tokens, heads, head_dim]`, or three times the one buffer that holds all, as the
/// step's layout says. The angles are tables of rows of `head_dim / 2`, of which those from `first_angle` on are read.
pub fn reference(step: &Step, qkv: [&[f32]; 3], angles: [&[f32]; 2], caches: [&mut [f32]; 2]) -> Vec<f64> {
    let [q, k, v] = apart(step, qkv);
    let row = step.head_dim as usize / 2;
    let first = step.first_angle as usize * row;
    let angles = angles.map(|table| &table[first..first + step.tokens as usize * row]);
    let keys = apply_rotary_emb::reference(step.kv_heads, step.head_dim, &k, angles);
    let keys: Vec<f32> = keys.into_iter().map(|key| key as f32).collect();
    let rows = Rows { row_elements: step.kv_heads * step.head_dim, new_tokens: step.tokens, input_pos: step.input_pos };
    let [k_cache, v_cache] = caches;
    update_cache::reference(rows, &keys, k_cache);
    update_cache::reference(rows, &v, v_cache);
    apply_rotary_emb::reference(step.q_heads, step.head_dim, &q, angles)
}

/// Queries, keys and values, each by itself.
fn apart(step: &Step, qkv: [&[f32]; 3]) -> [Vec<f32>; 3] {
    let [queries, keys] = [step.q_heads, step.kv_heads].map(|heads| (heads * step.head_dim) as usize);
    match step.layout {
        Layout::Apart => qkv.map(<[f32]>::to_vec),
        Layout::Joined => {
            let part = |first: usize, count: usize| {
                let tokens = qkv[0].chunks_exact(queries + 2 * keys);
                tokens.flat_map(|token| &token[first..first + count]).copied().collect()
            };
            [part(0, queries), part(queries, keys), part(queries + keys, keys)]
        }
    }
}
