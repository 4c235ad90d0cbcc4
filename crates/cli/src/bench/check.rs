//! Results against f64, before anything is timed: a wrong kernel has no time.

use serde::Serialize;
use torchlight::Route;
use torchlight::kernels::{AttentionProblem, KvType};

use super::data::floats;

/// Products that the reference computes at most for a check: a fraction of a second.
const BUDGET: u64 = 1 << 24;
/// Rows that are checked of every step, however large it is.
const LEAST_ROWS: u64 = 8;

/// How far results are from f64.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Checked {
    /// Rows (a head of a token) that were held against f64, the first and the last among them.
    pub(crate) rows: usize,
    /// Norm of the error over the norm of the right result, of all these rows together.
    pub(crate) rel_l2: f64,
    /// What passes.
    pub(crate) tolerance: f64,
}

impl Checked {
    /// Whether the error is within the tolerance; NaN is not.
    pub(crate) fn passed(&self) -> bool {
        self.rel_l2 <= self.tolerance
    }

    /// The worse of two.
    pub(crate) fn or_worse(self, other: Self) -> Self {
        if other.rel_l2 > self.rel_l2 || other.rel_l2.is_nan() { other } else { self }
    }
}

/// What rounding explains: scores and weights of the matrix route are f16, and other routes may round weights to it.
pub(crate) fn tolerance(route: Route, kv: KvType) -> f64 {
    match (route, kv) {
        (Route::Matrix, _) => 1e-2,
        (_, KvType::F16) => 4e-3,
        (_, KvType::F32) => 1e-4,
    }
}

/// Holds a step's output against f64, row by row: all rows of a small step, some of a large one.
pub(crate) fn check(problem: &AttentionProblem, q: &[f32], caches: [&[u8]; 2], got: &[f32]) -> (usize, f64) {
    let head_dim = problem.head_dim as usize;
    let rows = sampled_rows(problem);
    let (mut error, mut norm) = (0.0, 0.0);
    for &row in &rows {
        let wanted = reference_row(problem, q, caches, row);
        for (wanted, got) in wanted.iter().zip(&got[row * head_dim..]) {
            error += (wanted - f64::from(*got)).powi(2);
            norm += wanted * wanted;
        }
    }
    // Rows that were not computed again are at least numbers.
    let is_sound = got.len() == problem.query_elements() as usize && got.iter().all(|value| value.is_finite());
    let rel_l2 = if is_sound { f64::sqrt(error / norm) } else { f64::NAN };
    (rows.len(), rel_l2)
}

/// Rows in the order of the output (`token * q_heads + head`), evenly from the first to the last.
fn sampled_rows(problem: &AttentionProblem) -> Vec<usize> {
    let all = u64::from(problem.q_heads) * u64::from(problem.new_tokens);
    let row_cost = u64::from(problem.context_len()) * u64::from(problem.head_dim);
    let count = (BUDGET / row_cost).max(LEAST_ROWS).min(all);
    let last = count.saturating_sub(1).max(1);
    (0..count).map(|index| (index * (all - 1) / last) as usize).collect()
}

/// One head of one token, in f64.
fn reference_row(problem: &AttentionProblem, q: &[f32], [keys, values]: [&[u8]; 2], row: usize) -> Vec<f64> {
    let head_dim = problem.head_dim as usize;
    let (token, head) = (row / problem.q_heads as usize, row % problem.q_heads as usize);
    let kv_head = head / (problem.q_heads / problem.kv_heads) as usize;
    let visible = problem.input_pos as usize + token + 1;
    let query = &q[row * head_dim..][..head_dim];
    let of_key = |cache: &'_ [u8], key: usize| {
        let first = 4 * (key * problem.kv_heads as usize + kv_head) * head_dim;
        floats(&cache[first..first + 4 * head_dim]).map(f64::from).collect::<Vec<f64>>()
    };
    let scores: Vec<f64> = (0..visible)
        .map(|key| {
            let products = of_key(keys, key).into_iter().zip(query).map(|(k, q)| k * f64::from(*q));
            f64::from(problem.scale) * products.sum::<f64>()
        })
        .collect();
    let highest = scores.iter().copied().fold(f64::MIN, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - highest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut out = vec![0.0; head_dim];
    for (key, weight) in weights.iter().enumerate() {
        for (out, value) in out.iter_mut().zip(of_key(values, key)) {
            *out += weight / sum * value;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::data::Data;
    use super::super::shapes::{Heads, Shape};
    use super::*;

    fn shape() -> Shape {
        Shape { heads: Heads { q_heads: 6, kv_heads: 2, head_dim: 12 }, new_tokens: 5, context_len: 17 }
    }

    #[test]
    fn the_library_s_reference_passes_and_one_wrong_row_does_not() {
        let (shape, data) = (shape(), Data::new(&[shape()], 1));
        let (problem, q, caches) = (shape.problem(), data.q(&shape), data.pair(&shape, 0));
        let [k, v] = caches.map(|cache| floats(cache).collect::<Vec<f32>>());
        let right = torchlight::reference::attention(&problem, &q, &k, &v);
        let mut got: Vec<f32> = right.iter().map(|value| *value as f32).collect();
        let (rows, rel_l2) = check(&problem, &q, caches, &got);
        assert_eq!(rows, 30);
        assert!(rel_l2 < 1e-6, "{rel_l2}");
        got[29 * 12] += 0.5;
        let (_, rel_l2) = check(&problem, &q, caches, &got);
        assert!(rel_l2 > tolerance(Route::Matrix, KvType::F16), "{rel_l2}");
        got[3] = f32::NAN;
        let (rows, rel_l2) = check(&problem, &q, caches, &got);
        assert!(!Checked { rows, rel_l2, tolerance: 1e-2 }.passed());
    }

    #[test]
    fn sampled_rows_include_the_first_and_the_last() {
        let large = Shape { new_tokens: 4096, context_len: 32768, ..shape() };
        let rows = sampled_rows(&large.problem());
        assert_eq!((rows[0], rows[rows.len() - 1]), (0, 6 * 4096 - 1));
        assert!(rows.len() < 100 && rows.is_sorted(), "{rows:?}");
        let one = Shape { heads: Heads { q_heads: 1, kv_heads: 1, head_dim: 4 }, new_tokens: 1, context_len: 1 };
        assert_eq!(sampled_rows(&one.problem()), [0]);
    }
}
