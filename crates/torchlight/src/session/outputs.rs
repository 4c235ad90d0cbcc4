//! What comes back from a run: outputs, and the samples of its dispatches.

use crate::error::{Error, Result};
use crate::gpu::Download;
use crate::graph::{Graph, GraphOutput, Live};
use crate::kernels::Grid;
use crate::plan::Plan;
use crate::profile::{Quality, RunProfile, Sample, TickPair, TimestampMode};
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

/// The outputs of a run from what was downloaded, in the program's order.
pub(super) fn collect(graph: &Graph<'_>, live: &Live, downloads: &[Download], bytes: &[u8]) -> Result<Vec<Output>> {
    let mut downloads = downloads.iter().peekable();
    let output = |(index, output): (usize, &GraphOutput)| match *output {
        GraphOutput::Int(value) => Ok(Output::Int(value)),
        GraphOutput::Bool(value) => Ok(Output::Bool(value)),
        GraphOutput::Double(value) => Ok(Output::Double(value)),
        GraphOutput::Tensor { tensor, host_dtype, mutates_input } => {
            let Some(download) = downloads.next_if(|download| download.output == index) else {
                let resident = mutates_input.map(|input| Output::Resident { input });
                return resident.ok_or_else(|| Error::Gpu(format!("output {index} was not downloaded")));
            };
            let (dtype, dims) = (graph.tensor(tensor).dtype, live.dims(tensor));
            let start = download.offset_bytes as usize;
            let end = start + dims.elements() as usize * dtype.size_bytes();
            let content = bytes
                .get(start..end)
                .ok_or_else(|| Error::Gpu(format!("{} bytes of outputs arrived, wanted {end}", bytes.len())))?;
            HostTensor::new(host_dtype, dims.as_slice(), widen(content, dtype, host_dtype)).map(Output::Tensor)
        }
    };
    graph.outputs.iter().enumerate().map(output).collect()
}

/// Integers of 32 bits become 64 bits again where the program says so.
fn widen(bytes: &[u8], from: DType, to: DType) -> Vec<u8> {
    if (from, to) != (DType::I32, DType::I64) {
        return bytes.to_vec();
    }
    let (chunks, _) = bytes.as_chunks::<4>();
    chunks.iter().flat_map(|bytes| i64::from(i32::from_le_bytes(*bytes)).to_le_bytes()).collect()
}

/// The samples of a run from its stamps.
pub(super) fn profile(
    (plan, graph): (&Plan, &Graph<'_>),
    (run, mode, period_ns): (u64, TimestampMode, f64),
    grids: &[Grid],
    stamps: &[TickPair],
) -> RunProfile {
    let measured = stamps.iter().filter(|ticks| ticks.quality() == Quality::Ok);
    let origin = measured.map(|ticks| ticks.begin).min().unwrap_or(0);
    let since = |ticks: u64| (ticks - origin) as f64 * period_ns;
    let sample = |(index, ((dispatch, grid), &ticks)): (usize, ((&crate::plan::Dispatch, &Grid), &TickPair))| {
        let variant = plan.variant(dispatch.variant);
        let node = &graph.nodes[dispatch.node as usize];
        let ok = ticks.quality() == Quality::Ok;
        Sample {
            dispatch: index as u32,
            kernel: variant.label.to_owned(),
            route: dispatch.route,
            operator: node.operator.name().to_owned(),
            node: node.id,
            workgroups: [grid.x, grid.y],
            workgroup_size: variant.kernel.workgroup_size,
            ticks,
            quality: ticks.quality(),
            begin_ns: ok.then(|| since(ticks.begin)),
            end_ns: ok.then(|| since(ticks.end)),
            duration_ns: ticks.duration_ns(period_ns),
        }
    };
    let samples = plan.dispatches().zip(grids).zip(stamps).enumerate().map(sample).collect();
    RunProfile { run, mode, period_ns, samples }
}
