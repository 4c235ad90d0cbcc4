//! Weights of layers over the same rows as one weight.

use super::Fuser;
use crate::graph::{Ending, Joined, Origin, Projection, Quantised, Tensor, TensorId, Weight};
use crate::tensor::Dims;

/// Weight and bias of several layers, not yet in the graph.
struct Parts<'a> {
    rows: Tensor<'a>,
    scales: Option<Tensor<'a>>,
    bias: Option<Tensor<'a>>,
}

impl<'a> Fuser<'_, 'a> {
    /// A node as a linear layer with nothing in front and nothing behind.
    pub(super) fn plain_layer(&self, node: usize) -> Option<Projection> {
        self.operator(node).projection().filter(|layer| layer.norm.is_none() && layer.ending == Ending::Plain)
    }

    /// Several plain layers over the same x as one, which computes their results one after the other in each row:
    ///
    /// ```text
    /// a = linear(x, A)                     | c = linear(x, [A; B])
    /// b = linear(x, B)                     |   a row of c is a row of a, then a row of b
    /// ```
    ///
    /// `None` where weights are of two kinds or known only in a run, or where some have a bias and others have none. The
    /// result is that of the first layer; it is the caller's to replace.
    pub(super) fn joined(&mut self, layers: &[Projection]) -> Option<Projection> {
        let first = *layers.first()?;
        if layers.iter().any(|layer| layer.x != first.x) {
            return None;
        }
        let parts = self.parts(layers)?;
        let bias = parts.bias.map(|bias| self.push(bias));
        let rows = self.push(parts.rows);
        let weight = match (first.weight, parts.scales.map(|scales| self.push(scales))) {
            (Weight::Q4(Quantised { group, .. }), Some(scales)) => {
                Weight::Q4(Quantised { weight: rows, scales, group })
            }
            _ => Weight::F32(rows),
        };
        Some(Projection { weight, bias, ..first })
    }

    fn parts(&self, layers: &[Projection]) -> Option<Parts<'a>> {
        let each = |of: fn(&Projection) -> Option<TensorId>| layers.iter().map(of).collect::<Option<Vec<TensorId>>>();
        let rows = self.constant(&each(|layer| Some(layer.weight.rows()))?, 0)?;
        let group = |layer: &Projection| match layer.weight {
            Weight::F32(_) => None,
            Weight::Q4(weight) => Some(weight.group),
        };
        let first = layers.first()?;
        if layers.iter().any(|layer| group(layer) != group(first) || layer.bias.is_some() != first.bias.is_some()) {
            return None;
        }
        let scales = match first.weight {
            Weight::F32(_) => None,
            Weight::Q4(_) => Some(self.constant(&each(|layer| layer.weight.scales())?, 1)?),
        };
        let bias = match first.bias {
            None => None,
            Some(_) => Some(self.constant(&each(|layer| layer.bias)?, 0)?),
        };
        Some(Parts { rows, scales, bias })
    }

    /// Constants that agree in all but one dimension, joined along it.
    fn constant(&self, tensors: &[TensorId], dim: usize) -> Option<Tensor<'a>> {
        let first = self.graph.tensor(*tensors.first()?);
        let mut bound = first.bound;
        *bound.as_mut_slice().get_mut(dim)? = 0;
        let mut parts = Vec::with_capacity(tensors.len());
        for &id in tensors {
            let tensor = self.graph.tensor(id);
            let Origin::Constant(bytes) = tensor.origin else { return None };
            let mut others = tensor.bound;
            let size = std::mem::replace(others.as_mut_slice().get_mut(dim)?, 0);
            let mut wanted = bound;
            wanted.as_mut_slice()[dim] = 0;
            if tensor.dtype != first.dtype || others != wanted {
                return None;
            }
            bound.as_mut_slice()[dim] = bound.as_slice()[dim].checked_add(size)?;
            parts.push(bytes);
        }
        let turns = bound.as_slice()[..dim].iter().map(|&size| size as usize).product();
        let origin = Origin::Joined(Joined::new(parts, turns)?);
        self.may_hold(first.dtype, bound.as_slice()).then_some(Tensor { dtype: first.dtype, bound, origin })
    }

    /// A tensor of f32 that an operator writes: one like another but for its last size.
    pub(super) fn computed(&mut self, like: TensorId, last: u32) -> Option<TensorId> {
        let Tensor { dtype, bound, .. } = *self.graph.tensor(like);
        let mut bound: Dims = bound;
        *bound.as_mut_slice().last_mut()? = last;
        let fits = self.may_hold(dtype, bound.as_slice());
        fits.then(|| self.push(Tensor { dtype, bound, origin: Origin::Computed }))
    }

    fn push(&mut self, tensor: Tensor<'a>) -> TensorId {
        self.graph.tensors.push(tensor);
        TensorId(self.graph.tensors.len() as u32 - 1)
    }
}
