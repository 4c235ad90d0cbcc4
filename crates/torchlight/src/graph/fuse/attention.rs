//! Rotations and cache writes in front of attention, and the layers in front of those.

use super::sizes::Size;
use super::{Fuser, Rewrite};
use crate::graph::{
    AngleRows, Angles, ApplyRotaryEmb, Attend, IntArg, Operator, Part, Projection, Qkv, RotaryUpdateCache,
    SdpaWithKvCache, TensorId,
};

/// A rotation of queries and keys writes keys, and values with them, into their caches; and where queries, keys and values are
/// layers over the same rows, one layer computes all three:
///
/// ```text
/// q = view(linear(x, Q))               |
/// k = view(linear(x, K))               | qkv = linear(x, [Q; K; V])
/// v = view(linear(x, V))               | q' = rotary_update_cache(qkv, angles, caches)
/// q', k' = apply_rotary_emb(q, k)      | out = attend(q', caches)
/// out = sdpa_with_kv_cache(q', k', v)  |
/// ```
pub(super) fn rotary_update_cache(fuser: &mut Fuser<'_, '_>, anchor: usize) -> Option<Rewrite> {
    let Operator::SdpaWithKvCache(sdpa) = fuser.operator(anchor).clone() else { return None };
    let [q, k] = [fuser.source(sdpa.q, anchor)?, fuser.source(sdpa.k, anchor)?];
    let rotation = q.node;
    let Operator::ApplyRotaryEmb(rotary) = fuser.operator(rotation).clone() else { return None };
    let is_whole = k.node == rotation && (q.tensor, k.tensor) == (rotary.q_out, rotary.k_out);
    let caches = [sdpa.k_cache, sdpa.v_cache];
    let reads_a_cache = fuser.operator(rotation).reads().iter().any(|tensor| caches.contains(tensor));
    let mut gone: Vec<usize> = q.views.into_iter().chain(k.views).chain([rotation, anchor]).collect();
    if !is_whole || reads_a_cache || !fuser.uses.can_wait(&gone) {
        return None;
    }
    let mut nodes = Vec::new();
    let mut qkv = Qkv::Apart([rotary.q, rotary.k, sdpa.v]);
    if let Some(joined) = joined(fuser, &gone, [(rotary.q, rotation), (rotary.k, rotation), (sdpa.v, anchor)]) {
        gone.extend(joined.gone);
        qkv = Qkv::Joined(joined.layer.out);
        nodes.push((anchor, fuser.instead_of(joined.first, Operator::Projection(joined.layer))));
    }
    for operator in write_then_attend(&sdpa, &rotary, qkv, fuser.graph.nodes[rotation].id) {
        nodes.push((anchor, fuser.instead_of(anchor, operator)));
    }
    Some(Rewrite { gone, nodes })
}

fn write_then_attend(sdpa: &SdpaWithKvCache, rotary: &ApplyRotaryEmb, qkv: Qkv, rotation: u32) -> [Operator; 2] {
    let SdpaWithKvCache { q, k_cache, v_cache, input_pos, scale, out, .. } = *sdpa;
    let angles = Angles { cosines: rotary.cosines, sines: rotary.sines, rows: None, node: rotation };
    [
        Operator::RotaryUpdateCache(RotaryUpdateCache { qkv, angles, k_cache, v_cache, input_pos, q_out: q }),
        Operator::Attend(Attend { q, k_cache, v_cache, input_pos, scale, out }),
    ]
}

/// Layers that became one.
struct JoinedLayers {
    layer: Projection,
    /// The node of the first of them.
    first: usize,
    /// Theirs, and those of views of their results.
    gone: Vec<usize>,
}

/// The layers whose results are seen as heads of queries, keys and values, as one.
fn joined(fuser: &mut Fuser<'_, '_>, others: &[usize], heads: [(TensorId, usize); 3]) -> Option<JoinedLayers> {
    let mut gone = Vec::new();
    let mut layers = Vec::with_capacity(3);
    let mut first = None;
    for (tensor, reader) in heads {
        let source = fuser.behind(fuser.uses.only_for(tensor, reader)?, tensor)?;
        if !are_heads_of_rows(fuser.sizes.get(tensor), fuser.sizes.get(source.tensor)) {
            return None;
        }
        first = first.or(Some(source.node));
        layers.push(fuser.plain_layer(source.node)?);
        gone.extend(source.views.into_iter().chain([source.node]));
    }
    let all = [others, &gone].concat();
    if !fuser.uses.can_wait(&all) {
        return None;
    }
    let widths = layers.iter().map(|layer| fuser.graph.tensor(layer.out).bound.as_slice().last().copied());
    let width = widths.collect::<Option<Vec<u32>>>()?.into_iter().try_fold(0u32, u32::checked_add)?;
    let joined = fuser.joined(&layers)?;
    let out = fuser.computed(joined.out, width)?;
    Some(JoinedLayers { layer: Projection { out, ..joined }, first: first?, gone })
}

/// Whether rows `[1, s, h * d]` are seen as heads `[1, s, h, d]`.
fn are_heads_of_rows(heads: &[Size], rows: &[Size]) -> bool {
    let (&[Size::Known(1), same, Size::Known(h), Size::Known(d)], &[Size::Known(1), tokens, Size::Known(width)]) =
        (heads, rows)
    else {
        return false;
    };
    tokens == same && Some(width) == h.checked_mul(d)
}

/// A rotation reads its tokens' rows from the tables of angles itself:
///
/// ```text
/// c, s = C[pos .. pos + n], S[pos .. pos + n]   | q' = rotary_update_cache(qkv, (C, S, pos .. pos + n), caches)
/// q' = rotary_update_cache(qkv, (c, s), caches) |
/// ```
pub(super) fn sliced_angles(fuser: &mut Fuser<'_, '_>, anchor: usize) -> Option<Rewrite> {
    let Operator::RotaryUpdateCache(op) = fuser.operator(anchor) else { return None };
    if op.angles.rows.is_some() {
        return None;
    }
    let (cosines, part, slice) = rows_of_table(fuser, op.angles.cosines)?;
    let (sines, same_part, _) = rows_of_table(fuser, op.angles.sines)?;
    if part != same_part || fuser.graph.tensor(cosines).bound != fuser.graph.tensor(sines).bound {
        return None;
    }
    let rows = Some(AngleRows { part, node: fuser.graph.nodes[slice].id });
    let angles = Angles { cosines, sines, rows, node: op.angles.node };
    let operator = Operator::RotaryUpdateCache(RotaryUpdateCache { angles, ..op.clone() });
    Some(Rewrite { gone: vec![anchor], nodes: vec![(anchor, fuser.instead_of(anchor, operator))] })
}

/// The constant whose rows a tensor holds, which rows, and the node of the slice. Others may read it, too.
fn rows_of_table(fuser: &Fuser<'_, '_>, tensor: TensorId) -> Option<(TensorId, Part, usize)> {
    let mut node = fuser.uses.producer(tensor)?;
    while let Operator::ViewCopy(view) = fuser.operator(node)
        && fuser.sizes.are_equal(view.x, view.out)
    {
        node = fuser.uses.producer(view.x)?;
    }
    let Operator::SliceCopy(slice) = fuser.operator(node) else { return None };
    let Part::Range { start, end, step: 1 } = slice.part else { return None };
    let is_steady = |int: IntArg| fuser.uses.is_set_once(int);
    let is_table = slice.dim == 0 && fuser.graph.is_constant(slice.x) && is_steady(start) && is_steady(end);
    is_table.then_some((slice.x, slice.part, node))
}

#[cfg(test)]
mod tests {
    use crate::graph::fuse::testing::{biased, constant, fused, layers, linear, linear_q4, names};
    use crate::graph::{Graph, GraphBuilder, IntArg, Operator, Part, Qkv, RotaryUpdateCache, TensorId, Weight};
    use crate::tensor::DType;

    const TOKENS: u32 = 5;
    const WIDTH: u32 = 8;
    const HEADS: u32 = 3;
    const KV_HEADS: u32 = 1;
    const HEAD_DIM: u32 = 2;
    const CACHE_ROWS: u32 = 9;

    type Builder = GraphBuilder<'static>;
    /// A layer of so many results a row.
    type Layer = fn(&mut Builder, TensorId, u32) -> TensorId;

    /// Attention in parts: what a test may change.
    struct Parts {
        graph: Builder,
        x: TensorId,
        tokens: IntArg,
        input_pos: IntArg,
        angles: [TensorId; 2],
        caches: [TensorId; 2],
    }

    impl Parts {
        fn new() -> Self {
            let mut graph = GraphBuilder::new("attention");
            let x = graph.input(DType::F32, &[1, TOKENS, WIDTH]).unwrap();
            graph.input(DType::I64, &[1]).unwrap();
            let tokens = graph.sym_size(x, 1);
            let input_pos = graph.select_as_symint(1, 0);
            let angles = [(); 2].map(|()| graph.input(DType::F32, &[TOKENS, HEAD_DIM / 2]).unwrap());
            let caches = [(); 2].map(|()| constant(&mut graph, &[1, CACHE_ROWS, KV_HEADS, HEAD_DIM]));
            Self { graph, x, tokens, input_pos, angles, caches }
        }

        fn heads(&mut self, rows: TensorId, heads: u32) -> TensorId {
            let known = |size: u32| IntArg::Known(size.into());
            let sizes = [known(1), self.tokens, known(heads), known(HEAD_DIM)];
            self.graph.view_copy(rows, &sizes, &[1, TOKENS, heads, HEAD_DIM]).unwrap()
        }

        /// Queries, keys and values by three layers.
        fn qkv(&mut self, layers: [Layer; 3]) -> [TensorId; 3] {
            let heads = [HEADS, KV_HEADS, KV_HEADS];
            let mut place = 0;
            layers.map(|layer| {
                let heads = heads[place];
                place += 1;
                let rows = layer(&mut self.graph, self.x, heads * HEAD_DIM);
                self.heads(rows, heads)
            })
        }

        fn attention(&mut self, [q, k, v]: [TensorId; 3]) -> TensorId {
            let [q, k] = self.graph.apply_rotary_emb([q, k], self.angles).unwrap();
            self.graph.sdpa_with_kv_cache([q, k, v], self.caches, self.input_pos, None).unwrap()
        }

        fn fused(mut self, out: TensorId) -> Graph<'static> {
            self.graph.output(out);
            fused(self.graph)
        }
    }

    fn q4(graph: &mut Builder, x: TensorId, out_features: u32) -> TensorId {
        linear_q4(graph, x, [out_features, 4])
    }

    fn rotary(graph: &Graph<'_>) -> (u32, RotaryUpdateCache) {
        let found = graph.nodes.iter().find_map(|node| match &node.operator {
            Operator::RotaryUpdateCache(op) => Some((node.id, op.clone())),
            _ => None,
        });
        found.expect("a rotation that writes caches")
    }

    #[test]
    fn one_layer_computes_queries_keys_and_values() {
        for layer in [linear as Layer, biased, q4] {
            let mut parts = Parts::new();
            let qkv = parts.qkv([layer; 3]);
            let out = parts.attention(qkv);
            let graph = parts.fused(out);
            let name = names(&graph)[0];
            assert_eq!(names(&graph), [name, "rotary_update_cache", "attend"]);
            let (id, layer) = layers(&graph)[0];
            let (written_by, op) = rotary(&graph);
            assert_eq!(op.qkv, Qkv::Joined(layer.out));
            // Nodes count from the two integers on: three layers with their views, the rotation, attention.
            assert_eq!((id, op.angles.node, written_by), (2, 8, 9));
            let width = (HEADS + 2 * KV_HEADS) * HEAD_DIM;
            assert_eq!(graph.tensor(layer.out).bound.as_slice(), [1, TOKENS, width]);
            assert_eq!(graph.tensor(layer.weight.rows()).bound.as_slice()[0], width);
            if let Weight::Q4(weight) = layer.weight {
                assert_eq!(graph.tensor(weight.scales).bound.as_slice(), [2, width]);
            }
        }
    }

    #[test]
    fn layers_that_cannot_be_one_still_share_the_rotation() {
        for layers in [[linear as Layer, linear, biased], [q4, q4, linear]] {
            let mut parts = Parts::new();
            let qkv = parts.qkv(layers);
            let out = parts.attention(qkv);
            let graph = parts.fused(out);
            assert_eq!(rotary(&graph).1.qkv, Qkv::Apart(qkv));
        }
        // Of which somebody reads one.
        let mut parts = Parts::new();
        let qkv = parts.qkv([linear; 3]);
        let out = parts.attention(qkv);
        parts.graph.output(qkv[0]);
        assert_eq!(rotary(&parts.fused(out)).1.qkv, Qkv::Apart(qkv));
    }

    #[test]
    fn tokens_that_may_be_others_are_not_joined() {
        // The view's size is an input's own, of which only a run tells that it is the number of rows.
        let mut parts = Parts::new();
        let other = parts.graph.input(DType::F32, &[TOKENS, 2]).unwrap();
        parts.tokens = parts.graph.sym_size(other, 0);
        let qkv = parts.qkv([linear; 3]);
        let out = parts.attention(qkv);
        assert_eq!(rotary(&parts.fused(out)).1.qkv, Qkv::Apart(qkv));
    }

    /// The names of what becomes of attention that something forbids to change.
    fn unfused(make: impl FnOnce(&mut Parts, [TensorId; 3]) -> TensorId) {
        let mut parts = Parts::new();
        let qkv = parts.qkv([linear; 3]);
        let out = make(&mut parts, qkv);
        let graph = parts.fused(out);
        let names = names(&graph);
        assert!(names.contains(&"sdpa_with_kv_cache") && names.contains(&"apply_rotary_emb"), "{names:?}");
    }

    #[test]
    fn turned_queries_and_keys_that_others_read_stay() {
        for other in 0..2 {
            unfused(|parts, [q, k, v]| {
                let turned = parts.graph.apply_rotary_emb([q, k], parts.angles).unwrap();
                parts.graph.output(turned[other]);
                let [q, k] = turned;
                parts.graph.sdpa_with_kv_cache([q, k, v], parts.caches, parts.input_pos, None).unwrap()
            });
        }
        // Keys that are not turned, or by another rotation.
        unfused(|parts, [q, k, v]| {
            let [q, _] = parts.graph.apply_rotary_emb([q, k], parts.angles).unwrap();
            parts.graph.sdpa_with_kv_cache([q, k, v], parts.caches, parts.input_pos, None).unwrap()
        });
        unfused(|parts, [q, k, v]| {
            let [[first, _], [_, second]] =
                [(); 2].map(|()| parts.graph.apply_rotary_emb([q, k], parts.angles).unwrap());
            let qkv = [first, second, v];
            parts.graph.sdpa_with_kv_cache(qkv, parts.caches, parts.input_pos, None).unwrap()
        });
    }

    #[test]
    fn a_rotation_does_not_move_across_a_write_to_what_it_reads() {
        // The angles lie in a tensor that somebody writes before attention.
        let mut parts = Parts::new();
        let qkv = parts.qkv([linear; 3]);
        let row = parts.graph.static_input(DType::F32, &[1, 1, 1, HEAD_DIM]).unwrap();
        let x = parts.x;
        let heads = parts.graph.static_input(DType::F32, &[1, TOKENS, KV_HEADS, HEAD_DIM]).unwrap();
        let [q, _, v] = qkv;
        let [q, k] = parts.graph.apply_rotary_emb([q, heads], parts.angles).unwrap();
        parts.graph.update_cache(row, heads, IntArg::Known(0));
        let out = parts.graph.sdpa_with_kv_cache([q, k, v], parts.caches, parts.input_pos, None).unwrap();
        assert_ne!(x, heads);
        let graph = parts.fused(out);
        assert!(names(&graph).contains(&"apply_rotary_emb"), "{:?}", names(&graph));
    }

    #[test]
    fn keys_that_are_the_cache_itself_are_not_written_while_they_are_read() {
        let mut parts = Parts::new();
        let cache = constant(&mut parts.graph, &[1, TOKENS, KV_HEADS, HEAD_DIM]);
        let values = constant(&mut parts.graph, &[1, TOKENS, KV_HEADS, HEAD_DIM]);
        let x = parts.x;
        let rows = [HEADS, KV_HEADS].map(|heads| (linear(&mut parts.graph, x, heads * HEAD_DIM), heads));
        let [q, v] = rows.map(|(rows, heads)| parts.heads(rows, heads));
        let [q, k] = parts.graph.apply_rotary_emb([q, cache], parts.angles).unwrap();
        let out = parts.graph.sdpa_with_kv_cache([q, k, v], [cache, values], IntArg::Known(0), None).unwrap();
        let graph = parts.fused(out);
        assert!(names(&graph).contains(&"apply_rotary_emb"), "{:?}", names(&graph));
    }

    /// Attention whose angles are rows of tables, seen through clones.
    fn with_tables(parts: &mut Parts, part: Part) -> [TensorId; 2] {
        let tables = [(); 2].map(|()| constant(&mut parts.graph, &[CACHE_ROWS, HEAD_DIM / 2]));
        parts.angles = tables.map(|table| {
            let rows = parts.graph.slice_copy(table, 0, part, &[TOKENS, HEAD_DIM / 2]).unwrap();
            parts.graph.clone_of(rows).unwrap()
        });
        tables
    }

    #[test]
    fn angles_are_read_from_their_tables() {
        let mut parts = Parts::new();
        // From a position on: as many rows as tokens only where the run says so.
        let part = Part::Range { start: IntArg::Known(2), end: IntArg::Known(i64::from(2 + TOKENS)), step: 1 };
        let tables = with_tables(&mut parts, part);
        let qkv = parts.qkv([linear; 3]);
        let out = parts.attention(qkv);
        let graph = parts.fused(out);
        assert_eq!(names(&graph), ["linear", "rotary_update_cache", "attend"], "slices and clones are gone");
        let angles = rotary(&graph).1.angles;
        assert_eq!([angles.cosines, angles.sines], tables);
        assert_eq!(angles.rows.map(|rows| (rows.part, rows.node)), Some((part, 2)));
    }

    #[test]
    fn angles_that_are_no_rows_of_tables_stay() {
        // Every other row.
        let mut parts = Parts::new();
        let part = Part::Range { start: IntArg::Known(0), end: IntArg::Known(9), step: 2 };
        with_tables(&mut parts, part);
        let qkv = parts.qkv([linear; 3]);
        let out = parts.attention(qkv);
        let graph = parts.fused(out);
        assert_eq!(rotary(&graph).1.angles.rows, None);
        assert!(names(&graph).contains(&"slice_copy"));

        // Two parts.
        let mut parts = Parts::new();
        let part = |start| Part::Range { start: IntArg::Known(start), end: IntArg::Known(start + 5), step: 1 };
        with_tables(&mut parts, part(0));
        let cosines = parts.angles[0];
        with_tables(&mut parts, part(1));
        parts.angles[0] = cosines;
        let qkv = parts.qkv([linear; 3]);
        let out = parts.attention(qkv);
        assert_eq!(rotary(&parts.fused(out)).1.angles.rows, None);
    }
}
