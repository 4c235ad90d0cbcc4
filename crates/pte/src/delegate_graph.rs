//! The blob of a delegate that `VulkanPartitioner` made: a header, a graph of operator calls, and constant bytes.

use planus::ReadAsRoot;

use crate::bounds::{Kind, array_at, subslice};
use crate::budget::Budget;
use crate::error::{Error, Within, quoted};
use crate::generated::vkgraph as wire;
use crate::graph_value::GraphCounts;
use crate::{VkValue, VkValueId};

const DELEGATE: Kind = Kind { name: "a Vulkan delegate", identifier: "VH00", container: "delegate" };
const GRAPH: Kind = Kind { name: "a Vulkan graph", identifier: "VK00", container: "graph" };
const HEADER_LENGTH: u16 = 30;
/// The offset that says: this constant is named data of the program.
const NAMED: u64 = u64::MAX;

/// The graph that a delegate runs. Every id in it is in range.
#[derive(Clone, Debug)]
pub struct DelegateGraph<'a> {
    /// The version that the exporter wrote.
    pub version: &'a str,
    /// Operator calls, in the order to run them.
    pub chain: Vec<OperatorCall<'a>>,
    /// Everything that the calls refer to; a [`VkValueId`] is an index here.
    pub values: Vec<VkValue<'a>>,
    /// Values that the caller fills, in the order of the delegate call's arguments.
    pub inputs: Vec<VkValueId>,
    /// Values that the caller reads, in the order of the delegate call's arguments behind the inputs. An output may be an
    /// input.
    pub outputs: Vec<VkValueId>,
    /// Contents of constant tensors; a [`ConstantId`] is an index here.
    pub constants: Vec<Constant<'a>>,
}

/// One operator with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorCall<'a> {
    /// The exporter's number for the call, for messages and profiles.
    pub node_id: u32,
    /// The operator's name, such as `aten.add.Tensor`.
    pub name: &'a str,
    /// Arguments in the order of the operator's schema, outputs last.
    pub args: Vec<VkValueId>,
}

/// Names a constant of a graph: an index into [`DelegateGraph::constants`], in range in every parsed graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConstantId(pub u32);

impl ConstantId {
    /// The id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The content of a constant tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant<'a> {
    /// Bytes in the delegate's own blob.
    Inline(&'a [u8]),
    /// Bytes outside of the delegate: see [`Program::named_data`](crate::Program::named_data) and
    /// [`FlatTensor::named_data`](crate::FlatTensor::named_data).
    Named {
        /// The key to look up. Equal constants share one key.
        key: &'a str,
        /// How many bytes the graph expects there.
        length: u64,
    },
}

impl Constant<'_> {
    /// Bytes of the content.
    pub fn byte_count(&self) -> u64 {
        match *self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Named { length, .. } => length,
        }
    }
}

impl<'a> DelegateGraph<'a> {
    /// Reads the blob of a delegate whose id is `VulkanBackend`.
    pub fn parse(blob: &'a [u8]) -> Result<Self, Error> {
        let (flatbuffer, constant_bytes) = split(blob)?;
        let mut budget = Budget::for_flatbuffer(flatbuffer);
        let graph = wire::VkGraphRef::read_as_root(flatbuffer)?;

        let constants = budget.list(graph.constants()?, |budget, index, constant| {
            Constant::decode(constant?, constant_bytes, budget).within(|| format!("constant {index}"))
        })?;
        let counts =
            GraphCounts { values: graph.values()?.map_or(0, |values| values.len()), constants: constants.len() };
        let values = budget.list(graph.values()?, |budget, index, value| {
            let value = VkValue::decode(value?, counts, budget).and_then(|value| fits_constant(value, &constants));
            value.within(|| format!("value {index}"))
        })?;
        let chain =
            budget.list(graph.chain()?, |budget, _, call| OperatorCall::decode(call?, counts.values, budget))?;
        let inputs = budget.list(graph.input_ids()?, |_, _, id| VkValueId::checked(id, counts.values));
        let outputs = budget.list(graph.output_ids()?, |_, _, id| VkValueId::checked(id, counts.values));
        Ok(Self {
            version: budget.text(graph.version()?)?.unwrap_or_default(),
            chain,
            values,
            inputs: inputs.within(|| "inputs".into())?,
            outputs: outputs.within(|| "outputs".into())?,
            constants,
        })
    }
}

/// The graph's flatbuffer and the constant bytes, as the blob's header has them.
fn split(blob: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    DELEGATE.check(blob)?;
    let truncated = || DELEGATE.truncated("the header ends at", HEADER_LENGTH.into(), blob);
    let u32_at = |offset| array_at(blob, offset).map(u32::from_le_bytes).ok_or_else(truncated);
    let length = array_at(blob, 8).map(u16::from_le_bytes).ok_or_else(truncated)?;
    let (flatbuffer_offset, flatbuffer_size, constants_offset) = (u32_at(10)?, u32_at(14)?, u32_at(18)?);
    let constants_size = array_at(blob, 22).map(u64::from_le_bytes).ok_or_else(truncated)?;
    if length < HEADER_LENGTH {
        return Err(Error::malformed(
            "delegate header",
            format!("its length is {length}, at least {HEADER_LENGTH} is needed"),
        ));
    }
    let delegate = ("delegate", blob);
    let flatbuffer = subslice(delegate, flatbuffer_offset.into(), flatbuffer_size.into(), || "graph".into())?;
    let constant_bytes = subslice(delegate, constants_offset.into(), constants_size, || "constant bytes".into())?;
    GRAPH.check(flatbuffer)?;
    Ok((flatbuffer, constant_bytes))
}

impl<'a> Constant<'a> {
    fn decode(constant: wire::VkBytesRef<'a>, constant_bytes: &'a [u8], budget: &mut Budget) -> Result<Self, Error> {
        let (offset, length) = (constant.offset()?, constant.length()?);
        if offset != NAMED {
            let container = ("constant bytes", constant_bytes);
            return subslice(container, offset, length, || "content".into()).map(Self::Inline);
        }
        match budget.text(constant.named_key()?)? {
            Some(key) => Ok(Self::Named { key, length }),
            None => Err(Error::malformed("content", "has neither offset nor key")),
        }
    }
}

impl<'a> OperatorCall<'a> {
    fn decode(call: wire::OperatorCallRef<'a>, value_count: usize, budget: &mut Budget) -> Result<Self, Error> {
        let node_id = call.node_id()?;
        let name = budget.text(call.name()?)?.unwrap_or_default();
        let args = budget
            .list(call.args()?, |_, _, id| VkValueId::checked(id, value_count))
            .within(|| format!("node {node_id} {}", quoted(name)))?;
        Ok(Self { node_id, name, args })
    }
}

/// Refuses a tensor that is larger than the constant it starts as.
fn fits_constant<'a>(value: VkValue<'a>, constants: &[Constant<'_>]) -> Result<VkValue<'a>, Error> {
    if let VkValue::Tensor(tensor) = &value
        && let Some(id) = tensor.constant
    {
        let (needed, available) = (tensor.byte_count(), constants[id.index()].byte_count());
        if needed > available {
            return Err(Error::malformed(
                "tensor",
                format!("needs {needed} bytes, its constant {} has {available}", id.0),
            ));
        }
    }
    Ok(value)
}
