//! `linear_vector`: a linear layer, with a norm in front and what becomes of the product behind.

use super::rms_norm;
use crate::kernels::LinearProblem;
use crate::kernels::linear::Ending;

/// What a layer reads; shapes by its problem.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// `[rows, in_features]`
    pub x: &'a [f32],
    /// The weight of the norm, `[in_features]`, and what is added to the mean square.
    pub norm: Option<(&'a [f32], f32)>,
    /// The weight.
    pub weight: Weight<'a>,
    /// `[weight_rows]`
    pub bias: Option<&'a [f32]>,
    /// `[rows, out_features]`
    pub residual: Option<&'a [f32]>,
}

/// A weight, `[weight_rows, in_features]`.
#[derive(Clone, Copy, Debug)]
pub enum Weight<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// Numbers of 4 bits.
    Q4 {
        /// `[weight_rows, in_features / 2]`: the even column in the low half of a byte.
        numbers: &'a [u8],
        /// `[in_features / group, weight_rows]`
        scales: &'a [f32],
    },
}

/// The result `[rows, out_features]`.
pub fn reference(problem: &LinearProblem, operands: Operands<'_>) -> Vec<f64> {
    let Operands { x, norm, weight, bias, residual } = operands;
    let [columns, outputs] = [problem.in_features, problem.out_features].map(|size| size as usize);
    let x = match norm {
        Some((norm, eps)) => rms_norm::reference(eps, x, norm),
        None => x.iter().copied().map(f64::from).collect(),
    };
    let weight = values(problem, weight);
    let mut out = Vec::new();
    for (row, x) in x.chunks_exact(columns).enumerate() {
        let product = |output: usize| {
            let weights = &weight[output * columns..][..columns];
            let product: f64 = x.iter().zip(weights).map(|(x, weight)| x * weight).sum();
            product + bias.map_or(0.0, |bias| f64::from(bias[output]))
        };
        out.extend((0..outputs).map(|output| match problem.ending {
            Ending::Plain => product(output),
            Ending::Add => {
                product(output) + residual.map_or(0.0, |residual| f64::from(residual[row * outputs + output]))
            }
            Ending::SwiGlu => silu(product(output)) * product(outputs + output),
        }));
    }
    out
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// Every value of a weight, row by row.
fn values(problem: &LinearProblem, weight: Weight<'_>) -> Vec<f64> {
    let (columns, rows) = (problem.in_features as usize, problem.weight_rows() as usize);
    match weight {
        Weight::F32(values) => values.iter().copied().map(f64::from).collect(),
        Weight::Q4 { numbers, scales } => {
            let group = problem.weight.group() as usize;
            let value = |index: usize| {
                let (row, column) = (index / columns, index % columns);
                let byte = numbers[index / 2];
                let number = if column % 2 == 0 { byte & 15 } else { byte >> 4 };
                (f64::from(number) - 8.0) * f64::from(scales[column / group * rows + row])
            };
            (0..columns * rows).map(value).collect()
        }
    }
}
