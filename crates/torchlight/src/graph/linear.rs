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

/// A linear layer in messages.
struct Layer {
    operator: &'static str,
    node: u32,
}

impl Layer {
    fn refuse<T>(&self, detail: String) -> Result<T> {
        Err(Error::Shape { operator: self.operator, node: self.node, detail })
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
