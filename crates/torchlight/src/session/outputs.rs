//! What comes back from a run.

use super::half;
use crate::error::{Error, Result};
use crate::gpu::Download;
use crate::graph::{Graph, GraphOutput, Live};
use crate::plan::Plan;
use crate::tensor::{DType, HostTensor};

/// One output of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A tensor.
    Tensor(HostTensor),
    /// A constant of the program.
    Int(i64),
    /// A constant of the program.
    Bool(bool),
    /// A constant of the program.
    Double(f64),
    /// The new content of a resident input, left on the device: give [`Input::Resident`](super::Input::Resident) to the
    /// next run.
    Resident {
        /// Which input.
        input: usize,
    },
}

impl Output {
    /// The tensor, where it is one.
    pub fn tensor(&self) -> Option<&HostTensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

/// What a run brings to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All outputs.
    Outputs,
    /// Of one output, of 32-bit elements, the last row: what lies along its last dimension.
    LastRowOf(usize),
}

/// What a run brought, where it lies.
pub(super) struct Results<'r> {
    pub(super) graph: &'r Graph<'r>,
    pub(super) plan: &'r Plan,
    pub(super) live: &'r Live,
    pub(super) downloads: &'r [Download],
    pub(super) bytes: &'r [u8],
}

impl Results<'_> {
    /// The outputs, in the program's order.
    pub(super) fn outputs(&self) -> Result<Vec<Output>> {
        let mut downloads = self.downloads.iter().peekable();
        let output = |(index, output): (usize, &GraphOutput)| match *output {
            GraphOutput::Int(value) => Ok(Output::Int(value)),
            GraphOutput::Bool(value) => Ok(Output::Bool(value)),
            GraphOutput::Double(value) => Ok(Output::Double(value)),
            GraphOutput::Tensor { tensor, host_dtype, mutates_input } => {
                let Some(download) = downloads.next_if(|download| download.output == index) else {
                    let resident = mutates_input.map(|input| Output::Resident { input });
                    return resident.ok_or_else(|| Error::Gpu(format!("output {index} was not downloaded")));
                };
                let (dtype, dims) = (self.plan.dtype(tensor), self.live.dims(tensor));
                let content = self.part(download.offset_bytes, dims.elements() * dtype.size_bytes() as u64)?;
                HostTensor::new(host_dtype, dims.as_slice(), widen(content, dtype, host_dtype)).map(Output::Tensor)
            }
        };
        self.graph.outputs.iter().enumerate().map(output).collect()
    }

    /// The row that was wanted.
    pub(super) fn row(&self) -> Result<&[u8]> {
        match self.downloads {
            [row] => self.part(row.offset_bytes, row.size_bytes),
            downloads => Err(Error::Gpu(format!("the step returned {} results, wanted a row", downloads.len()))),
        }
    }

    fn part(&self, offset_bytes: u64, size_bytes: u64) -> Result<&[u8]> {
        let (start, end) = (offset_bytes as usize, (offset_bytes + size_bytes) as usize);
        let part = self.bytes.get(start..end);
        part.ok_or_else(|| Error::Gpu(format!("{} bytes of outputs arrived, wanted {end}", self.bytes.len())))
    }
}

/// Integers of 32 bits become 64 bits again where the program says so, and what caches hold in 16 bits 32 bits.
fn widen(bytes: &[u8], from: DType, to: DType) -> Vec<u8> {
    match (from, to) {
        (DType::I32, DType::I64) => {
            let (chunks, _) = bytes.as_chunks::<4>();
            chunks.iter().flat_map(|bytes| i64::from(i32::from_le_bytes(*bytes)).to_le_bytes()).collect()
        }
        (DType::F16, DType::F32) => half::widen(bytes),
        _ => bytes.to_vec(),
    }
}
