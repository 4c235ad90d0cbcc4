//! Views of rows in front of linear layers.

use super::{Fuser, Rewrite};
use crate::graph::{IntArg, Operator, Projection, TensorId, ViewCopy, ViewShape};

/// A layer reads the rows that others have, not a view of them in another shape; the view stands behind it then:
///
/// ```text
/// rows = view(x, [s, k])               | product = linear(x, W)
/// out = linear(rows, W)                | out = view(product, [s, n])
/// ```
///
/// So layers over views of the same rows are layers over the same rows.
pub(super) fn unviewed(fuser: &mut Fuser<'_, '_>, anchor: usize) -> Option<Rewrite> {
    let layer = fuser.plain_layer(anchor)?;
    let view = fuser.uses.producer(layer.x)?;
    let x = viewed_rows(fuser, view, anchor)?;
    if fuser.sizes.are_equal(x, layer.x) {
        let layer = Operator::Projection(Projection { x, ..layer });
        return Some(Rewrite { gone: vec![anchor], nodes: vec![(anchor, fuser.instead_of(anchor, layer))] });
    }
    let Operator::ViewCopy(ViewCopy { shape: ViewShape::Sizes(sizes), .. }) = fuser.operator(view) else {
        return None;
    };
    let (mut sizes, width) = (sizes.clone(), fuser.sizes.get(layer.out).last()?.known()?);
    *sizes.last_mut()? = IntArg::Known(width.into());
    let product = fuser.computed(x, width)?;
    let behind = Operator::ViewCopy(ViewCopy { x: product, shape: ViewShape::Sizes(sizes), out: layer.out });
    let layer = Operator::Projection(Projection { x, out: product, ..layer });
    let nodes = [layer, behind].map(|operator| (anchor, fuser.instead_of(anchor, operator)));
    Some(Rewrite { gone: vec![anchor], nodes: nodes.into() })
}

/// What a view, or a view of views, shows the rows of; a node that reads them instead stands behind.
fn viewed_rows(fuser: &Fuser<'_, '_>, node: usize, reader: usize) -> Option<TensorId> {
    let Operator::ViewCopy(view) = fuser.operator(node) else { return None };
    if !fuser.sizes.have_equal_rows(view.x, view.out) || !fuser.uses.can_wait(&[node, reader]) {
        return None;
    }
    let before = fuser.uses.producer(view.x).and_then(|before| viewed_rows(fuser, before, reader));
    Some(before.unwrap_or(view.x))
}

#[cfg(test)]
mod tests {
    use crate::graph::fuse::testing::{ROWS, WIDTH, constant, fused, layers, linear, names, with_rows};
    use crate::graph::{GraphBuilder, IntArg};
    use crate::tensor::DType;

    #[test]
    fn layers_over_views_of_the_same_rows_share_them() {
        let (mut graph, x) = with_rows();
        let tokens = graph.sym_size(x, 1);
        let weight = constant(&mut graph, &[WIDTH]);
        let normed = graph.rms_norm(x, weight, 1e-5).unwrap();
        for _ in 0..2 {
            let flat = graph.view_copy(normed, &[tokens, IntArg::Known(WIDTH.into())], &[ROWS, WIDTH]).unwrap();
            let product = linear(&mut graph, flat, 3);
            let out = graph.view_copy(product, &[IntArg::Known(1), tokens, IntArg::Known(3)], &[1, ROWS, 3]).unwrap();
            graph.output(out);
        }
        let graph = fused(graph);
        assert_eq!(names(&graph), ["rms_norm+linear", "view_copy", "view_copy"].repeat(2));
        assert!(layers(&graph).iter().all(|(_, layer)| layer.x == x));
    }

    #[test]
    fn a_view_that_cuts_rows_otherwise_stays() {
        let (mut graph, x) = with_rows();
        let tokens = graph.sym_size(x, 1);
        let halves = [IntArg::Known(2), tokens, IntArg::Known(i64::from(WIDTH / 2))];
        let squashed = graph.sigmoid(x).unwrap();
        let halves = graph.view_copy(squashed, &halves, &[2, ROWS, WIDTH / 2]).unwrap();
        let weight = constant(&mut graph, &[3, WIDTH / 2]);
        let product = graph.linear(halves, weight, None).unwrap();
        graph.output(product);
        let graph = fused(graph);
        assert_eq!(names(&graph), ["sigmoid", "view_copy", "linear"]);
        assert_eq!(layers(&graph)[0].1.x, halves);
    }

    #[test]
    fn rows_that_are_written_after_the_view_are_read_before() {
        let mut graph = GraphBuilder::new("in place");
        let x = graph.static_input(DType::F32, &[1, ROWS, 1, WIDTH]).unwrap();
        let row = graph.static_input(DType::F32, &[1, 1, 1, WIDTH]).unwrap();
        let sizes = [ROWS, WIDTH].map(|size| IntArg::Known(size.into()));
        let flat = graph.view_copy(x, &sizes, &[ROWS, WIDTH]).unwrap();
        graph.update_cache(row, x, IntArg::Known(0));
        let product = linear(&mut graph, flat, 3);
        graph.output(product);
        assert_eq!(names(&fused(graph)), ["view_copy", "update_cache", "linear"]);
    }
}
