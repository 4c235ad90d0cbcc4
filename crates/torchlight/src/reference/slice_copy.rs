//! `slice_copy`: positions of one dimension of a tensor, evenly spaced.

use crate::kernels::slice_copy::Slice;

/// The elements of the slice, in order.
pub fn reference(slice: &Slice, x: &[f32]) -> Vec<f64> {
    let mut out = Vec::new();
    for outer in 0..slice.outer {
        for index in 0..slice.count {
            let position = slice.first + index * slice.step;
            let start = ((outer * slice.size + position) * slice.inner) as usize;
            out.extend(x[start..start + slice.inner as usize].iter().copied().map(f64::from));
        }
    }
    out
}
