//! The inputs of a run, held against what the program takes before anything of them is used.

use super::half;
use crate::error::{Error, Result};
use crate::graph::{Graph, GraphInput, Live};
use crate::plan::Plan;
use crate::tensor::{DType, Dims, HostTensor, TensorView};

/// One input of a run.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A tensor from the host.
    Host(TensorView<'a>),
    /// What the input's buffer holds from earlier runs: what was given last or, where the program changes the input,
    /// what the last run left there.
    Resident,
}

impl<'a> From<TensorView<'a>> for Input<'a> {
    fn from(view: TensorView<'a>) -> Self {
        Self::Host(view)
    }
}

impl<'a> From<&'a HostTensor> for Input<'a> {
    fn from(tensor: &'a HostTensor) -> Self {
        Self::Host(tensor.view())
    }
}

/// What a session knows of its inputs.
#[derive(Debug)]
pub(super) struct Inputs {
    /// One entry an input.
    known: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    dims: Dims,
    /// The shape of what is on the device, where something is.
    on_device: Option<Dims>,
    /// The elements of an integer input as the device takes them; reused from run to run.
    integers: Vec<i32>,
    /// The content of an f16 cache, where the host gave it.
    halves: Vec<u8>,
    /// Whether this run's content came from the host.
    from_host: bool,
}

impl Inputs {
    /// Nothing known yet.
    pub(super) fn new(graph: &Graph<'_>) -> Self {
        let live = Live::new(graph);
        let known = |input: &GraphInput| Known {
            dims: live.dims(input.tensor),
            on_device: None,
            integers: Vec::new(),
            halves: Vec::new(),
            from_host: false,
        };
        Self { known: graph.inputs.iter().map(known).collect() }
    }

    /// Holds the inputs of a run against the graph.
    pub(super) fn accept(&mut self, (graph, plan): (&Graph<'_>, &Plan), inputs: &[Input<'_>]) -> Result<()> {
        if inputs.len() != self.known.len() {
            let wanted = describe(graph);
            return Err(Error::Input { what: "inputs".into(), wanted, got: inputs.len().to_string() });
        }
        for (index, (known, input)) in self.known.iter_mut().zip(inputs).enumerate() {
            let expected = &graph.inputs[index];
            match input {
                Input::Resident => {
                    known.dims = known.on_device.ok_or_else(|| Error::Input {
                        what: format!("input {index}"),
                        wanted: "a tensor, since nothing is on the device yet".into(),
                        got: "Resident".into(),
                    })?;
                    known.from_host = false;
                }
                Input::Host(view) => {
                    check(graph, (index, expected), view)?;
                    known.dims = view.dims();
                    known.from_host = true;
                    if graph.tensor(expected.tensor).dtype == DType::I32 {
                        narrow(index, view, &mut known.integers)?;
                    }
                    if plan.dtype(expected.tensor) == DType::F16 {
                        known.halves = half::narrow(view.bytes());
                    }
                }
            }
        }
        Ok(())
    }

    /// The live shapes, in order.
    pub(super) fn dims(&self) -> impl Iterator<Item = Dims> {
        self.known.iter().map(|known| known.dims)
    }

    /// The elements of an integer input that came from the host.
    pub(super) fn integers(&self, input: usize) -> Option<&[i32]> {
        self.known.get(input).filter(|known| known.from_host).map(|known| known.integers.as_slice())
    }

    /// The bytes to upload for an input, where it came from the host.
    pub(super) fn device_bytes<'b>(&'b self, index: usize, input: &Input<'b>) -> Option<&'b [u8]> {
        match input {
            Input::Resident => None,
            Input::Host(view) if view.dtype() == DType::I64 => Some(bytemuck::cast_slice(&self.known[index].integers)),
            Input::Host(_) if !self.known[index].halves.is_empty() => Some(&self.known[index].halves),
            Input::Host(view) => Some(view.bytes()),
        }
    }

    /// Notes that the accepted inputs are on the device now.
    pub(super) fn commit(&mut self) {
        for known in &mut self.known {
            known.on_device = Some(known.dims);
        }
    }

    /// Forgets what is on the device.
    pub(super) fn forget(&mut self) {
        for known in &mut self.known {
            known.on_device = None;
        }
    }
}

fn check(graph: &Graph<'_>, (index, expected): (usize, &GraphInput), view: &TensorView<'_>) -> Result<()> {
    let bound = graph.tensor(expected.tensor).bound;
    let refuse = |got: String| {
        let up_to = if expected.dynamic { " or smaller" } else { "" };
        let wanted = format!("{}{bound}{up_to}", expected.host_dtype);
        Err(Error::Input { what: format!("input {index}"), wanted, got })
    };
    let (dtype, dims) = (view.dtype(), view.dims());
    let fits = match expected.dynamic {
        true => crate::graph::fits(dims, bound) && !dims.as_slice().contains(&0),
        false => dims == bound,
    };
    if dtype != expected.host_dtype || !fits {
        return refuse(format!("{dtype}{dims}"));
    }
    Ok(())
}

/// Narrows 64-bit integers, and refuses what does not fit; copies 32-bit ones.
fn narrow(index: usize, view: &TensorView<'_>, integers: &mut Vec<i32>) -> Result<()> {
    integers.clear();
    if view.dtype() == DType::I32 {
        let (chunks, _) = view.bytes().as_chunks::<4>();
        integers.extend(chunks.iter().map(|bytes| i32::from_le_bytes(*bytes)));
        return Ok(());
    }
    let (chunks, _) = view.bytes().as_chunks::<8>();
    for bytes in chunks {
        let wide = i64::from_le_bytes(*bytes);
        integers.push(i32::try_from(wide).map_err(|_| Error::Input {
            what: format!("input {index}"),
            wanted: "integers of 32 bits".into(),
            got: wide.to_string(),
        })?);
    }
    Ok(())
}

fn describe(graph: &Graph<'_>) -> String {
    let inputs: Vec<String> =
        graph.inputs.iter().map(|input| format!("{}{}", input.host_dtype, graph.tensor(input.tensor).bound)).collect();
    format!("{} ({})", inputs.len(), inputs.join(", "))
}
