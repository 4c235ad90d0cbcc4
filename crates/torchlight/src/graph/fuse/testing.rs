//! Small graphs for the tests of patterns.

use crate::graph::{Graph, GraphBuilder, IntArg, Operator, Projection, Quantised, TensorId};
use crate::tensor::DType;

/// Rows of x in these graphs at most.
pub(super) const ROWS: u32 = 5;
/// Elements of a row of x.
pub(super) const WIDTH: u32 = 8;
/// Columns that share a scale.
pub(super) const GROUP: u32 = 4;

static ZEROS: [u8; 4096] = [0; 4096];

/// The names of the operators that a device computes.
pub(super) fn names(graph: &Graph<'_>) -> Vec<&'static str> {
    let operators = graph.nodes.iter().map(|node| &node.operator);
    let on_device = operators.filter(|operator| !operator.writes().is_empty());
    on_device.map(Operator::name).collect()
}

/// A graph, checked before and after it is fused.
pub(super) fn fused(graph: GraphBuilder<'static>) -> Graph<'static> {
    let fused = graph.finish().unwrap_or_else(|error| panic!("{error}")).fused(u64::MAX);
    fused.checked().unwrap_or_else(|error| panic!("fused: {error}"))
}

/// The node ids of the linear layers.
pub(super) fn layers(graph: &Graph<'_>) -> Vec<(u32, Projection)> {
    graph.nodes.iter().filter_map(|node| Some((node.id, node.operator.projection()?))).collect()
}

/// A graph with up to [`ROWS`] rows as its first input, or exactly as many.
pub(super) fn with_rows() -> (GraphBuilder<'static>, TensorId) {
    let mut graph = GraphBuilder::new("pattern");
    let x = graph.input(DType::F32, &[1, ROWS, WIDTH]).unwrap();
    (graph, x)
}

/// A constant of zeros.
pub(super) fn constant(graph: &mut GraphBuilder<'static>, dims: &[u32]) -> TensorId {
    let bytes = dims.iter().product::<u32>() as usize * 4;
    graph.constant(DType::F32, dims, &ZEROS[..bytes]).unwrap()
}

/// A layer of f32 with so many results a row.
pub(super) fn linear(graph: &mut GraphBuilder<'static>, x: TensorId, out_features: u32) -> TensorId {
    let weight = constant(graph, &[out_features, WIDTH]);
    graph.linear(x, weight, None).unwrap()
}

/// The same with a bias.
pub(super) fn biased(graph: &mut GraphBuilder<'static>, x: TensorId, out_features: u32) -> TensorId {
    let (weight, bias) = (constant(graph, &[out_features, WIDTH]), constant(graph, &[out_features]));
    graph.linear(x, weight, Some(bias)).unwrap()
}

/// The same over 4-bit numbers in groups.
pub(super) fn linear_q4(graph: &mut GraphBuilder<'static>, x: TensorId, [out_features, group]: [u32; 2]) -> TensorId {
    let bytes = (out_features * WIDTH / 2) as usize;
    let weight = graph.constant(DType::U8, &[out_features, WIDTH / 2], &ZEROS[..bytes]).unwrap();
    let scales = constant(graph, &[WIDTH / group, out_features]);
    graph.linear_q4(x, Quantised { weight, scales, group }, None).unwrap()
}

/// A view `[1, s, ..]` of rows `[1, s, ..]`.
pub(super) fn view(graph: &mut GraphBuilder<'static>, x: TensorId, last: &[u32]) -> TensorId {
    let tokens = graph.sym_size(x, 1);
    let known = last.iter().map(|&size| IntArg::Known(size.into()));
    let sizes: Vec<IntArg> = [IntArg::Known(1), tokens].into_iter().chain(known).collect();
    graph.view_copy(x, &sizes, &[&[1, ROWS], last].concat()).unwrap()
}
