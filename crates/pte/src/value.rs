//! The values of a method: what its inputs, outputs and instruction arguments refer to.

use crate::bounds::{checked_index, element_count};
use crate::budget::Budget;
use crate::error::{Error, Within};
use crate::generated::program as wire;

/// Names a value of a method: an index into [`Method::values`](crate::Method::values), in range in every parsed method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn checked(raw: impl Into<i64>, value_count: usize) -> Result<Self, Error> {
        checked_index(raw, value_count, "value id").map(Self)
    }
}

/// A value of a method.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// An integer, or an enumeration's number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating point number.
    Double(f64),
    /// A tensor.
    Tensor(TensorMeta),
    /// Text.
    String(&'a str),
    /// Integers; each is a value of its own, so that it can be computed at run time.
    IntList(Vec<ValueId>),
    /// Floating point numbers.
    DoubleList(Vec<f64>),
    /// Truth values.
    BoolList(Vec<bool>),
    /// Tensors.
    TensorList(Vec<ValueId>),
    /// Tensors, some of which may be missing.
    OptionalTensorList(Vec<Option<ValueId>>),
}

/// What a program says about a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMeta {
    /// The type of an element.
    pub dtype: ScalarType,
    /// Elements along each dimension, outermost first; empty for a scalar. An upper bound where `dynamism` says so.
    pub sizes: Vec<u32>,
    /// Dimensions from the outermost to the innermost in memory: a permutation, one entry a dimension.
    pub dim_order: Vec<u8>,
    /// Which constant of the program holds the content (see [`Program::constant`](crate::Program::constant)); 0: none.
    pub data_buffer_idx: u32,
    /// Whether `sizes` holds at run time.
    pub dynamism: Dynamism,
    /// The product of `sizes`. It does not overflow, in bytes neither.
    pub element_count: u64,
}

impl TensorMeta {
    /// Bytes of the content, or nothing where the type's width is not known.
    pub fn byte_count(&self) -> Option<u64> {
        Some(self.element_count * self.dtype.size_bytes()?)
    }
}

/// The type of a tensor's elements in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarType {
    /// Unsigned 8 bits.
    U8,
    /// Signed 8 bits.
    I8,
    /// Signed 16 bits.
    I16,
    /// Signed 32 bits.
    I32,
    /// Signed 64 bits.
    I64,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// A byte that is 0 or 1.
    Bool,
    /// The upper half of a single.
    BF16,
    /// Another type, by its number in the file.
    Other(i8),
}

impl ScalarType {
    /// Bytes of one element, or nothing for another type.
    pub fn size_bytes(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::I16 | Self::F16 | Self::BF16 => Some(2),
            Self::I32 | Self::F32 => Some(4),
            Self::I64 | Self::F64 => Some(8),
            Self::Other(_) => None,
        }
    }

    fn from_code(code: i8) -> Self {
        match code {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::I16,
            3 => Self::I32,
            4 => Self::I64,
            5 => Self::F16,
            6 => Self::F32,
            7 => Self::F64,
            11 => Self::Bool,
            15 => Self::BF16,
            other => Self::Other(other),
        }
    }
}

/// How far a tensor's sizes are known before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dynamism {
    /// The sizes are those of every run.
    Static,
    /// The sizes are the largest of any run.
    DynamicBound,
    /// The sizes say nothing.
    DynamicUnbound,
}

impl<'a> Value<'a> {
    pub(crate) fn decode(value: wire::EValueRef<'a>, value_count: usize, budget: &mut Budget) -> Result<Self, Error> {
        use wire::KernelTypesRef as Wire;
        let Some(value) = value.val()? else {
            return Err(Error::malformed("value", "has no content"));
        };
        Ok(match value {
            Wire::Null(_) => Self::Null,
            Wire::Int(int) => Self::Int(int.int_val()?),
            Wire::Bool(bool) => Self::Bool(bool.bool_val()?),
            Wire::Double(double) => Self::Double(double.double_val()?),
            Wire::Tensor(tensor) => Self::Tensor(TensorMeta::decode(tensor, budget)?),
            Wire::String(string) => Self::String(budget.text(string.string_val()?)?.unwrap_or_default()),
            Wire::IntList(list) => {
                Self::IntList(budget.list(list.items()?, |_, _, id| ValueId::checked(id, value_count))?)
            }
            Wire::DoubleList(list) => Self::DoubleList(budget.list(list.items()?, |_, _, item| Ok(item))?),
            Wire::BoolList(list) => Self::BoolList(budget.list(list.items()?, |_, _, item| Ok(item))?),
            Wire::TensorList(list) => {
                Self::TensorList(budget.list(list.items()?, |_, _, id| ValueId::checked(id, value_count))?)
            }
            Wire::OptionalTensorList(list) => {
                Self::OptionalTensorList(budget.list(list.items()?, |_, _, id| match id {
                    -1 => Ok(None),
                    id => ValueId::checked(id, value_count).map(Some),
                })?)
            }
        })
    }
}

impl TensorMeta {
    fn decode(tensor: wire::TensorRef<'_>, budget: &mut Budget) -> Result<Self, Error> {
        let dtype = ScalarType::from_code(tensor.scalar_type()?);
        let sizes = budget.list(tensor.sizes()?, |_, dim, size| {
            u32::try_from(size).map_err(|_| Error::malformed("tensor", format!("dimension {dim} has size {size}")))
        })?;
        let element_bytes = dtype.size_bytes().unwrap_or(1) as usize;
        let element_count = element_count(&sizes, element_bytes).within(|| "tensor".into())?;
        let dim_order = tensor.dim_order()?.unwrap_or_default();
        check_dim_order(dim_order, sizes.len())?;
        budget.charge(dim_order.len())?;
        let dynamism = match tensor.shape_dynamism()? {
            0 => Dynamism::Static,
            1 => Dynamism::DynamicBound,
            2 => Dynamism::DynamicUnbound,
            other => return Err(Error::unsupported("tensor", format!("shape dynamism {other}"))),
        };
        let data_buffer_idx = tensor.data_buffer_idx()?;
        check_storage(tensor, data_buffer_idx)?;
        Ok(Self { dtype, sizes, dim_order: dim_order.to_vec(), data_buffer_idx, dynamism, element_count })
    }
}

fn check_dim_order(dim_order: &[u8], rank: usize) -> Result<(), Error> {
    let mut seen = [false; 256];
    let is_permutation = dim_order.len() == rank
        && dim_order
            .iter()
            .all(|&dim| usize::from(dim) < rank && !std::mem::replace(&mut seen[usize::from(dim)], true));
    if is_permutation {
        return Ok(());
    }
    Err(Error::malformed("tensor", format!("the order of its {rank} dimensions is no permutation of them")))
}

/// Refuses the ways to store a tensor that would otherwise read as wrong content.
fn check_storage(tensor: wire::TensorRef<'_>, data_buffer_idx: u32) -> Result<(), Error> {
    let refuse = |detail: String| Err(Error::unsupported("tensor", detail));
    match (tensor.storage_offset()?, tensor.layout()?) {
        (0, 0) => {}
        (0, layout) => return refuse(format!("layout {layout}, only 0 (strided) is read")),
        (offset, _) => return refuse(format!("storage offset of {offset} elements")),
    }
    if data_buffer_idx > 0 && tensor.allocation_info()?.is_some() {
        return refuse(format!("a mutable tensor that starts as constant {data_buffer_idx}"));
    }
    match tensor.extra_tensor_info()?.map_or(Ok(0), |info| info.location())? {
        0 => Ok(()),
        location => refuse(format!("content outside the file (location {location})")),
    }
}
