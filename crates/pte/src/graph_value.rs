//! The values of a delegate graph: tensors, numbers, and sizes that are known at run time only.

use crate::ConstantId;
use crate::bounds::{checked_index, element_count};
use crate::budget::Budget;
use crate::error::{Error, Within};
use crate::generated::vkgraph as wire;

/// Names a value of a graph: an index into [`DelegateGraph::values`](crate::DelegateGraph::values), in range in every
/// parsed graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VkValueId(pub u32);

impl VkValueId {
    /// The id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn checked(raw: impl Into<i64>, value_count: usize) -> Result<Self, Error> {
        checked_index(raw, value_count, "value id").map(Self)
    }
}

/// A value of a delegate graph.
///
/// The exporter merges equal scalars and writes whole numbers as `Int`, so an argument that means 0.0 may be an `Int` and
/// share its id with an argument of another meaning.
#[derive(Clone, Debug, PartialEq)]
pub enum VkValue<'a> {
    /// None.
    Null,
    /// An integer.
    Int(i64),
    /// A floating point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// A tensor.
    Tensor(VkTensor),
    /// Integers.
    IntList(Vec<i64>),
    /// Floating point numbers.
    DoubleList(Vec<f64>),
    /// Truth values.
    BoolList(Vec<bool>),
    /// Several values as one argument, such as the outputs of an operator.
    ValueList(Vec<VkValueId>),
    /// Text.
    String(&'a str),
    /// An integer that operators write at run time; the number is what it starts as.
    SymInt(i32),
}

/// A tensor of a delegate graph.
///
/// The file also suggests texture storage, memory layout and which tensors share memory. These are hints for texture back
/// ends (shared memory even crosses types and sizes) and are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VkTensor {
    /// The type of an element. Where the program has 64-bit integers, the graph has 32-bit ones.
    pub dtype: VkDataType,
    /// Elements along each dimension, outermost first; empty for a scalar. In a dynamic graph these are upper bounds.
    pub dims: Vec<u32>,
    /// The constant that the tensor starts as. A constant that an operator writes is state that outlives a run.
    pub constant: Option<ConstantId>,
    /// The product of `dims`. It does not overflow, in bytes neither.
    pub element_count: u64,
}

impl VkTensor {
    /// Bytes of the content.
    pub fn byte_count(&self) -> u64 {
        self.element_count * self.dtype.size_bytes()
    }
}

/// The type of a tensor's elements in a delegate graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VkDataType {
    /// A byte that is 0 or 1.
    Bool,
    /// Unsigned 8 bits.
    U8,
    /// Signed 8 bits.
    I8,
    /// Signed 32 bits.
    I32,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// Signed 64 bits.
    I64,
}

impl VkDataType {
    /// Bytes of one element.
    pub fn size_bytes(self) -> u64 {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::F16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    fn from_code(code: i8) -> Result<Self, Error> {
        Ok(match code {
            0 => Self::Bool,
            1 => Self::U8,
            2 => Self::I8,
            3 => Self::I32,
            4 => Self::F16,
            5 => Self::F32,
            6 => Self::F64,
            7 => Self::I64,
            other => return Err(Error::unsupported("tensor", format!("data type {other}"))),
        })
    }
}

/// How many of each thing a value may refer to.
#[derive(Clone, Copy)]
pub(crate) struct GraphCounts {
    pub(crate) values: usize,
    pub(crate) constants: usize,
}

impl<'a> VkValue<'a> {
    pub(crate) fn decode(value: wire::VkValueRef<'a>, counts: GraphCounts, budget: &mut Budget) -> Result<Self, Error> {
        use wire::GraphTypesRef as Wire;
        let Some(value) = value.value()? else {
            return Err(Error::malformed("value", "has no content"));
        };
        Ok(match value {
            Wire::Null(_) => Self::Null,
            Wire::Int(int) => Self::Int(int.int_val()?),
            Wire::Double(double) => Self::Double(double.double_val()?),
            Wire::Bool(bool) => Self::Bool(bool.bool_val()?),
            Wire::VkTensor(tensor) => Self::Tensor(VkTensor::decode(tensor, counts.constants, budget)?),
            Wire::IntList(list) => Self::IntList(budget.list(list.items()?, |_, _, item| Ok(item))?),
            Wire::DoubleList(list) => Self::DoubleList(budget.list(list.items()?, |_, _, item| Ok(item))?),
            Wire::BoolList(list) => Self::BoolList(budget.list(list.items()?, |_, _, item| Ok(item))?),
            Wire::ValueList(list) => {
                Self::ValueList(budget.list(list.items()?, |_, _, id| VkValueId::checked(id, counts.values))?)
            }
            Wire::String(string) => Self::String(budget.text(string.string_val()?)?.unwrap_or_default()),
            Wire::SymInt(int) => Self::SymInt(int.value()?),
        })
    }
}

impl VkTensor {
    fn decode(tensor: wire::VkTensorRef<'_>, constant_count: usize, budget: &mut Budget) -> Result<Self, Error> {
        let dtype = VkDataType::from_code(tensor.datatype()?)?;
        let dims = budget.list(tensor.dims()?, |_, _, dim| Ok(dim))?;
        let element_count = element_count(&dims, dtype.size_bytes() as usize).within(|| "tensor".into())?;
        let constant = match tensor.constant_id()? {
            -1 => None,
            id => Some(ConstantId(checked_index(id, constant_count, "constant id")?)),
        };
        Ok(Self { dtype, dims, constant, element_count })
    }
}
