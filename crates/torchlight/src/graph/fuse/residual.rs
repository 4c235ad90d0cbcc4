//! A sum behind a linear layer.

use super::{Fuser, Rewrite};
use crate::graph::{Ending, Operator, Projection, TensorId};

/// A layer adds what would be added to its result, or to a view of its rows, where both have the same shape in every run:
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
    let source = fuser.behind(fuser.uses.only_for(product, anchor)?, product)?;
    let layer = fuser.plain_layer(source.node)?;
    let gone: Vec<usize> = source.views.into_iter().chain([source.node, anchor]).collect();
    let are_equal = fuser.sizes.are_equal(residual, product) && fuser.sizes.have_equal_rows(product, layer.out);
    if !are_equal || !fuser.uses.can_wait(&gone) {
        return None;
    }
    let layer = Projection { ending: Ending::Add(residual), out, ..layer };
    let node = fuser.instead_of(source.node, Operator::Projection(layer));
    Some(Rewrite { gone, nodes: vec![(anchor, node)] })
}

#[cfg(test)]
mod tests {
    use crate::graph::fuse::testing::{
        ROWS, WIDTH, constant, fused, layers, linear, linear_q4, names, view, with_rows,
    };
    use crate::graph::{Ending, IntArg, TensorId};
    use crate::tensor::DType;

    #[test]
    fn a_layer_adds_a_residual_on_either_side() {
        for residual_first in [true, false] {
            let (mut graph, x) = with_rows();
            let product = linear(&mut graph, x, WIDTH);
            let (a, b) = if residual_first { (x, product) } else { (product, x) };
            let sum = graph.add(a, b, 1.0).unwrap();
            graph.output(sum);
            let graph = fused(graph);
            assert_eq!(names(&graph), ["linear+add"]);
            let (id, layer) = layers(&graph)[0];
            assert_eq!((id, layer.ending, layer.out), (0, Ending::Add(x), sum), "the layer's id, the sum's result");
        }
    }

    #[test]
    fn a_view_of_the_same_shape_is_no_obstacle() {
        let (mut graph, x) = with_rows();
        let product = linear_q4(&mut graph, x, [WIDTH, 4]);
        let viewed = view(&mut graph, product, &[WIDTH]);
        let cloned = graph.clone_of(viewed).unwrap();
        let sum = graph.add(x, cloned, 1.0).unwrap();
        graph.output(sum);
        // The size that the view is given is that of the product: of what nobody computes any more it would not be known.
        assert_eq!(names(&fused(graph)), ["linear_q4gsw", "view_copy", "clone", "add"]);

        let (mut graph, x) = with_rows();
        let tokens = graph.sym_size(x, 1);
        let product = linear_q4(&mut graph, x, [WIDTH, 4]);
        let sizes = [1, i64::from(WIDTH)].map(IntArg::Known);
        let viewed = graph.view_copy(product, &[sizes[0], tokens, sizes[1]], &[1, ROWS, WIDTH]).unwrap();
        let sum = graph.add(x, viewed, 1.0).unwrap();
        graph.output(sum);
        assert_eq!(names(&fused(graph)), ["linear_q4gsw+add"]);
    }

    #[test]
    fn the_sum_has_the_shape_of_what_is_added() {
        let (mut graph, x) = with_rows();
        let tokens = graph.sym_size(x, 1);
        let width = IntArg::Known(WIDTH.into());
        // Heads, so that the layer's rows are not those that somebody else reads.
        let weight = constant(&mut graph, &[WIDTH]);
        let normed = graph.rms_norm(x, weight, 1e-5).unwrap();
        let sizes = [IntArg::Known(1), tokens, IntArg::Known(2), IntArg::Known(4)];
        let heads = graph.view_copy(normed, &sizes, &[1, ROWS, 2, 4]);
        let heads = graph.sigmoid(heads.unwrap()).unwrap();
        let rows = graph.view_copy(heads, &[tokens, width], &[ROWS, WIDTH]).unwrap();
        let product = linear(&mut graph, rows, WIDTH);
        let viewed = graph.view_copy(product, &[IntArg::Known(1), tokens, width], &[1, ROWS, WIDTH]).unwrap();
        let sum = graph.add(x, viewed, 1.0).unwrap();
        graph.output(sum);
        let graph = fused(graph);
        assert_eq!(names(&graph), ["rms_norm", "view_copy", "sigmoid", "view_copy", "linear+add"]);
        assert_eq!(layers(&graph)[0].1.x, rows);
    }

    #[test]
    fn the_sum_waits_for_a_residual_that_is_computed_later() {
        let (mut graph, x) = with_rows();
        let product = linear(&mut graph, x, WIDTH);
        let residual = graph.sigmoid(x).unwrap();
        let sum = graph.add(residual, product, 1.0).unwrap();
        graph.output(sum);
        assert_eq!(names(&fused(graph)), ["sigmoid", "linear+add"]);
    }

    #[test]
    fn of_two_layers_one_adds_the_other() {
        let (mut graph, x) = with_rows();
        let [a, b] = [linear(&mut graph, x, WIDTH), linear(&mut graph, x, WIDTH)];
        let sum = graph.add(a, b, 1.0).unwrap();
        graph.output(sum);
        let graph = fused(graph);
        assert_eq!(names(&graph), ["linear", "linear+add"]);
        assert_eq!(layers(&graph)[1].1.ending, Ending::Add(a));
    }

    /// What is left of a layer and a sum that something forbids to be one.
    fn unfused(make: impl FnOnce(&mut crate::graph::GraphBuilder<'static>, TensorId, TensorId)) {
        let (mut graph, x) = with_rows();
        let product = linear(&mut graph, x, WIDTH);
        make(&mut graph, x, product);
        let names = names(&fused(graph));
        assert!(names.contains(&"linear") && names.contains(&"add"), "{names:?}");
    }

    #[test]
    fn what_else_is_needed_stays() {
        unfused(|graph, x, product| {
            let sum = graph.add(x, product, 0.5).unwrap();
            graph.output(sum);
        });
        unfused(|graph, x, product| {
            let sum = graph.add(x, product, 1.0).unwrap();
            [sum, product].into_iter().for_each(|tensor| graph.output(tensor));
        });
        unfused(|graph, x, product| {
            let sum = graph.add(x, product, 1.0).unwrap();
            let other = graph.sigmoid(product).unwrap();
            [sum, other].into_iter().for_each(|tensor| graph.output(tensor));
        });
        unfused(|graph, _, product| {
            let doubled = graph.add(product, product, 1.0).unwrap();
            graph.output(doubled);
        });
    }

    #[test]
    fn shapes_that_may_differ_in_a_run_stay_apart() {
        // Both have the same bound, and each its own live size.
        unfused(|graph, _, product| {
            let other = graph.input(DType::F32, &[1, ROWS, WIDTH]).unwrap();
            let sum = graph.add(other, product, 1.0).unwrap();
            graph.output(sum);
        });
        unfused(|graph, _, product| {
            let row = graph.input(DType::F32, &[1, 1, WIDTH]).unwrap();
            let sum = graph.add(row, product, 1.0).unwrap();
            graph.output(sum);
        });
    }

    #[test]
    fn nothing_moves_across_a_write_to_what_it_reads() {
        for writes_x in [true, false] {
            let mut graph = crate::graph::GraphBuilder::new("in place");
            let x = graph.static_input(DType::F32, &[1, ROWS, 1, WIDTH]).unwrap();
            let other = graph.static_input(DType::F32, &[1, ROWS, 1, WIDTH]).unwrap();
            let row = graph.static_input(DType::F32, &[1, 1, 1, WIDTH]).unwrap();
            let product = linear(&mut graph, x, WIDTH);
            let written = if writes_x { x } else { other };
            graph.update_cache(row, written, IntArg::Known(2));
            let sum = graph.add(other, product, 1.0).unwrap();
            graph.output(sum);
            let wanted: &[&str] =
                if writes_x { &["linear", "update_cache", "add"] } else { &["update_cache", "linear+add"] };
            assert_eq!(names(&fused(graph)), wanted);
        }
    }
}
