//! `binary`: sums and products of two tensors, with broadcasting.

use crate::kernels::binary::{Function, Shapes};
use crate::tensor::Dims;

/// The result, in the order of `shapes.out`.
pub fn reference(function: Function, alpha: f32, shapes: &Shapes, a: &[f32], b: &[f32]) -> Vec<f64> {
    let place = |index: u64, input: Dims| {
        // The position along each dimension, from the innermost outwards.
        let (mut rest, mut place, mut stride) = (index, 0, 1);
        let sizes = input.as_slice();
        for (from_end, &size) in shapes.out.as_slice().iter().rev().enumerate() {
            let position = rest % u64::from(size);
            rest /= u64::from(size);
            let Some(&input_size) = sizes.len().checked_sub(from_end + 1).and_then(|dim| sizes.get(dim)) else { break };
            place += if input_size == 1 { 0 } else { position * stride };
            stride *= u64::from(input_size);
        }
        place as usize
    };
    let element = |index| {
        let (a, b) = (f64::from(a[place(index, shapes.a)]), f64::from(b[place(index, shapes.b)]));
        match function {
            Function::Add => a + f64::from(alpha) * b,
            Function::Mul => a * b,
        }
    };
    (0..shapes.out.elements()).map(element).collect()
}
