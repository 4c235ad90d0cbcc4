//! The element types of tensors on a device: those of the graph, but for KV caches of 16-bit floats.

use super::launch::rows;
use crate::error::{Error, Result};
use crate::graph::{Graph, Operator, TensorId};
use crate::kernels::KvType;
use crate::tensor::DType;

/// The type of every tensor.
///
/// # Errors
/// [`Error::Unsupported`] where a cache cannot be kept in 16 bits.
pub(super) fn tensor_dtypes(graph: &Graph<'_>, kv: KvType) -> Result<Vec<DType>> {
    let mut dtypes: Vec<DType> = graph.tensors.iter().map(|tensor| tensor.dtype).collect();
    if kv == KvType::F32 {
        return Ok(dtypes);
    }
    for node in &graph.nodes {
        let (caches, value) = match &node.operator {
            Operator::SdpaWithKvCache(op) => ([op.k_cache, op.v_cache], op.k),
            Operator::Attend(op) => ([op.k_cache, op.v_cache], op.k_cache),
            Operator::UpdateCache(op) => ([op.cache; 2], op.value),
            Operator::RotaryUpdateCache(op) => ([op.k_cache, op.v_cache], op.k_cache),
            _ => continue,
        };
        let [.., head_dim] = *graph.tensor(value).bound.as_slice() else { continue };
        let row_elements = rows(graph.tensor(value).bound, 0).row_elements;
        if head_dim % 2 != 0 {
            return Err(Error::Unsupported {
                what: format!(
                    "{} (node {}): an f16 cache of {row_elements} elements a row, heads of {head_dim}",
                    node.operator.name(),
                    node.id
                ),
                supported: "f16 caches with an even head_dim, or f32 caches".into(),
            });
        }
        for cache in caches {
            dtypes[cache.index()] = DType::F16;
        }
    }
    spread_through_copies(graph, &mut dtypes);
    refuse_other_users(graph, &dtypes)?;
    Ok(dtypes)
}

/// A copy is of bytes: both sides of it have one type.
fn spread_through_copies(graph: &Graph<'_>, dtypes: &mut [DType]) {
    let copies = || {
        graph.nodes.iter().filter_map(|node| match &node.operator {
            Operator::CopyTensor(op) => Some([op.from, op.to]),
            _ => None,
        })
    };
    // A chain of copies is no longer than their number.
    for _ in copies() {
        for sides in copies() {
            if sides.iter().any(|side| dtypes[side.index()] == DType::F16) {
                sides.iter().for_each(|side| dtypes[side.index()] = DType::F16);
            }
        }
    }
}

/// Only what is made for f16 caches may touch one.
fn refuse_other_users(graph: &Graph<'_>, dtypes: &[DType]) -> Result<()> {
    for node in &graph.nodes {
        let operator = &node.operator;
        let knows = |id: TensorId| match operator {
            Operator::SdpaWithKvCache(op) => [op.k_cache, op.v_cache].contains(&id),
            Operator::Attend(op) => [op.k_cache, op.v_cache].contains(&id),
            Operator::UpdateCache(op) => op.cache == id,
            Operator::RotaryUpdateCache(op) => [op.k_cache, op.v_cache].contains(&id),
            Operator::CopyTensor(_) => true,
            _ => false,
        };
        let touched = operator.reads().into_iter().chain(operator.writes());
        let stranger = touched.into_iter().find(|&id| dtypes[id.index()] == DType::F16 && !knows(id));
        if let Some(id) = stranger {
            return Err(Error::Unsupported {
                what: format!("{} (node {}) on the f16 cache {}", operator.name(), node.id, id.0),
                supported: "f16 caches that only attention reads, or f32 caches".into(),
            });
        }
    }
    Ok(())
}
