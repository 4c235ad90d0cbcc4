//! `embedding`: rows of a table, by their ids.

/// The rows of `width` elements that `ids` name; an id outside the table takes the nearest row.
pub fn reference(width: u32, table: &[f32], ids: &[i32]) -> Vec<f64> {
    let width = width as usize;
    let last = (table.len() / width).saturating_sub(1);
    let row = |&id: &i32| {
        let first = usize::try_from(id).unwrap_or(0).min(last) * width;
        table[first..first + width].iter().copied().map(f64::from)
    };
    ids.iter().flat_map(row).collect()
}
