//! `update_cache`: new rows into their place in a cache.

use crate::kernels::update_cache::Rows;

/// Writes `value` into `cache`.
pub fn reference(rows: Rows, value: &[f32], cache: &mut [f32]) {
    let row = rows.row_elements as usize;
    let (first, count) = (rows.input_pos as usize * row, rows.new_tokens as usize * row);
    cache[first..first + count].copy_from_slice(&value[..count]);
}
