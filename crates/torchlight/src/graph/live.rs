//! What is known only when a graph runs: live shapes and symbolic integers.

use super::{Graph, IntArg, SymIntId, TensorId};
use crate::error::{Error, Result};
use crate::tensor::Dims;

/// The live shapes and integers of one run, made once a session and filled again by each run.
#[derive(Clone, Debug)]
pub struct Live {
    dims: Vec<Dims>,
    bounds: Vec<Dims>,
    sym_ints: Vec<i64>,
}

impl Live {
    /// Shapes at their upper bounds and integers at zero.
    pub fn new(graph: &Graph<'_>) -> Self {
        let bounds: Vec<Dims> = graph.tensors.iter().map(|tensor| tensor.bound).collect();
        Self { dims: bounds.clone(), bounds, sym_ints: vec![0; graph.sym_ints as usize] }
    }

    /// The live shape of a tensor.
    pub fn dims(&self, tensor: TensorId) -> Dims {
        self.dims[tensor.index()]
    }

    /// The value of an integer argument.
    pub fn int(&self, arg: IntArg) -> i64 {
        match arg {
            IntArg::Known(value) => value,
            IntArg::Live(sym) => self.sym_ints[sym.index()],
        }
    }

    /// Sets a live shape.
    pub(crate) fn set_dims(&mut self, tensor: TensorId, dims: Dims) {
        self.dims[tensor.index()] = dims;
    }

    /// Sets a symbolic integer.
    pub(crate) fn set_sym_int(&mut self, sym: SymIntId, value: i64) {
        self.sym_ints[sym.index()] = value;
    }

    /// Infers every node in order, then holds each written tensor against its upper bound: buffers have that size.
    ///
    /// # Errors
    /// What [`Operator::infer`](super::Operator::infer) refuses, or a shape above its bound.
    pub fn infer<'i>(
        &mut self,
        graph: &[super::Node],
        integers: impl Fn(usize) -> Option<&'i [i32]> + Copy,
    ) -> Result<()> {
        graph.iter().try_for_each(|node| self.infer_node(node, integers))
    }

    /// [`Self::infer`] for the next node.
    pub(super) fn infer_node<'i>(
        &mut self,
        node: &super::Node,
        integers: impl Fn(usize) -> Option<&'i [i32]>,
    ) -> Result<()> {
        node.operator.infer(node.id, self, integers)?;
        for_each_output(&node.operator, |tensor| {
            let (dims, bound) = (self.dims[tensor.index()], self.bounds[tensor.index()]);
            if fits(dims, bound) {
                return Ok(());
            }
            let detail = format!("the result {dims} exceeds the program's upper bound {bound}");
            Err(Error::Shape { operator: node.operator.name(), node: node.id, detail })
        })
    }
}

/// The tensors whose shapes an operator decides; a visitor, so that a run allocates nothing.
fn for_each_output(operator: &super::Operator, visit: impl Fn(TensorId) -> Result<()>) -> Result<()> {
    use super::Operator;
    match operator {
        Operator::SdpaWithKvCache(op) => visit(op.out),
        Operator::Attend(op) => visit(op.out),
        Operator::Add(op) => visit(op.out),
        Operator::Mul(op) => visit(op.out),
        Operator::CopyTensor(op) => visit(op.to),
        Operator::Linear(op) => visit(op.out),
        Operator::LinearQ4(op) => visit(op.out),
        Operator::EmbeddingQ4(op) => visit(op.out),
        Operator::UpdateCache(_) | Operator::SymSize(_) | Operator::SelectAsSymInt(_) | Operator::AddSymInt(_) => {
            Ok(())
        }
        Operator::RmsNorm(op) => visit(op.out),
        Operator::Sigmoid(op) => visit(op.out),
        Operator::ApplyRotaryEmb(op) => [op.q_out, op.k_out].into_iter().try_for_each(visit),
        Operator::Embedding(op) => visit(op.out),
        Operator::ViewCopy(op) => visit(op.out),
        Operator::SliceCopy(op) => visit(op.out),
        Operator::Projection(op) => visit(op.out),
        Operator::RotaryUpdateCache(op) => visit(op.q_out),
    }
}

/// Whether a shape has the rank of a bound and no size above it.
pub(crate) fn fits(dims: Dims, bound: Dims) -> bool {
    let (dims, bound) = (dims.as_slice(), bound.as_slice());
    dims.len() == bound.len() && dims.iter().zip(bound).all(|(size, bound)| size <= bound)
}
