//! The operator of quantised tables: its fields, and what shapes and ids it takes.

use super::linear::Quantised;
use super::{Live, TensorId};
use crate::error::{Error, Result};
use crate::tensor::Dims;

/// Which column of a byte's two stands in its low half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NibbleOrder {
    /// The even one, as in weights of linear layers.
    EvenLow,
    /// The odd one.
    OddLow,
}

/// `embedding_q4gsw`: rows of a table of 4-bit numbers, one for each id.
///
/// Shapes: table `[rows, k / 2]` with scales `[rows, k / group]`, ids `[..]` (i32), out `[.., k]`.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingQ4 {
    /// The table. Its scales stand row by row, other than those of a linear layer.
    pub table: Quantised,
    /// How bytes are packed.
    pub order: NibbleOrder,
    /// Which rows.
    pub ids: TensorId,
    /// The program's input that the ids are, where they are one: the host then holds them against the table.
    pub ids_input: Option<usize>,
    /// The rows.
    pub out: TensorId,
}

impl EmbeddingQ4 {
    pub(super) const NAME: &'static str = "embedding_q4gsw";

    pub(super) fn infer(&self, node: u32, live: &mut Live, ids: Option<&[i32]>) -> Result<()> {
        let Quantised { weight, scales, group } = self.table;
        let (table, scales) = (live.dims(weight), live.dims(scales));
        let refuse = |detail: String| Err(Error::Shape { operator: Self::NAME, node, detail });
        let &[rows, row_bytes] = table.as_slice() else {
            return refuse(format!("wants a table of rank 2, got {table}"));
        };
        let columns = 2 * u64::from(row_bytes);
        if group == 0 || !columns.is_multiple_of(group.into()) || columns > u32::MAX.into() {
            return refuse(format!("groups of {group} do not divide the {columns} columns of table {table}"));
        }
        let groups = columns / u64::from(group);
        if scales.as_slice().iter().map(|&size| u64::from(size)).ne([rows.into(), groups]) {
            let wanted = format!("table {table} in groups of {group} wants scales [{rows}, {groups}]");
            return refuse(format!("{wanted}, got {scales}"));
        }
        if let Some(id) = ids.unwrap_or_default().iter().find(|&&id| !(0..i64::from(rows)).contains(&id.into())) {
            return refuse(format!("id {id} is outside a table of {rows} rows"));
        }
        let dims = live.dims(self.ids);
        let Some(out) = with_columns(dims, columns as u32) else {
            return refuse(format!("ids {dims} have too many dimensions"));
        };
        live.set_dims(self.out, out);
        Ok(())
    }
}

/// The shape of a row for each id.
pub(super) fn with_columns(ids: Dims, columns: u32) -> Option<Dims> {
    let mut out = [columns; crate::tensor::MAX_RANK];
    let rank = ids.as_slice().len();
    out.get_mut(..rank)?.copy_from_slice(ids.as_slice());
    Dims::new(out.get(..=rank)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_id() {
        let dims = |sizes: &[u32]| Dims::new(sizes).unwrap();
        assert_eq!(with_columns(dims(&[2, 3]), 8), Some(dims(&[2, 3, 8])));
        assert_eq!(with_columns(dims(&[]), 8), Some(dims(&[8])));
        assert_eq!(with_columns(dims(&[1; 7]), 8).map(|dims| dims.elements()), Some(8));
        assert_eq!(with_columns(dims(&[1; 8]), 8), None);
    }
}
