//! `apply_rotary_emb`: rotary position embedding of queries and keys, in pairs of neighbours.

/// `x` is `[tokens, heads, head_dim]`, the angles are `[tokens, head_dim / 2]`: queries or keys, turned.
pub fn reference(heads: u32, head_dim: u32, x: &[f32], [cosines, sines]: [&[f32]; 2]) -> Vec<f64> {
    let (head_dim, pairs) = (head_dim as usize, head_dim as usize / 2);
    let mut out = Vec::with_capacity(x.len());
    for (index, head) in x.chunks(head_dim).enumerate() {
        let token = index / heads as usize;
        for (pair, x) in head.chunks(2).enumerate() {
            let [c, s] = [cosines, sines].map(|angles| f64::from(angles[token * pairs + pair]));
            let (a, b) = (f64::from(x[0]), f64::from(x[1]));
            out.extend([a * c - b * s, a * s + b * c]);
        }
    }
    out
}
