//! A program as typed operators over typed tensors: no strings to look up, no GPU.
//!
//! [`Graph::from_method`] reads one from a `.pte` program; [`GraphBuilder`] makes one by hand. The graph owns no
//! weights: constants are borrowed from the file's bytes.

mod builder;
mod embedding;
mod fuse;
mod joined;
mod layout;
mod linear;
mod live;
mod lower;
mod method;
mod operator;
mod projection;
mod rotary;
mod transformer;

pub use builder::GraphBuilder;
pub use embedding::{EmbeddingQ4, NibbleOrder};
pub use fuse::Fusion;
pub use joined::Joined;
pub use layout::{Part, SliceCopy, ViewCopy, ViewShape};
pub use linear::{Linear, LinearQ4, Quantised};
pub use live::Live;
pub(crate) use live::fits;
pub use lower::{SUPPORTED_OPERATORS, unsupported_operators};
pub use operator::{
    Add, AddSymInt, Attend, CopyTensor, Mul, Operator, SdpaWithKvCache, SelectAsSymInt, SymSize, UpdateCache,
};
pub use projection::{Around, Ending, Norm, Projection, Weight};
pub use rotary::{AngleRows, Angles, Qkv, RotaryUpdateCache};
pub use transformer::{ApplyRotaryEmb, Embedding, RmsNorm, Sigmoid};

use crate::tensor::{DType, Dims};

/// A tensor of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub u32);

/// An integer of a [`Graph`] that is known only when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymIntId(pub u32);

impl TensorId {
    /// The position in [`Graph::tensors`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl SymIntId {
    /// The position among the graph's symbolic integers.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An integer argument: written in the program, or known when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntArg {
    /// A number in the program.
    Known(i64),
    /// A symbolic integer.
    Live(SymIntId),
}

/// Where a tensor's content comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin<'a> {
    /// Given at each run, as the input of this index.
    Input(usize),
    /// Bytes of the program that no operator writes.
    Constant(&'a [u8]),
    /// Several constants of the program as one, which no operator writes.
    Joined(Joined<'a>),
    /// Bytes of the program that an operator writes: kept from run to run, put back by a reset.
    State(&'a [u8]),
    /// Written by an operator before it is read.
    Computed,
}

/// A tensor: its type, its largest shape, and where its content comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<'a> {
    /// Element type on the GPU.
    pub dtype: DType,
    /// Sizes: exact where the program is static, upper bounds where it is not.
    pub bound: Dims,
    /// Where the content comes from.
    pub origin: Origin<'a>,
}

impl Tensor<'_> {
    /// Bytes at the upper bound. A graph holds no tensor for which this overflows.
    pub fn size_bytes(&self) -> u64 {
        self.bound.elements().saturating_mul(self.dtype.size_bytes() as u64)
    }
}

/// One operator in the order of execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The node id in the delegate's graph: what error messages name.
    pub id: u32,
    /// Index of the program instruction that this comes from (a DelegateCall, or a copy outside the delegate).
    pub instruction: u32,
    /// What to do.
    pub operator: Operator,
}

/// An input of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphInput {
    /// The tensor that receives it.
    pub tensor: TensorId,
    /// The type in which the caller gives it: i64 narrows to i32, checked.
    pub host_dtype: DType,
    /// Whether sizes below the bound are accepted.
    pub dynamic: bool,
    /// Whether the program leaves a new content in it, as it does in a KV cache that the host keeps.
    pub mutated: bool,
}

/// An output of the program.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphOutput {
    /// A tensor, given to the caller as `host_dtype`.
    Tensor {
        /// The tensor to read.
        tensor: TensorId,
        /// The type in which the caller gets it.
        host_dtype: DType,
        /// The input whose new content this is.
        mutates_input: Option<usize>,
    },
    /// A constant integer, as the metadata methods of exported models return.
    Int(i64),
    /// A constant truth value.
    Bool(bool),
    /// A constant number.
    Double(f64),
}

/// A method of a program, ready to be planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph<'a> {
    /// The method's name.
    pub name: String,
    /// All tensors; a [`TensorId`] is an index into it.
    pub tensors: Vec<Tensor<'a>>,
    /// How many symbolic integers there are.
    pub sym_ints: u32,
    /// Operators in the order of execution.
    pub nodes: Vec<Node>,
    /// Inputs in the program's order.
    pub inputs: Vec<GraphInput>,
    /// Outputs in the program's order.
    pub outputs: Vec<GraphOutput>,
}

impl<'a> Graph<'a> {
    /// The tensor of an id.
    pub fn tensor(&self, id: TensorId) -> &Tensor<'a> {
        &self.tensors[id.index()]
    }

    /// Whether a tensor holds bytes of the program that no operator writes.
    pub(crate) fn is_constant(&self, tensor: TensorId) -> bool {
        matches!(self.tensor(tensor).origin, Origin::Constant(_) | Origin::Joined(_))
    }

    /// The tensors that keep their content from run to run, in the order in which the program names them.
    ///
    /// For `sdpa_with_kv_cache` that is the key cache, then the value cache, operator by operator.
    pub fn states(&self) -> Vec<TensorId> {
        let mut states = Vec::new();
        for node in &self.nodes {
            for tensor in node.operator.writes() {
                if matches!(self.tensor(tensor).origin, Origin::State(_)) && !states.contains(&tensor) {
                    states.push(tensor);
                }
            }
        }
        states
    }

    /// The graph without the bytes of its constants: what is left to know once they are on a device.
    pub fn without_constants(&self) -> Graph<'static> {
        let tensor = |tensor: &Tensor<'_>| Tensor {
            dtype: tensor.dtype,
            bound: tensor.bound,
            origin: match tensor.origin {
                Origin::Input(index) => Origin::Input(index),
                Origin::Constant(_) | Origin::Joined(_) => Origin::Constant(&[]),
                Origin::State(_) => Origin::State(&[]),
                Origin::Computed => Origin::Computed,
            },
        };
        Graph {
            name: self.name.clone(),
            tensors: self.tensors.iter().map(tensor).collect(),
            sym_ints: self.sym_ints,
            nodes: self.nodes.clone(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
        }
    }

    /// Turns constants that an operator writes into state, and notes which inputs are written.
    fn mark_written(&mut self) {
        for node in &self.nodes {
            for id in node.operator.writes() {
                let tensor = &mut self.tensors[id.index()];
                match tensor.origin {
                    Origin::Constant(bytes) => tensor.origin = Origin::State(bytes),
                    Origin::Input(index) => self.inputs[index].mutated = true,
                    Origin::Joined(_) | Origin::State(_) | Origin::Computed => {}
                }
            }
        }
        for output in &mut self.outputs {
            if let GraphOutput::Tensor { tensor, mutates_input, .. } = output {
                *mutates_input = match self.tensors[tensor.index()].origin {
                    Origin::Input(index) if self.inputs[index].mutated => Some(index),
                    _ => None,
                };
            }
        }
    }
}
