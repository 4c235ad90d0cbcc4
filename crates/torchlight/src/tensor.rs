//! Tensors on the host: a type, a shape and little-endian bytes, borrowed on the way in and owned on the way out.

use std::fmt;

use bytemuck::Pod;

use crate::error::{Error, Result};

/// The largest rank of a tensor.
pub const MAX_RANK: usize = 8;

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer: on the host only, narrowed to [`DType::I32`] on the way to the GPU.
    I64,
    /// 8-bit unsigned integer.
    U8,
    /// 8-bit signed integer.
    I8,
    /// A byte that is 0 or 1.
    Bool,
}

impl DType {
    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 => 2,
            Self::U8 | Self::I8 | Self::Bool => 1,
        }
    }

    /// The name used in messages and files: `f32`, `i64`, ...
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The sizes of a tensor, outermost first: up to [`MAX_RANK`] of them, without an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dims {
    rank: u8,
    sizes: [u32; MAX_RANK],
}

impl Dims {
    /// Dims from sizes, or `None` where there are more than [`MAX_RANK`].
    pub fn new(sizes: &[u32]) -> Option<Self> {
        let mut dims = Self { rank: u8::try_from(sizes.len()).ok()?, sizes: [1; MAX_RANK] };
        dims.sizes.get_mut(..sizes.len())?.copy_from_slice(sizes);
        Some(dims)
    }

    /// The sizes.
    pub fn as_slice(&self) -> &[u32] {
        &self.sizes[..usize::from(self.rank)]
    }

    /// The sizes, to change.
    pub fn as_mut_slice(&mut self) -> &mut [u32] {
        &mut self.sizes[..usize::from(self.rank)]
    }

    /// How many elements: the product of the sizes.
    ///
    /// Saturates; a graph refuses tensors whose bytes overflow before this is asked.
    pub fn elements(&self) -> u64 {
        self.as_slice().iter().fold(1, |product, &size| u64::saturating_mul(product, u64::from(size)))
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_slice(), f)
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, size) in self.as_slice().iter().enumerate() {
            write!(f, "{}{size}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

/// A borrowed tensor: what goes into a run.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    dtype: DType,
    dims: Dims,
    bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// A view of little-endian bytes.
    ///
    /// # Errors
    /// Where the byte count is not what `dtype` and `sizes` ask for, or the rank exceeds [`MAX_RANK`].
    pub fn new(dtype: DType, sizes: &[u32], bytes: &'a [u8]) -> Result<Self> {
        let refuse = |wanted: String, got: String| Error::Input { what: "tensor".into(), wanted, got };
        let dims =
            Dims::new(sizes).ok_or_else(|| refuse(format!("a rank of at most {MAX_RANK}"), sizes.len().to_string()))?;
        let wanted = dims.elements().saturating_mul(dtype.size_bytes() as u64);
        if wanted != bytes.len() as u64 {
            return Err(refuse(format!("{wanted} bytes for {dtype}{dims}"), format!("{} bytes", bytes.len())));
        }
        Ok(Self { dtype, dims, bytes })
    }

    /// A view of 32-bit floats.
    ///
    /// # Errors
    /// Where `values` does not have as many elements as `sizes` says.
    pub fn f32(sizes: &[u32], values: &'a [f32]) -> Result<Self> {
        Self::new(DType::F32, sizes, bytemuck::cast_slice(values))
    }

    /// A view of 64-bit integers, as positions and token ids are.
    ///
    /// # Errors
    /// Where `values` does not have as many elements as `sizes` says.
    pub fn i64(sizes: &[u32], values: &'a [i64]) -> Result<Self> {
        Self::new(DType::I64, sizes, bytemuck::cast_slice(values))
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The sizes.
    pub fn dims(&self) -> Dims {
        self.dims
    }

    /// The little-endian bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// An owned tensor: what comes out of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    dtype: DType,
    dims: Dims,
    bytes: Vec<u8>,
}

impl HostTensor {
    /// A tensor from little-endian bytes.
    ///
    /// # Errors
    /// As [`TensorView::new`].
    pub fn new(dtype: DType, sizes: &[u32], bytes: Vec<u8>) -> Result<Self> {
        let dims = TensorView::new(dtype, sizes, &bytes)?.dims();
        Ok(Self { dtype, dims, bytes })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The sizes.
    pub fn dims(&self) -> Dims {
        self.dims
    }

    /// The little-endian bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A view, to give to a run.
    pub fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, dims: self.dims, bytes: &self.bytes }
    }

    /// The elements as 32-bit floats.
    ///
    /// # Errors
    /// Where the tensor holds another type.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        self.elements(DType::F32)
    }

    /// The elements as 64-bit integers.
    ///
    /// # Errors
    /// Where the tensor holds another type.
    pub fn to_i64(&self) -> Result<Vec<i64>> {
        self.elements(DType::I64)
    }

    /// The elements as 32-bit integers.
    ///
    /// # Errors
    /// Where the tensor holds another type.
    pub fn to_i32(&self) -> Result<Vec<i32>> {
        self.elements(DType::I32)
    }

    fn elements<T: Pod>(&self, wanted: DType) -> Result<Vec<T>> {
        if self.dtype != wanted {
            return Err(Error::DType { wanted, got: self.dtype });
        }
        Ok(bytemuck::pod_collect_to_vec(&self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_wants_the_bytes_its_shape_needs() {
        let error = TensorView::f32(&[2, 3], &[0.0; 5]).unwrap_err();
        assert_eq!(error.to_string(), "tensor: wanted 24 bytes for f32[2, 3], got 20 bytes");
        assert!(TensorView::f32(&[2, 3], &[0.0; 6]).is_ok());
        assert!(TensorView::f32(&[1; 9], &[0.0]).unwrap_err().to_string().contains("rank of at most 8"));
        assert!(TensorView::new(DType::F32, &[u32::MAX; 8], &[]).is_err());
    }

    #[test]
    fn a_scalar_has_one_element_and_no_sizes() {
        let dims = Dims::new(&[]).unwrap();
        assert_eq!((dims.elements(), dims.to_string().as_str()), (1, "[]"));
    }

    #[test]
    fn elements_are_read_as_their_own_type_only() {
        let tensor =
            HostTensor::new(DType::I64, &[2], [7i64, -1].iter().flat_map(|v| v.to_le_bytes()).collect()).unwrap();
        assert_eq!(tensor.to_i64().unwrap(), [7, -1]);
        assert_eq!(tensor.to_f32().unwrap_err().to_string(), "the tensor holds i64, not f32");
    }
}
