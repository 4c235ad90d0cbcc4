//! Operators that can be computed together become one: fewer dispatches, and fewer ways through memory.
//!
//! Each pattern is a file. It looks for operators whose results nobody else reads, and gives a [`Rewrite`]: which nodes go,
//! and what stands in their places. What is computed is the same but for the order of sums.

mod attention;
mod join;
mod norm;
mod residual;
mod rows;
mod sizes;
mod swiglu;
#[cfg(test)]
mod testing;
mod uses;

use super::{Graph, Node, Operator, TensorId};
use crate::tensor::DType;
use sizes::Sizes;
use uses::Uses;

/// Whether a graph is fused before it is planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fusion {
    /// Operators are fused where they can be.
    #[default]
    On,
    /// Each operator of the program stays by itself.
    Off,
}

/// Nodes that go, and those that stand in places of theirs.
#[derive(Debug)]
struct Rewrite {
    /// Positions among the graph's nodes.
    gone: Vec<usize>,
    /// What stands in their places, in order.
    nodes: Vec<(usize, Node)>,
}

/// Where a tensor comes from.
#[derive(Debug)]
struct Source {
    /// The node that computes it.
    node: usize,
    /// What that node writes: the tensor, or what it is a view of.
    tensor: TensorId,
    /// Views between.
    views: Vec<usize>,
}

/// A graph that is fused, with what is known of it.
struct Fuser<'g, 'a> {
    graph: &'g mut Graph<'a>,
    uses: Uses,
    sizes: Sizes,
    /// The most bytes of a tensor that is made.
    most_bytes: u64,
}

/// A pattern: the rewrite of which a node is the anchor, where there is one.
type Pattern = fn(&mut Fuser<'_, '_>, usize) -> Option<Rewrite>;

/// In this order: each leaves what the next one looks for.
const PATTERNS: [Pattern; 6] = [
    rows::unviewed,
    attention::rotary_update_cache,
    attention::sliced_angles,
    swiglu::swiglu,
    residual::add,
    norm::rms_norm,
];

impl Graph<'_> {
    /// The same graph with fewer operators: linear layers over the same rows become one where what follows can read its
    /// result, and take in a norm of their rows, a SwiGLU or a residual; rotations write keys and values to their caches.
    ///
    /// Tensors keep their ids, and nodes those of the program. No tensor that is made has more than `most_bytes`. Weights
    /// that are joined are not copied: see [`Joined`](super::Joined).
    #[must_use]
    pub fn fused(mut self, most_bytes: u64) -> Self {
        for pattern in PATTERNS {
            let rewrites = Fuser::new(&mut self, most_bytes).rewrites(pattern);
            self.rewrite(rewrites);
            self.forget_unread();
        }
        self
    }

    fn rewrite(&mut self, rewrites: Vec<Rewrite>) {
        let mut nodes: Vec<Option<Node>> = std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
        let mut instead: Vec<Vec<Node>> = nodes.iter().map(|_| Vec::new()).collect();
        for rewrite in rewrites {
            rewrite.gone.iter().for_each(|&gone| nodes[gone] = None);
            rewrite.nodes.into_iter().for_each(|(place, node)| instead[place].push(node));
        }
        self.nodes =
            nodes.into_iter().zip(instead).flat_map(|(node, instead)| node.into_iter().chain(instead)).collect();
    }

    /// Removes views and slices of which nobody reads the result any more.
    fn forget_unread(&mut self) {
        let mut uses = Uses::of(self);
        let mut rewrite = Rewrite { gone: Vec::new(), nodes: Vec::new() };
        // Latest first: what reads a view stands behind it.
        for (index, node) in self.nodes.iter().enumerate().rev() {
            if let Operator::ViewCopy(_) | Operator::SliceCopy(_) = node.operator
                && node.operator.writes().into_iter().all(|tensor| uses.is_unread(tensor))
            {
                uses.forget(index);
                rewrite.gone.push(index);
            }
        }
        self.rewrite(vec![rewrite]);
    }
}

impl<'g, 'a> Fuser<'g, 'a> {
    fn new(graph: &'g mut Graph<'a>, most_bytes: u64) -> Self {
        let (uses, sizes) = (Uses::of(graph), Sizes::of(graph));
        Self { graph, uses, sizes, most_bytes }
    }

    /// What a pattern finds, node by node; no node is in two rewrites.
    fn rewrites(&mut self, pattern: Pattern) -> Vec<Rewrite> {
        let mut gone = vec![false; self.graph.nodes.len()];
        let mut rewrites = Vec::new();
        for anchor in 0..gone.len() {
            let Some(rewrite) = pattern(self, anchor) else { continue };
            if rewrite.gone.iter().any(|&node| gone[node]) {
                continue;
            }
            rewrite.gone.iter().for_each(|&node| gone[node] = true);
            rewrites.push(rewrite);
        }
        rewrites
    }

    fn operator(&self, node: usize) -> &Operator {
        &self.graph.nodes[node].operator
    }

    /// A node of the program's id that does something else.
    fn instead_of(&self, node: usize, operator: Operator) -> Node {
        let Node { id, instruction, .. } = self.graph.nodes[node];
        Node { id, instruction, operator }
    }

    /// Where a tensor comes from that is read by one node only, and only once.
    fn source(&self, tensor: TensorId, reader: usize) -> Option<Source> {
        self.behind_views(self.uses.only_for(tensor, reader)?, tensor)
    }

    /// Where the tensor that a node writes comes from: that node, or what stands in front of it where it is a view, or views
    /// of views, that come to the same shape in the end.
    fn behind_views(&self, node: usize, tensor: TensorId) -> Option<Source> {
        self.behind(node, tensor).filter(|source| self.sizes.are_equal(source.tensor, tensor))
    }

    /// The same with views to any shape.
    fn behind(&self, node: usize, tensor: TensorId) -> Option<Source> {
        let mut source = Source { node, tensor, views: Vec::new() };
        while let Operator::ViewCopy(view) = self.operator(source.node) {
            source.views.push(source.node);
            source.tensor = view.x;
            source.node = self.uses.only_for(view.x, source.node)?;
        }
        Some(source)
    }

    /// Whether a tensor of this type and shape may be made.
    fn may_hold(&self, dtype: DType, dims: &[u32]) -> bool {
        let bytes = dims.iter().try_fold(dtype.size_bytes() as u64, |bytes, &size| bytes.checked_mul(size.into()));
        bytes.is_some_and(|bytes| bytes <= self.most_bytes)
    }
}
