//! The operators of linear layers and quantised tables: their fields, and what shapes they take.

use super::{Live, Projection, TensorId};
use crate::error::{Error, Result};
use crate::tensor::Dims;

/// `linear`: `out = x * transpose(weight) + bias`.
///
/// Shapes: x `[.., k]`, weight `[n, k]`, bias `[n]`, out `[.., n]`, all f32.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// Rows to multiply.
    pub x: TensorId,
    /// A row for each output feature.
    pub weight: TensorId,
    /// Added to each row of the result.
    pub bias: Option<TensorId>,
    /// Product.
    pub out: TensorId,
}

impl Linear {
    pub(super) const NAME: &'static str = "linear";

    pub(super) fn infer(&self, node: u32, live: &mut Live) -> Result<()> {
        Projection::from(self).infer(node, live)
    }
}

/// Numbers of 4 bits, two in a byte, a scale for each group of them: value = (number - 8) * scale.
///
/// The even column stands in the low half of a byte, the odd one in the high half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantised {
    /// `[n, k / 2]` bytes.
    pub weight: TensorId,
    /// `[k / group, n]`, f32.
    pub scales: TensorId,
    /// Columns that share a scale; divides k.
    pub group: u32,
}

/// `linear_q4gsw`: [`Linear`] with a weight of 4-bit numbers, a scale for each group of columns of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearQ4 {
    /// Rows to multiply, `[.., k]`.
    pub x: TensorId,
    /// A row for each output feature.
    pub weight: Quantised,
    /// Added to each row of the result, `[n]`.
    pub bias: Option<TensorId>,
    /// Product, `[.., n]`.
    pub out: TensorId,
}

impl LinearQ4 {
    pub(super) const NAME: &'static str = "linear_q4gsw";

    pub(super) fn infer(&self, node: u32, live: &mut Live) -> Result<()> {
        Projection::from(self).infer(node, live)
    }
}

/// A linear layer in messages.
pub(super) struct Layer {
    pub(super) operator: &'static str,
    pub(super) node: u32,
}

impl Layer {
    pub(super) fn refuse<T>(&self, detail: String) -> Result<T> {
        Err(Error::Shape { operator: self.operator, node: self.node, detail })
    }

    /// Rows and columns of a weight of floats.
    pub(super) fn dense(&self, weight: Dims) -> Result<(u32, u64)> {
        match weight.as_slice() {
            &[rows, columns] => Ok((rows, columns.into())),
            _ => self.refuse(format!("wants a weight of rank 2, got {weight}")),
        }
    }

    /// Rows and columns of a weight of 4-bit numbers.
    pub(super) fn quantised(&self, live: &Live, quantised: Quantised) -> Result<(u32, u64)> {
        let (weight, scales, group) = (live.dims(quantised.weight), live.dims(quantised.scales), quantised.group);
        let (rows, row_bytes) = self.dense(weight)?;
        let columns = 2 * row_bytes;
        if group == 0 || !columns.is_multiple_of(group.into()) || columns > u32::MAX.into() {
            return self.refuse(format!("groups of {group} do not divide the {columns} columns of weight {weight}"));
        }
        let groups = columns / u64::from(group);
        if scales.as_slice().iter().map(|&size| u64::from(size)).ne([groups, rows.into()]) {
            return self
                .refuse(format!("weight {weight} in groups of {group} wants scales [{groups}, {rows}], got {scales}"));
        }
        Ok((rows, columns))
    }

    pub(super) fn check_bias(&self, bias: Option<Dims>, rows: u32) -> Result<()> {
        match bias {
            Some(bias) if bias.as_slice() != [rows] => self.refuse(format!("wants a bias [{rows}], got {bias}")),
            _ => Ok(()),
        }
    }

    /// The shape of the product of rows as long as `columns` with a weight of so many rows.
    pub(super) fn product(&self, x: Dims, columns: u64, (weight, rows): (Dims, u32)) -> Result<Dims> {
        let mut out = x;
        match out.as_mut_slice().last_mut() {
            Some(size) if u64::from(*size) == columns => *size = rows,
            _ => return self.refuse(format!("x {x} must end in the {columns} columns of weight {weight}")),
        }
        Ok(out)
    }
}
