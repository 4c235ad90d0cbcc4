//! A sum behind a linear layer.

use super::{Fuser, Rewrite};
use crate::graph::{Ending, Operator, Projection, TensorId};

/// A layer adds what would be added to its result, where both have the same shape in every run:
///
/// ```text
/// product = linear(x, W)               | out = linear+add(x, W, residual)
/// out = residual + product             |
/// ```
pub(super) fn add(fuser: &mut Fuser<'_, '_>, anchor: usize) -> Option<Rewrite> {
    let Operator::Add(sum) = fuser.operator(anchor) else { return None };
    if sum.alpha != 1.0 {
        return None;
    }
    let (orders, out) = ([(sum.a, sum.b), (sum.b, sum.a)], sum.out);
    orders.into_iter().find_map(|(residual, product)| added(fuser, anchor, [residual, product, out]))
}

fn added(fuser: &Fuser<'_, '_>, anchor: usize, [residual, product, out]: [TensorId; 3]) -> Option<Rewrite> {
    let source = fuser.source(product, anchor)?;
    let layer = fuser.plain_layer(source.node)?;
    let gone: Vec<usize> = source.views.into_iter().chain([source.node, anchor]).collect();
    if !fuser.sizes.are_equal(residual, layer.out) || !fuser.uses.can_wait(&gone) {
        return None;
    }
    let layer = Projection { ending: Ending::Add(residual), out, ..layer };
    let node = fuser.instead_of(source.node, Operator::Projection(layer));
    Some(Rewrite { gone, nodes: vec![(anchor, node)] })
}
