//! The operators of a transformer besides attention and products: norms, activations, embeddings.

use super::{GraphBuilder, Live, Operator, TensorId};
use crate::error::{Error, Result};

/// `rms_norm`: `out = x / sqrt(mean(x^2) + eps) * weight`, with the mean over the last dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct RmsNorm {
    /// Rows, of any rank from 1 on.
    pub x: TensorId,
    /// One factor an element of a row.
    pub weight: TensorId,
    /// Added to the mean square.
    pub eps: f32,
    /// The result, of x's shape.
    pub out: TensorId,
}

/// `sigmoid`: `out = 1 / (1 + exp(-x))`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sigmoid {
    /// Any shape.
    pub x: TensorId,
    /// The result, of x's shape.
    pub out: TensorId,
}

impl RmsNorm {
    pub(super) const NAME: &'static str = "rms_norm";

    pub(super) fn infer(&self, node: u32, live: &mut Live) -> Result<()> {
        let [x, weight] = [self.x, self.weight].map(|tensor| live.dims(tensor));
        if weight.as_slice().len() != 1 || x.as_slice().last() != weight.as_slice().last() {
            let detail = format!("wants a weight as long as the rows of x, got x {x} and weight {weight}");
            return Err(Error::Shape { operator: Self::NAME, node, detail });
        }
        live.set_dims(self.out, x);
        Ok(())
    }
}

impl Sigmoid {
    pub(super) const NAME: &'static str = "sigmoid";

    pub(super) fn infer(&self, _node: u32, live: &mut Live) -> Result<()> {
        live.set_dims(self.out, live.dims(self.x));
        Ok(())
    }
}

impl GraphBuilder<'_> {
    /// `1 / (1 + exp(-x))` of each element.
    ///
    /// # Errors
    /// As [`Self::input`], for the result, which has x's shape.
    pub fn sigmoid(&mut self, x: TensorId) -> Result<TensorId> {
        let out = self.computed_like(x)?;
        self.push(Operator::Sigmoid(Sigmoid { x, out }));
        Ok(out)
    }

    /// `x / sqrt(mean(x^2) + eps) * weight`, row by row.
    ///
    /// # Errors
    /// As [`Self::input`], for the result, which has x's shape.
    pub fn rms_norm(&mut self, x: TensorId, weight: TensorId, eps: f32) -> Result<TensorId> {
        let out = self.computed_like(x)?;
        self.push(Operator::RmsNorm(RmsNorm { x, weight, eps, out }));
        Ok(out)
    }
}
