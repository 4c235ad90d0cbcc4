//! A `.pte` file: its header, its segments, and the program flatbuffer that ties them together.

use planus::ReadAsRoot;

use crate::bounds::{Kind, array_at, checked_index, subslice};
use crate::budget::Budget;
use crate::error::{Error, Within, quoted};
use crate::generated::program as wire;
use crate::method::DelegateBlobs;
use crate::named_data::NamedData;
use crate::{Method, Value};

const PROGRAM: Kind = Kind { name: "a .pte file", identifier: "ET12", container: "file" };
const EXTENDED_HEADER_MAGIC: &[u8; 4] = b"eh00";

/// A parsed `.pte` file.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// The schema version that the exporter wrote.
    pub version: u32,
    /// The entry points, in file order.
    pub methods: Vec<Method<'a>>,
    constants: Vec<&'a [u8]>,
    named_data: NamedData<'a>,
}

impl<'a> Program<'a> {
    /// Reads a whole `.pte` file.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        PROGRAM.check(bytes)?;
        let header = ExtendedHeader::read(bytes)?;
        let flatbuffer = header.as_ref().map_or(bytes, |header| header.program);
        let mut budget = Budget::for_flatbuffer(flatbuffer);
        let program = wire::ProgramRef::read_as_root(flatbuffer)?;

        let segments = budget.list(program.segments()?, |_, index, segment| {
            let segment = segment?;
            let (offset, size) = (segment.offset()?, segment.size()?);
            locate_segment(bytes, header.as_ref(), index, offset, size)
        })?;
        let constants = resolve_constants(program, &segments, &mut budget)?;
        let named_data = NamedData::resolve(program.named_data()?, &segments, &mut budget, |entry| {
            let entry = entry?;
            Ok((entry.key()?, entry.segment_index()?))
        })?;
        let inline =
            budget.list(program.backend_delegate_data()?, |_, _, blob| Ok(blob?.data()?.unwrap_or_default()))?;
        let blobs = DelegateBlobs { inline, segments };
        let methods = budget.list(program.execution_plan()?, |budget, _, plan| {
            let method = Method::decode(plan?, &blobs, budget)?;
            check_constants(&method, &constants)?;
            Ok(method)
        })?;
        Ok(Self { version: program.version()?, methods, constants, named_data })
    }

    /// The method of that name.
    pub fn method(&self, name: &str) -> Option<&Method<'a>> {
        self.methods.iter().find(|method| method.name == name)
    }

    /// The content of a named constant.
    pub fn named_data(&self, key: &str) -> Option<&'a [u8]> {
        self.named_data.get(key)
    }

    /// Keys and sizes in bytes of all named constants, sorted by key.
    pub fn named_keys(&self) -> impl Iterator<Item = (&'a str, usize)> {
        self.named_data.keys()
    }

    /// The content of a constant tensor by its [`data_buffer_idx`](crate::TensorMeta::data_buffer_idx), which is not 0.
    ///
    /// For a tensor of this program it has at least the tensor's bytes; padding may follow them.
    pub fn constant(&self, data_buffer_idx: u32) -> Option<&'a [u8]> {
        match data_buffer_idx {
            0 => None,
            index => self.constants.get(index as usize).copied(),
        }
    }
}

/// The header of a program that is followed by segments.
struct ExtendedHeader<'a> {
    /// The program flatbuffer.
    program: &'a [u8],
    /// Where segments begin; none where the offset is 0.
    segment_base: Option<u64>,
}

impl<'a> ExtendedHeader<'a> {
    /// Reads the header, or finds that there is none.
    fn read(bytes: &'a [u8]) -> Result<Option<Self>, Error> {
        if array_at(bytes, 8).as_ref() != Some(EXTENDED_HEADER_MAGIC) {
            return Ok(None);
        }
        let (Some(length), Some(program_size), Some(segment_base)) =
            (array_at(bytes, 12), array_at(bytes, 16), array_at(bytes, 24))
        else {
            return Err(PROGRAM.truncated("the extended header ends at", 32, bytes));
        };
        let length = u32::from_le_bytes(length);
        if length < 24 {
            return Err(Error::malformed("extended header", format!("its length is {length}, at least 24 is needed")));
        }
        let program_size = u64::from_le_bytes(program_size);
        let program = usize::try_from(program_size).ok().and_then(|size| bytes.get(..size));
        let program =
            program.ok_or_else(|| PROGRAM.truncated("the header says the program is", program_size.into(), bytes))?;
        let segment_base = u64::from_le_bytes(segment_base);
        if segment_base != 0 && segment_base < program_size {
            return Err(Error::malformed(
                "extended header",
                format!("segments begin at byte {segment_base}, inside the program of {program_size} bytes"),
            ));
        }
        // Shorter headers do not say where segments end: then each segment is held against the file alone.
        if length >= 32 {
            let Some(size) = array_at(bytes, 32) else {
                return Err(PROGRAM.truncated("the extended header ends at", 40, bytes));
            };
            let end = u128::from(segment_base) + u128::from(u64::from_le_bytes(size));
            if end > bytes.len() as u128 {
                return Err(PROGRAM.truncated("the header says the segments end at", end, bytes));
            }
        }
        Ok(Some(Self { program, segment_base: (segment_base != 0).then_some(segment_base) }))
    }
}

fn locate_segment<'a>(
    file: &'a [u8],
    header: Option<&ExtendedHeader<'_>>,
    index: usize,
    offset: u64,
    size: u64,
) -> Result<&'a [u8], Error> {
    let what = || format!("segment {index}");
    match header.and_then(|header| header.segment_base) {
        Some(base) => match base.checked_add(offset) {
            Some(start) => subslice(("file", file), start, size, what),
            None => Err(Error::malformed(what(), format!("offset {offset} overflows behind segment base {base}"))),
        },
        None if size == 0 => Ok(&[]),
        None => Err(Error::malformed(what(), format!("{size} bytes, but the file has no segment base"))),
    }
}

/// Constants by `data_buffer_idx`; the first one stands for "none".
fn resolve_constants<'a>(
    program: wire::ProgramRef<'a>,
    segments: &[&'a [u8]],
    budget: &mut Budget,
) -> Result<Vec<&'a [u8]>, Error> {
    let Some(table) = program.constant_segment()? else {
        return inline_constants(program, budget);
    };
    let offsets = budget.list(table.offsets()?, |_, _, offset| Ok(offset))?;
    // Exporters write the first offset even where there are no constants.
    if offsets.len() < 2 {
        return inline_constants(program, budget);
    }
    let segment = checked_index(table.segment_index()?, segments.len(), "segment of constants")?;
    let segment = segments[segment as usize];
    budget.charge(offsets.len().saturating_mul(size_of::<&[u8]>()))?;
    let ends = offsets.iter().skip(1).copied().chain([segment.len() as u64]);
    offsets
        .iter()
        .zip(ends)
        .enumerate()
        .map(|(index, (&start, end))| {
            let what = || format!("constant {index}");
            let Some(length) = end.checked_sub(start) else {
                return Err(Error::malformed(what(), format!("begins at byte {start}, ends at byte {end}")));
            };
            subslice(("constant segment", segment), start, length, what)
        })
        .collect()
}

fn inline_constants<'a>(program: wire::ProgramRef<'a>, budget: &mut Budget) -> Result<Vec<&'a [u8]>, Error> {
    budget.list(program.constant_buffer()?, |_, _, buffer| Ok(buffer?.storage()?.unwrap_or_default()))
}

/// Refuses tensors whose constant is missing or too small.
fn check_constants(method: &Method<'_>, constants: &[&[u8]]) -> Result<(), Error> {
    for (index, value) in method.values.iter().enumerate() {
        let Value::Tensor(tensor) = value else { continue };
        if tensor.data_buffer_idx == 0 {
            continue;
        }
        let what = || format!("method {}, value {index}", quoted(method.name));
        let constant = checked_index(tensor.data_buffer_idx, constants.len(), "constant").within(what)?;
        let available = constants[constant as usize].len();
        if tensor.byte_count().is_some_and(|needed| needed > available as u64) {
            let detail =
                format!("{} elements of {:?} in a constant of {available} bytes", tensor.element_count, tensor.dtype);
            return Err(Error::malformed(what(), detail));
        }
    }
    Ok(())
}
