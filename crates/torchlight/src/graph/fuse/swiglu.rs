//! SwiGLU behind its two linear layers.

use super::{Fuser, Rewrite, Source};
use crate::graph::{Ending, Mul, Operator, Projection, TensorId};

/// A factor of a product of three, and the node that multiplies it.
type Factor = (TensorId, usize);

/// A gate and an up projection of the same rows become one layer that multiplies its halves itself, whatever the order of the
/// factors:
///
/// ```text
/// gate = linear(x, G)                  |
/// up = linear(x, U)                    | out = linear+swiglu(x, [G; U])
/// out = gate * sigmoid(gate) * up      |
/// ```
pub(super) fn swiglu(fuser: &mut Fuser<'_, '_>, anchor: usize) -> Option<Rewrite> {
    let Operator::Mul(outer) = fuser.operator(anchor).clone() else { return None };
    let (inner, factors) = [(outer.a, outer.b), (outer.b, outer.a)].into_iter().find_map(|(product, other)| {
        let inner = fuser.source(product, anchor)?;
        let Operator::Mul(Mul { a, b, .. }) = *fuser.operator(inner.node) else { return None };
        let factors = [(a, inner.node), (b, inner.node), (other, anchor)];
        Some((inner, factors))
    })?;
    // Each of the three may be the sigmoid, and each of the others what it is of.
    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let gated = ORDERS.into_iter().find_map(|order| gated(fuser, order.map(|place| factors[place])))?;
    let Gated { gate, up, between } = gated;
    let [gate_layer, up_layer] = [fuser.plain_layer(gate)?, fuser.plain_layer(up)?];
    let gone: Vec<usize> = between.into_iter().chain(inner.views).chain([gate, up, inner.node, anchor]).collect();
    if !fuser.sizes.are_equal(gate_layer.out, up_layer.out) || !fuser.uses.can_wait(&gone) {
        return None;
    }
    let joined = fuser.joined(&[gate_layer, up_layer])?;
    let layer = Projection { ending: Ending::SwiGlu, out: outer.out, ..joined };
    let node = fuser.instead_of(gate, Operator::Projection(layer));
    Some(Rewrite { gone, nodes: vec![(anchor, node)] })
}

/// Nodes of the two layers, and of the sigmoid and views between them and the product.
struct Gated {
    gate: usize,
    up: usize,
    between: Vec<usize>,
}

/// The layers behind factors, where the first is the sigmoid of the second and nobody else reads any.
fn gated(fuser: &Fuser<'_, '_>, [sigmoid, gate, up]: [Factor; 3]) -> Option<Gated> {
    let sigmoid = fuser.source(sigmoid.0, sigmoid.1)?;
    let Operator::Sigmoid(op) = fuser.operator(sigmoid.node) else { return None };
    let readers = fuser.uses.readers(gate.0);
    if op.x != gate.0 || readers.len() != 2 || ![sigmoid.node, gate.1].iter().all(|reader| readers.contains(reader)) {
        return None;
    }
    let gate = fuser.behind_views(fuser.uses.producer(gate.0)?, gate.0)?;
    let up = fuser.source(up.0, up.1)?;
    let views = [&sigmoid, &gate, &up].into_iter().flat_map(|source: &Source| source.views.iter().copied());
    let between = views.chain([sigmoid.node]).collect();
    Some(Gated { gate: gate.node, up: up.node, between })
}
