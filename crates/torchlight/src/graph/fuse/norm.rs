//! A norm in front of linear layers.

use super::{Fuser, Rewrite};
use crate::graph::{Norm, Operator, Projection};

/// Layers norm their rows themselves, where nobody else reads the norm's result:
///
/// ```text
/// rows = rms_norm(x, g)                | a = rms_norm+linear(x, g, A)
/// a = linear(rows, A)                  | b = rms_norm+linear(x, g, B)
/// b = linear(rows, B)                  |
/// ```
pub(super) fn rms_norm(fuser: &mut Fuser<'_, '_>, anchor: usize) -> Option<Rewrite> {
    let Operator::RmsNorm(op) = fuser.operator(anchor) else { return None };
    let (op, readers) = (op.clone(), fuser.uses.readers(op.out));
    if fuser.uses.producer(op.out) != Some(anchor) || readers.is_empty() {
        return None;
    }
    let norm = Norm { weight: op.weight, eps: op.eps };
    let mut nodes = Vec::with_capacity(readers.len());
    for &reader in readers {
        let layer = fuser.operator(reader).projection()?;
        // As what is added, or twice, it would have to be there.
        let reads_it_once = readers.iter().filter(|&&other| other == reader).count() == 1;
        if layer.x != op.out || layer.norm.is_some() || !reads_it_once || !fuser.uses.can_wait(&[anchor, reader]) {
            return None;
        }
        let layer = Projection { x: op.x, norm: Some(norm), ..layer };
        nodes.push((reader, fuser.instead_of(reader, Operator::Projection(layer))));
    }
    let gone = nodes.iter().map(|(reader, _)| *reader).chain([anchor]).collect();
    Some(Rewrite { gone, nodes })
}

#[cfg(test)]
mod tests {
    use crate::graph::fuse::testing::{
        GROUP, ROWS, WIDTH, constant, fused, layers, linear, linear_q4, names, with_rows,
    };
    use crate::graph::{GraphBuilder, IntArg, Norm, TensorId};
    use crate::tensor::DType;

    /// A graph with a norm of its rows.
    fn with_norm() -> (GraphBuilder<'static>, [TensorId; 3]) {
        let (mut graph, x) = with_rows();
        let weight = constant(&mut graph, &[WIDTH]);
        let normed = graph.rms_norm(x, weight, 1e-5).unwrap();
        (graph, [x, weight, normed])
    }

    #[test]
    fn layers_take_in_the_norm_of_their_rows() {
        let (mut graph, [x, weight, normed]) = with_norm();
        let a = linear(&mut graph, normed, 3);
        let squashed = graph.sigmoid(a).unwrap();
        let b = linear_q4(&mut graph, normed, [4, GROUP]);
        [squashed, b].into_iter().for_each(|tensor| graph.output(tensor));
        let graph = fused(graph);
        assert_eq!(names(&graph), ["rms_norm+linear", "sigmoid", "rms_norm+linear_q4gsw"]);
        for ((id, layer), wanted) in layers(&graph).into_iter().zip([1, 3]) {
            assert_eq!((id, layer.x, layer.norm), (wanted, x, Some(Norm { weight, eps: 1e-5 })));
        }
    }

    #[test]
    fn a_norm_and_a_residual_go_together() {
        let (mut graph, [x, _, normed]) = with_norm();
        let product = linear(&mut graph, normed, WIDTH);
        let sum = graph.add(product, x, 1.0).unwrap();
        graph.output(sum);
        assert_eq!(names(&fused(graph)), ["rms_norm+linear+add"]);
    }

    #[test]
    fn a_norm_that_others_read_stays() {
        let (mut graph, [_, _, normed]) = with_norm();
        let product = linear(&mut graph, normed, 3);
        [product, normed].into_iter().for_each(|tensor| graph.output(tensor));
        assert_eq!(names(&fused(graph)), ["rms_norm", "linear"]);

        let (mut graph, [_, _, normed]) = with_norm();
        let [product, other] = [linear(&mut graph, normed, 3), graph.sigmoid(normed).unwrap()];
        [product, other].into_iter().for_each(|tensor| graph.output(tensor));
        assert_eq!(names(&fused(graph)), ["rms_norm", "linear", "sigmoid"]);

        // Here it is what is added, too.
        let (mut graph, [_, _, normed]) = with_norm();
        let product = linear(&mut graph, normed, WIDTH);
        let sum = graph.add(product, normed, 1.0).unwrap();
        graph.output(sum);
        assert_eq!(names(&fused(graph)), ["rms_norm", "linear+add"]);
    }

    #[test]
    fn a_norm_does_not_move_across_a_write_to_its_rows() {
        let mut graph = GraphBuilder::new("in place");
        let x = graph.static_input(DType::F32, &[1, ROWS, 1, WIDTH]).unwrap();
        let row = graph.static_input(DType::F32, &[1, 1, 1, WIDTH]).unwrap();
        let weight = constant(&mut graph, &[WIDTH]);
        let normed = graph.rms_norm(x, weight, 1e-5).unwrap();
        graph.update_cache(row, x, IntArg::Known(0));
        let product = linear(&mut graph, normed, 3);
        graph.output(product);
        assert_eq!(names(&fused(graph)), ["rms_norm", "update_cache", "linear"]);
    }
}
