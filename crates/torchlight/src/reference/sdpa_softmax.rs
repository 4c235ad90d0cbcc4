//! `sdpa_softmax`: scores to weights, in place.

use super::rows;
use crate::kernels::AttentionProblem;

/// Turns the visible scores of each row into weights.
pub fn reference(problem: &AttentionProblem, scores: &mut [f64]) {
    let context_len = problem.context_len() as usize;
    for row in rows(problem) {
        let first = row.index * context_len;
        let visible = &mut scores[first..first + row.visible];
        // f64::max ignores NaN; a NaN score must make its whole row NaN, as the sum below does.
        let highest = visible.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for score in visible.iter_mut() {
            *score = (*score - highest).exp();
        }
        let sum: f64 = visible.iter().sum();
        for score in visible {
            *score /= sum;
        }
    }
}
