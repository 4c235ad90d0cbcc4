//! `embedding_q4`: rows of a table of 4-bit numbers.

use crate::kernels::embedding_q4::{Lookup, LowColumn};

/// The rows `[ids, columns]` of numbers `[rows, columns / 2]` with scales `[rows, columns / group]`.
pub fn reference(lookup: &Lookup, low: LowColumn, (numbers, scales): (&[u8], &[f32]), ids: &[i32]) -> Vec<f64> {
    let [columns, group] = [lookup.columns, lookup.group].map(|size| size as usize);
    let value = |row: usize, column: usize| {
        let byte = numbers[row * columns / 2 + column / 2];
        let is_low = column.is_multiple_of(2) == (low == LowColumn::Even);
        let number = if is_low { byte & 15 } else { byte >> 4 };
        (f64::from(number) - 8.0) * f64::from(scales[row * (columns / group) + column / group])
    };
    // As the kernel takes ids that the host has not seen.
    let rows = ids.iter().map(|&id| id.clamp(0, lookup.rows as i32 - 1) as usize);
    rows.flat_map(|row| (0..columns).map(move |column| value(row, column))).collect()
}
