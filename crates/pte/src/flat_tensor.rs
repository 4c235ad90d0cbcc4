//! A `.ptd` file: constants that lie beside a program, found by the same keys as a program's own.

use planus::ReadAsRoot;

use crate::Error;
use crate::bounds::{Kind, array_at, subslice};
use crate::budget::Budget;
use crate::generated::flat_tensor as wire;
use crate::named_data::NamedData;

const FLAT_TENSOR: Kind = Kind { name: "a .ptd file", identifier: "FT01", container: "file" };
const HEADER_MAGIC: &[u8; 4] = b"FH01";
const HEADER_LENGTH: u32 = 40;
/// The header's length counts from byte 8.
const HEADER_END: u128 = 48;

/// A parsed `.ptd` file.
#[derive(Clone, Debug)]
pub struct FlatTensor<'a> {
    named_data: NamedData<'a>,
}

impl<'a> FlatTensor<'a> {
    /// Reads a whole `.ptd` file.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        FLAT_TENSOR.check(bytes)?;
        let number = |offset| {
            let number = array_at(bytes, offset).map(u64::from_le_bytes);
            number.ok_or_else(|| FLAT_TENSOR.truncated("the header ends at", HEADER_END, bytes))
        };
        // Read first: it is the last part of the header, so the others are there too.
        let segments_size = number(40)?;
        let (flatbuffer_offset, flatbuffer_size, segment_base) = (number(16)?, number(24)?, number(32)?);
        if array_at(bytes, 8).as_ref() != Some(HEADER_MAGIC) {
            return Err(Error::malformed("header", "FH01 is missing at byte 8"));
        }
        let length = array_at(bytes, 12).map_or(0, u32::from_le_bytes);
        if length < HEADER_LENGTH {
            return Err(Error::malformed("header", format!("its length is {length}, {HEADER_LENGTH} is needed")));
        }
        let file = ("file", bytes);
        let tables = subslice(file, flatbuffer_offset, flatbuffer_size, || "tables".into())?;
        let segment_bytes = subslice(file, segment_base, segments_size, || "segments".into())?;

        // The header was put behind the flatbuffer's first eight bytes: its root offset still counts from byte 0.
        let end = usize::try_from(flatbuffer_offset).unwrap_or(usize::MAX).saturating_add(tables.len());
        let flatbuffer = bytes.get(..end).unwrap_or(bytes);
        let mut budget = Budget::for_flatbuffer(flatbuffer);
        let root = wire::FlatTensorRef::read_as_root(flatbuffer)?;
        let segments = budget.list(root.segments()?, |_, index, segment| {
            let segment = segment?;
            let what = || format!("segment {index}");
            subslice(("segment area", segment_bytes), segment.offset()?, segment.size()?, what)
        })?;
        let named_data = NamedData::resolve(root.named_data()?, &segments, &mut budget, |entry| {
            let entry = entry?;
            Ok((entry.key()?, entry.segment_index()?))
        })?;
        Ok(Self { named_data })
    }

    /// The content of a named constant.
    pub fn named_data(&self, key: &str) -> Option<&'a [u8]> {
        self.named_data.get(key)
    }

    /// Keys and sizes in bytes of all constants, sorted by key.
    pub fn named_keys(&self) -> impl Iterator<Item = (&'a str, usize)> {
        self.named_data.keys()
    }
}
