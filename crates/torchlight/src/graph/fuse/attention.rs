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
        let (view, rows) = heads_of_rows(fuser, fuser.uses.only_for(tensor, reader)?)?;
        let source = fuser.source(rows, view)?;
        first = first.or(Some(source.node));
        layers.push(fuser.plain_layer(source.node)?);
        gone.extend(source.views.into_iter().chain([source.node, view]));
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

/// A view of rows `[1, s, h * d]` as heads `[1, s, h, d]`: its node, and the rows.
fn heads_of_rows(fuser: &Fuser<'_, '_>, node: usize) -> Option<(usize, TensorId)> {
    let Operator::ViewCopy(view) = fuser.operator(node) else { return None };
    let (rows, heads) = (fuser.sizes.get(view.x), fuser.sizes.get(view.out));
    let (&[Size::Known(1), tokens, Size::Known(width)], &[Size::Known(1), same, Size::Known(h), Size::Known(d)]) =
        (rows, heads)
    else {
        return None;
    };
    (tokens == same && Some(width) == h.checked_mul(d)).then_some((node, view.x))
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
