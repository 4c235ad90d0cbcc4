//! The operators of linear layers and quantised tables: their fields, and what shapes they take.

use super::{Live, TensorId};
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
        let (x, weight) = (live.dims(self.x), live.dims(self.weight));
        let layer = Layer { operator: Self::NAME, node };
        let &[out_features, in_features] = weight.as_slice() else {
            return layer.refuse(format!("wants a weight of rank 2, got {weight}"));
        };
        layer.check_bias(self.bias.map(|bias| live.dims(bias)), out_features)?;
        let out = layer.rows(x, u64::from(in_features), (weight, out_features))?;
        live.set_dims(self.out, out);
        Ok(())
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
        let Quantised { weight, scales, group } = self.weight;
        let (x, weight, scales) = (live.dims(self.x), live.dims(weight), live.dims(scales));
        let layer = Layer { operator: Self::NAME, node };
        let (out_features, groups) = layer.quantised(weight, group)?;
        if scales.as_slice().iter().map(|&size| u64::from(size)).ne([groups, out_features.into()]) {
            return layer.refuse(format!(
                "weight {weight} in groups of {group} wants scales [{groups}, {out_features}], got {scales}"
            ));
        }
        layer.check_bias(self.bias.map(|bias| live.dims(bias)), out_features)?;
        let out = layer.rows(x, groups * u64::from(group), (weight, out_features))?;
        live.set_dims(self.out, out);
        Ok(())
    }
}

/// A linear layer in messages.
struct Layer {
    operator: &'static str,
    node: u32,
}

impl Layer {
    fn refuse<T>(&self, detail: String) -> Result<T> {
        Err(Error::Shape { operator: self.operator, node: self.node, detail })
    }

    /// Rows of a weight of 4-bit numbers, and groups of a row.
    fn quantised(&self, weight: Dims, group: u32) -> Result<(u32, u64)> {
        let &[rows, row_bytes] = weight.as_slice() else {
            return self.refuse(format!("wants a weight of rank 2, got {weight}"));
        };
        let columns = 2 * u64::from(row_bytes);
        if group == 0 || !columns.is_multiple_of(group.into()) || columns > u32::MAX.into() {
            return self.refuse(format!("groups of {group} do not divide the {columns} columns of weight {weight}"));
        }
        Ok((rows, columns / u64::from(group)))
    }

    fn check_bias(&self, bias: Option<Dims>, out_features: u32) -> Result<()> {
        match bias {
            Some(bias) if bias.as_slice() != [out_features] => {
                self.refuse(format!("wants a bias [{out_features}], got {bias}"))
            }
            _ => Ok(()),
        }
    }

    /// The shape of the result for rows of `in_features`.
    fn rows(&self, x: Dims, in_features: u64, (weight, out_features): (Dims, u32)) -> Result<Dims> {
        let mut out = x;
        match out.as_mut_slice().last_mut() {
            Some(size) if u64::from(*size) == in_features => *size = out_features,
            _ => return self.refuse(format!("x {x} must end in the {in_features} columns of weight {weight}")),
        }
        Ok(out)
    }
}
