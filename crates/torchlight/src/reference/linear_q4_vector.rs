//! `linear_q4_vector`: a linear layer over a weight of 4-bit numbers.

use crate::kernels::LinearProblem;

/// A weight of 4-bit numbers.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    /// `[out_features, in_features / 2]`: the even column in the low half of a byte.
    pub numbers: &'a [u8],
    /// `[in_features / group, out_features]`.
    pub scales: &'a [f32],
    /// Columns that share a scale.
    pub group: u32,
}

/// The result `[rows, out_features]` of x `[rows, in_features]`.
pub fn reference(problem: &LinearProblem, x: &[f32], weight: Packed<'_>, bias: Option<&[f32]>) -> Vec<f64> {
    let [columns, outputs] = [problem.in_features, problem.out_features].map(|size| size as usize);
    let value = |index: usize| {
        let (output, column) = (index / columns, index % columns);
        let byte = weight.numbers[index / 2];
        let number = if column % 2 == 0 { byte & 15 } else { byte >> 4 };
        (f64::from(number) - 8.0) * f64::from(weight.scales[column / weight.group as usize * outputs + output])
    };
    let values: Vec<f64> = (0..columns * outputs).map(value).collect();
    super::linear_vector::product(problem, x, &values, bias)
}
