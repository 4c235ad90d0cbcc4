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

#[cfg(test)]
mod tests {
    use crate::graph::fuse::testing::{
        GROUP, ROWS, WIDTH, biased, constant, fused, layers, linear, linear_q4, names, view, with_rows,
    };
    use crate::graph::{Ending, GraphBuilder, Origin, TensorId, Weight};
    use crate::tensor::DType;

    const HIDDEN: u32 = 6;

    /// Multiplies gate, sigmoid and up; the first two places first.
    fn product(graph: &mut GraphBuilder<'static>, [gate, up]: [TensorId; 2], order: [usize; 3]) -> TensorId {
        let sigmoid = graph.sigmoid(gate).unwrap();
        let factors = order.map(|place| [gate, sigmoid, up][place]);
        let inner = graph.mul(factors[0], factors[1]).unwrap();
        graph.mul(inner, factors[2]).unwrap()
    }

    #[test]
    fn every_order_of_factors_is_one_layer() {
        for order in [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 0, 1], [1, 2, 0], [2, 1, 0]] {
            for inner_first in [true, false] {
                let (mut graph, x) = with_rows();
                let [gate, up] = [linear(&mut graph, x, HIDDEN), linear(&mut graph, x, HIDDEN)];
                let sigmoid = graph.sigmoid(gate).unwrap();
                let factors = order.map(|place| [gate, sigmoid, up][place]);
                let inner = graph.mul(factors[0], factors[1]).unwrap();
                let (a, b) = if inner_first { (inner, factors[2]) } else { (factors[2], inner) };
                let out = graph.mul(a, b).unwrap();
                graph.output(out);
                let graph = fused(graph);
                assert_eq!(names(&graph), ["linear+swiglu"], "{order:?}");
                let (id, layer) = layers(&graph)[0];
                assert_eq!((id, layer.x, layer.ending, layer.out), (0, x, Ending::SwiGlu, out));
                let Origin::Joined(joined) = &graph.tensor(layer.weight.rows()).origin else { panic!("{order:?}") };
                assert_eq!(joined.parts().len(), 2);
                assert_eq!(graph.tensor(layer.weight.rows()).bound.as_slice(), [2 * HIDDEN, WIDTH]);
            }
        }
    }

    #[test]
    fn the_gate_has_the_first_rows() {
        static GATE: [u8; 16] = [1; 16];
        static UP: [u8; 16] = [2; 16];
        let mut graph = GraphBuilder::new("gate first");
        let x = graph.input(DType::F32, &[ROWS, 2]).unwrap();
        let weights = [&UP, &GATE].map(|bytes| graph.constant(DType::F32, &[2, 2], bytes).unwrap());
        let [up, gate] = weights.map(|weight| graph.linear(x, weight, None).unwrap());
        let out = product(&mut graph, [gate, up], [2, 1, 0]);
        graph.output(out);
        let graph = fused(graph);
        let weight = layers(&graph)[0].1.weight.rows();
        let segments: Vec<(u64, &[u8])> = vec![(0, &GATE), (16, &UP)];
        assert_eq!(graph.tensor(weight).segments().collect::<Vec<_>>(), segments);
        assert_eq!(layers(&graph)[0].0, 1, "the gate's node");
    }

    #[test]
    fn scales_and_biases_are_joined_too() {
        let (mut graph, x) = with_rows();
        let [gate, up] = [(); 2].map(|()| linear_q4(&mut graph, x, [HIDDEN, GROUP]));
        let out = product(&mut graph, [gate, up], [0, 1, 2]);
        graph.output(out);
        let graph = fused(graph);
        assert_eq!(names(&graph), ["linear_q4gsw+swiglu"]);
        let Weight::Q4(weight) = layers(&graph)[0].1.weight else { panic!("no 4-bit weight") };
        assert_eq!(weight.group, GROUP);
        assert_eq!(graph.tensor(weight.weight).bound.as_slice(), [2 * HIDDEN, WIDTH / 2]);
        let scales = graph.tensor(weight.scales);
        assert_eq!(scales.bound.as_slice(), [WIDTH / GROUP, 2 * HIDDEN]);
        assert_eq!(scales.segments().count(), 4, "a row of each by turns");

        let (mut graph, x) = with_rows();
        let [gate, up] = [(); 2].map(|()| biased(&mut graph, x, HIDDEN));
        let out = product(&mut graph, [gate, up], [0, 1, 2]);
        graph.output(out);
        let graph = fused(graph);
        let bias = layers(&graph)[0].1.bias.unwrap();
        assert_eq!(graph.tensor(bias).bound.as_slice(), [2 * HIDDEN]);
    }

    #[test]
    fn views_of_the_same_shape_are_no_obstacle() {
        let (mut graph, x) = with_rows();
        let tokens = graph.sym_size(x, 1);
        let sizes = [crate::graph::IntArg::Known(1), tokens, crate::graph::IntArg::Known(HIDDEN.into())];
        let [gate, up] = [(); 2].map(|()| {
            let product = linear(&mut graph, x, HIDDEN);
            graph.view_copy(product, &sizes, &[1, ROWS, HIDDEN]).unwrap()
        });
        let out = product(&mut graph, [gate, up], [0, 1, 2]);
        graph.output(out);
        assert_eq!(names(&fused(graph)), ["linear+swiglu"]);
    }

    /// What else is made of gate and up, and keeps them apart.
    fn unfused(make: impl FnOnce(&mut GraphBuilder<'static>, TensorId) -> TensorId) {
        let (mut graph, x) = with_rows();
        let out = make(&mut graph, x);
        graph.output(out);
        let names = names(&fused(graph));
        assert!(names.contains(&"sigmoid") && !names.contains(&"linear+swiglu"), "{names:?}");
    }

    #[test]
    fn layers_that_cannot_be_one_stay_apart() {
        // Of two inputs.
        unfused(|graph, x| {
            let other = graph.static_input(DType::F32, &[1, ROWS, WIDTH]).unwrap();
            let layers = [linear(graph, x, HIDDEN), linear(graph, other, HIDDEN)];
            product(graph, layers, [0, 1, 2])
        });
        // A bias on one only.
        unfused(|graph, x| {
            let layers = [linear(graph, x, HIDDEN), biased(graph, x, HIDDEN)];
            product(graph, layers, [0, 1, 2])
        });
        // Two kinds of weights, two sizes of groups.
        unfused(|graph, x| {
            let layers = [linear(graph, x, HIDDEN), linear_q4(graph, x, [HIDDEN, GROUP])];
            product(graph, layers, [0, 1, 2])
        });
        unfused(|graph, x| {
            let layers = [linear_q4(graph, x, [HIDDEN, 2]), linear_q4(graph, x, [HIDDEN, GROUP])];
            product(graph, layers, [0, 1, 2])
        });
        // A weight that comes with each run.
        unfused(|graph, x| {
            let weight = graph.static_input(DType::F32, &[HIDDEN, WIDTH]).unwrap();
            let layers = [linear(graph, x, HIDDEN), graph.linear(x, weight, None).unwrap()];
            product(graph, layers, [0, 1, 2])
        });
        // A row of a gate for all rows.
        unfused(|graph, x| {
            let row = constant(graph, &[1, 1, WIDTH]);
            let layers = [linear(graph, row, HIDDEN), linear(graph, x, HIDDEN)];
            product(graph, layers, [0, 1, 2])
        });
    }

    #[test]
    fn what_others_read_stays() {
        for other in 0..3 {
            unfused(|graph, x| {
                let [gate, up] = [linear(graph, x, HIDDEN), linear(graph, x, HIDDEN)];
                let sigmoid = graph.sigmoid(gate).unwrap();
                let inner = graph.mul(gate, sigmoid).unwrap();
                let out = graph.mul(inner, up).unwrap();
                let read = [gate, sigmoid, inner][other];
                let sum = graph.add(out, read, 1.0).unwrap();
                view(graph, sum, &[HIDDEN])
            });
        }
        unfused(|graph, x| {
            let [gate, up] = [linear(graph, x, HIDDEN), linear(graph, x, HIDDEN)];
            graph.output(up);
            product(graph, [gate, up], [0, 1, 2])
        });
    }

    #[test]
    fn other_products_stay() {
        // The sigmoid of up, or of the product, or a gate twice.
        unfused(|graph, x| {
            let gate = linear(graph, x, HIDDEN);
            product(graph, [gate, gate], [0, 1, 2])
        });
        unfused(|graph, x| {
            let [gate, up, other] = [(); 3].map(|()| linear(graph, x, HIDDEN));
            let sigmoid = graph.sigmoid(other).unwrap();
            let inner = graph.mul(gate, sigmoid).unwrap();
            graph.mul(inner, up).unwrap()
        });
    }

    #[test]
    fn a_weight_beyond_the_limit_is_not_made() {
        let (mut graph, x) = with_rows();
        let layers = [linear(&mut graph, x, HIDDEN), linear(&mut graph, x, HIDDEN)];
        let out = product(&mut graph, layers, [0, 1, 2]);
        graph.output(out);
        let bytes = u64::from(4 * 2 * HIDDEN * WIDTH);
        let graph = graph.finish().unwrap();
        assert_eq!(names(&graph.clone().fused(bytes)), ["linear+swiglu"]);
        assert_eq!(names(&graph.fused(bytes - 1)), ["linear", "linear", "sigmoid", "mul", "mul"]);
    }
}
