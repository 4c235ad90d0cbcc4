//! `unary`: a function of each element.

use crate::kernels::unary::Function;

/// The results, in the order of `x`.
pub fn reference(function: Function, x: &[f32]) -> Vec<f64> {
    let apply = |&x: &f32| match function {
        Function::Sigmoid => 1.0 / (1.0 + (-f64::from(x)).exp()),
    };
    x.iter().map(apply).collect()
}
