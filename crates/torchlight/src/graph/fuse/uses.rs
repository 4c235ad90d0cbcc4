//! Who writes and who reads each tensor of a graph.

use crate::graph::{Graph, GraphOutput, IntArg, Operator, Origin, TensorId};

/// Who writes and who reads each tensor, by positions among the graph's nodes.
pub(super) struct Uses {
    writers: Vec<Vec<usize>>,
    /// One that reads a tensor twice is here twice.
    readers: Vec<Vec<usize>>,
    is_output: Vec<bool>,
    /// Whether only operators give it its content.
    is_computed: Vec<bool>,
    reads: Vec<Vec<TensorId>>,
    /// How many nodes set each symbolic integer.
    int_writers: Vec<u32>,
}

impl Uses {
    pub(super) fn of(graph: &Graph<'_>) -> Self {
        let tensors = graph.tensors.len();
        let mut uses = Self {
            writers: vec![Vec::new(); tensors],
            readers: vec![Vec::new(); tensors],
            is_output: vec![false; tensors],
            is_computed: graph.tensors.iter().map(|tensor| tensor.origin == Origin::Computed).collect(),
            reads: graph.nodes.iter().map(|node| node.operator.reads()).collect(),
            int_writers: vec![0; graph.sym_ints as usize],
        };
        for (index, node) in graph.nodes.iter().enumerate() {
            node.operator.reads().into_iter().for_each(|tensor| uses.readers[tensor.index()].push(index));
            node.operator.writes().into_iter().for_each(|tensor| uses.writers[tensor.index()].push(index));
            let int = match &node.operator {
                Operator::SymSize(op) => {
                    // The host reads its live shape, which nobody would set.
                    uses.readers[op.tensor.index()].push(index);
                    Some(op.out)
                }
                Operator::SelectAsSymInt(op) => Some(op.out),
                Operator::AddSymInt(op) => Some(op.out),
                _ => None,
            };
            if let Some(writers) = int.and_then(|int| uses.int_writers.get_mut(int.index())) {
                *writers += 1;
            }
        }
        for output in &graph.outputs {
            if let GraphOutput::Tensor { tensor, .. } = output {
                uses.is_output[tensor.index()] = true;
            }
        }
        uses
    }

    /// The one node that computes a tensor.
    pub(super) fn producer(&self, tensor: TensorId) -> Option<usize> {
        match self.writers.get(tensor.index())?.as_slice() {
            &[writer] if self.is_computed[tensor.index()] => Some(writer),
            _ => None,
        }
    }

    /// The nodes that read a tensor, each as often as it does; none where the program gives it to the caller, too.
    pub(super) fn readers(&self, tensor: TensorId) -> &[usize] {
        match self.readers.get(tensor.index()) {
            Some(readers) if !self.is_output[tensor.index()] => readers,
            _ => &[],
        }
    }

    /// The producer of a tensor that is read by one node only, and only once.
    pub(super) fn only_for(&self, tensor: TensorId, reader: usize) -> Option<usize> {
        self.producer(tensor).filter(|_| self.readers(tensor) == [reader])
    }

    /// Whether an integer is the same throughout a run.
    pub(super) fn is_set_once(&self, int: IntArg) -> bool {
        match int {
            IntArg::Known(_) => true,
            IntArg::Live(sym) => self.int_writers.get(sym.index()) == Some(&1),
        }
    }

    /// Whether nobody reads a tensor, neither a node nor the caller.
    pub(super) fn is_unread(&self, tensor: TensorId) -> bool {
        !self.is_output[tensor.index()] && self.is_computed[tensor.index()] && self.readers[tensor.index()].is_empty()
    }

    /// Lets a node read nothing.
    pub(super) fn forget(&mut self, node: usize) {
        for tensor in std::mem::take(&mut self.reads[node]) {
            self.readers[tensor.index()].retain(|&reader| reader != node);
        }
    }

    /// Whether nodes can be put off until the last of them: nobody else writes what they read meanwhile.
    pub(super) fn can_wait(&self, nodes: &[usize]) -> bool {
        let Some(&last) = nodes.iter().max() else { return false };
        let is_written = |tensor: &TensorId, after: usize| {
            let writers = self.writers.get(tensor.index()).map_or(&[][..], Vec::as_slice);
            writers.iter().any(|writer| *writer > after && *writer < last && !nodes.contains(writer))
        };
        nodes.iter().all(|&node| !self.reads[node].iter().any(|tensor| is_written(tensor, node)))
    }
}
