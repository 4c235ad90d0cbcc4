//! Which tensors are another one's bytes in another shape, and take no memory of their own.

use crate::graph::{Graph, Operator, Origin, TensorId};

/// The tensor whose buffer each tensor uses.
pub(super) struct Aliases {
    storage: Vec<TensorId>,
}

impl Aliases {
    /// A view shares the bytes of what it views where each of them is written once, or never: then neither changes while
    /// the other is still needed. Any other view is a copy.
    pub(super) fn of(graph: &Graph<'_>) -> Self {
        let mut writers = vec![0u32; graph.tensors.len()];
        for tensor in graph.nodes.iter().flat_map(|node| node.operator.writes()) {
            writers[tensor.index()] += 1;
        }
        let never_changes = |tensor: TensorId| match graph.tensor(tensor).origin {
            Origin::Computed => writers[tensor.index()] == 1,
            Origin::Input(_) | Origin::Constant(_) | Origin::Joined(_) | Origin::State(_) => {
                writers[tensor.index()] == 0
            }
        };
        let mut storage: Vec<TensorId> = (0..graph.tensors.len() as u32).map(TensorId).collect();
        for node in &graph.nodes {
            let Operator::ViewCopy(view) = &node.operator else { continue };
            let root = storage[view.x.index()];
            if never_changes(root) && never_changes(view.out) {
                storage[view.out.index()] = root;
            }
        }
        Self { storage }
    }

    /// The tensor whose buffer a tensor uses: its own, or that of what it views.
    pub(super) fn storage(&self, tensor: TensorId) -> TensorId {
        self.storage[tensor.index()]
    }

    /// The tensors without a buffer of their own, with those whose buffers they use.
    pub(super) fn shared(&self) -> impl Iterator<Item = (TensorId, TensorId)> {
        let pairs = self.storage.iter().enumerate().map(|(index, &storage)| (TensorId(index as u32), storage));
        pairs.filter(|(tensor, storage)| tensor != storage)
    }
}
