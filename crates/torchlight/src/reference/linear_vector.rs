//! `linear_vector`: a linear layer.

use crate::kernels::LinearProblem;

/// The result `[rows, out_features]` of x `[rows, in_features]` and weight `[out_features, in_features]`.
pub fn reference(problem: &LinearProblem, x: &[f32], weight: &[f32], bias: Option<&[f32]>) -> Vec<f64> {
    let weight: Vec<f64> = weight.iter().copied().map(f64::from).collect();
    product(problem, x, &weight, bias)
}

/// The same over a weight in f64.
pub(super) fn product(problem: &LinearProblem, x: &[f32], weight: &[f64], bias: Option<&[f32]>) -> Vec<f64> {
    let in_features = problem.in_features as usize;
    let mut out = Vec::new();
    for row in x.chunks_exact(in_features) {
        for (output, weights) in weight.chunks_exact(in_features).enumerate() {
            let product: f64 = row.iter().zip(weights).map(|(&x, weight)| f64::from(x) * weight).sum();
            out.push(product + bias.map_or(0.0, |bias| f64::from(bias[output])));
        }
    }
    out
}
