//! `sdpa_merge`: joins the results of the splits of each row.

use super::sdpa_split::Partial;

/// The output `[row][head_dim]` of rows with `splits` splits each.
pub fn reference(partial: &Partial, splits: usize) -> Vec<f64> {
    let head_dim = partial.out.len() / partial.max_sum.len();
    let mut out = Vec::with_capacity(partial.out.len() / splits);
    for (max_sums, outs) in partial.max_sum.chunks(splits).zip(partial.out.chunks(splits * head_dim)) {
        let counts = |split: &usize| max_sums[*split][1] != 0.0;
        let splits: Vec<usize> = (0..splits).filter(counts).collect();
        let highest = splits.iter().map(|&split| max_sums[split][0]).fold(f64::MIN, f64::max);
        let weight = |split: usize| (max_sums[split][0] - highest).exp();
        let sum: f64 = splits.iter().map(|&split| weight(split) * max_sums[split][1]).sum();
        let column = |column: usize| splits.iter().map(|&split| weight(split) * outs[split * head_dim + column]).sum();
        out.extend((0..head_dim).map(|index| -> f64 { column(index) }).map(|value| value / sum));
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::kernels::AttentionProblem;
    use crate::reference::{attention, sdpa_split};

    #[test]
    fn splits_merge_to_attention() {
        let problem =
            AttentionProblem { q_heads: 4, kv_heads: 2, head_dim: 4, new_tokens: 3, input_pos: 8, scale: 0.5 };
        let mut random = fastrand::Rng::with_seed(1);
        let [q, k, v] = [3 * 16, 11 * 8, 11 * 8].map(|len| Vec::from_iter((0..len).map(|_| random.f32() * 4.0 - 2.0)));
        let wanted = attention(&problem, &q, &k, &v);
        for chunk in [1, 2, 5, 11] {
            let partial = sdpa_split::reference(&problem, [&k, &v], &q, chunk);
            let out = super::reference(&partial, 11_usize.div_ceil(chunk));
            assert_eq!(out.len(), wanted.len());
            for (out, wanted) in out.iter().zip(&wanted) {
                assert!((out - wanted).abs() < 1e-12, "{out} {wanted}");
            }
        }
    }
}
