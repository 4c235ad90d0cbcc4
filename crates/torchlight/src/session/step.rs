//! One run: from the caller's inputs to what it wants of the outputs.

use std::ops::Range;

use super::inputs::Input;
use super::outputs::{Results, Wanted};
use super::profiler::{self, Moments, RunFacts};
use super::{Session, download_bytes};
use crate::error::{Error, Result};
use crate::gpu::{Arrived, Command, Download, Pending, Run, Submitted};
use crate::graph::GraphOutput;
use crate::kernels::Grid;
use crate::plan::{BufferId, PARAMS_SLOT_BYTES};
use crate::profile::{HostTimes, TimestampMode};
use crate::tensor::{DType, Dims};

/// A run under way.
pub(super) struct Started {
    pending: Pending,
    begun_ns: f64,
}

impl Session {
    /// Runs the program once and waits. `take` reads the results where they lie.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn step<T>(
        &mut self,
        (inputs, wanted): (&[Input<'_>], Wanted),
        take: impl FnOnce(Results<'_>) -> Result<T>,
    ) -> Result<T> {
        span!("run");
        let run = self.start((inputs, wanted), None)?;
        self.wait(run, take)
    }

    /// [`Session::step`] for executors and browsers.
    pub(super) async fn step_async<T>(
        &mut self,
        (inputs, wanted): (&[Input<'_>], Wanted),
        take: impl FnOnce(Results<'_>) -> Result<T>,
    ) -> Result<T> {
        let Started { pending, begun_ns } = self.start((inputs, wanted), None)?;
        let waiting_ns = self.clock.now_ns();
        let arrived = pending.arrived().await?;
        let arrived_ns = self.clock.now_ns();
        self.finish(Moments { begun_ns, waiting_ns, arrived_ns }, &arrived, take)
    }

    /// Prepares a run and submits it.
    pub(super) fn start(
        &mut self,
        (inputs, wanted): (&[Input<'_>], Wanted),
        tap: Option<&mut Vec<Command>>,
    ) -> Result<Started> {
        let begun_ns = self.clock.now_ns();
        self.prepare(inputs, wanted)?;
        let prepare_ns = self.clock.now_ns() - begun_ns;
        let launched = self.grids.iter().flatten().count();
        let most_downloaded_bytes = self.most_downloaded(wanted);
        let run = Run {
            params: slots(&mut self.params, 0..launched),
            grids: &self.grids,
            downloads: &self.downloads,
            most_downloaded_bytes,
            timestamps: self.timestamps,
            tap,
        };
        let Submitted { pending, stamps, encode_ns, submit_ns } = self.engine.submit(&self.plan, run)?;
        let host = HostTimes { prepare_ns, encode_ns, submit_ns, ..HostTimes::default() };
        let facts = RunFacts { mode: self.timestamps, start_ns: begun_ns, host };
        self.profiler.submitted(facts, stamps, || match self.timestamps {
            TimestampMode::Run => profiler::describe_passes(&self.plan, &self.live, &self.grids),
            _ => profiler::describe(&self.plan, &self.graph, &self.live, &self.grids),
        });
        Ok(Started { pending, begun_ns })
    }

    /// Checks inputs, infers shapes, fills params, and only then uploads.
    fn prepare(&mut self, inputs: &[Input<'_>], wanted: Wanted) -> Result<()> {
        span!("prepare");
        let known = &mut self.inputs;
        known.accept((&self.graph, &self.plan), inputs)?;
        for (input, dims) in self.graph.inputs.iter().zip(known.dims()) {
            self.live.set_dims(input.tensor, dims);
        }
        self.live.infer(&self.graph.nodes, |input| known.integers(input))?;
        self.resolve()?;
        for (index, input) in inputs.iter().enumerate() {
            if let (Some(buffer), Some(bytes)) = (self.input_buffer(index), self.inputs.device_bytes(index, input)) {
                self.engine.upload(buffer, bytes);
            }
        }
        self.plan_downloads(inputs, wanted);
        self.inputs.commit();
        Ok(())
    }

    /// The grid of every dispatch, and the params of those that are launched, from live shapes.
    fn resolve(&mut self) -> Result<()> {
        self.plan.choose(&self.graph, &self.live, &mut self.chosen)?;
        self.grids.clear();
        let mut launched = 0;
        for dispatch in self.plan.dispatches() {
            let is_chosen = dispatch.is_chosen(&self.chosen);
            // What is not launched leaves its slot to the next.
            let slot = slots(&mut self.params, launched..launched + 1);
            let workgroups = if is_chosen { dispatch.launch.resolve(&self.live, slot) } else { 0 };
            if workgroups == 0 {
                self.grids.push(None);
                continue;
            }
            let limit = self.plan.max_workgroups_per_dimension;
            let grid = Grid::fold(workgroups, limit).ok_or_else(|| Error::Limits {
                what: format!("kernel {}", self.plan.variant(dispatch.variant).label),
                needed: workgroups,
                unit: "workgroups",
                limit: u64::from(limit) * u64::from(limit),
                hint: String::new(),
            })?;
            self.grids.push(Some(grid));
            launched += 1;
        }
        Ok(())
    }

    fn plan_downloads(&mut self, inputs: &[Input<'_>], wanted: Wanted) {
        self.downloads.clear();
        let mut offset_bytes = 0;
        for (index, output) in self.graph.outputs.iter().enumerate() {
            let GraphOutput::Tensor { tensor, mutates_input, .. } = output else { continue };
            if mutates_input.is_some_and(|input| matches!(inputs[input], Input::Resident)) {
                continue;
            }
            let Some(buffer) = self.plan.tensor_buffers[tensor.index()] else { continue };
            let (dims, dtype) = (self.live.dims(*tensor), self.plan.dtype(*tensor));
            let all_bytes = dims.elements() * dtype.size_bytes() as u64;
            let (from_offset_bytes, size_bytes) = match wanted {
                Wanted::Outputs => (0, download_bytes(all_bytes)),
                Wanted::LastRowOf(output) if output == index => {
                    let row_bytes = row_bytes(dims, dtype);
                    (all_bytes - row_bytes, row_bytes)
                }
                Wanted::LastRowOf(_) => continue,
            };
            self.downloads.push(Download { output: index, buffer, from_offset_bytes, size_bytes, offset_bytes });
            offset_bytes += size_bytes;
        }
    }

    /// The most that a run brings to the host which wants the same.
    fn most_downloaded(&self, wanted: Wanted) -> u64 {
        let most = |(index, output): (usize, &GraphOutput)| match (output, wanted) {
            (GraphOutput::Tensor { tensor, .. }, Wanted::Outputs) => {
                download_bytes(self.plan.size_bytes(&self.graph, *tensor))
            }
            (GraphOutput::Tensor { tensor, .. }, Wanted::LastRowOf(output)) if output == index => {
                row_bytes(self.graph.tensor(*tensor).bound, self.plan.dtype(*tensor))
            }
            _ => 0,
        };
        self.graph.outputs.iter().enumerate().map(most).sum()
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn wait<T>(
        &mut self,
        Started { pending, begun_ns }: Started,
        take: impl FnOnce(Results<'_>) -> Result<T>,
    ) -> Result<T> {
        let waiting_ns = self.clock.now_ns();
        {
            span!("wait");
            pending.wait()?;
        }
        let arrived_ns = self.clock.now_ns();
        let arrived = pollster::block_on(pending.arrived())?;
        self.finish(Moments { begun_ns, waiting_ns, arrived_ns }, &arrived, take)
    }

    fn finish<T>(
        &mut self,
        moments: Moments,
        arrived: &Arrived,
        take: impl FnOnce(Results<'_>) -> Result<T>,
    ) -> Result<T> {
        let (graph, plan, live, downloads) = (&self.graph, &self.plan, &self.live, &self.downloads);
        let taken = arrived.read(|bytes| take(Results { graph, plan, live, downloads, bytes }));
        self.profiler.returned(moments, self.clock.now_ns())?;
        taken
    }

    fn input_buffer(&self, index: usize) -> Option<BufferId> {
        self.plan.tensor_buffers[self.graph.inputs[index].tensor.index()]
    }
}

/// The params slots of these launches.
fn slots(params: &mut [u8], launches: Range<usize>) -> &mut [u8] {
    const BYTES: usize = PARAMS_SLOT_BYTES as usize;
    &mut params[launches.start * BYTES..launches.end * BYTES]
}

/// Bytes along the last dimension.
fn row_bytes(dims: Dims, dtype: DType) -> u64 {
    u64::from(dims.as_slice().last().copied().unwrap_or(1)) * dtype.size_bytes() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{Gpu, GpuOptions, Place};
    use crate::graph::GraphBuilder;
    use crate::session::SessionOptions;
    use crate::tensor::TensorView;

    #[test]
    fn of_a_row_that_is_wanted_no_other_is_brought() {
        let mut graph = GraphBuilder::new("doubled, and squared");
        let x = graph.input(DType::F32, &[1, 4, 3]).unwrap();
        for out in [graph.add(x, x, 1.0).unwrap(), graph.mul(x, x).unwrap()] {
            graph.output(out);
        }
        let gpu = Gpu::open_blocking(&GpuOptions::default()).unwrap();
        let mut session = Session::new(&gpu, &graph.finish().unwrap(), SessionOptions::default()).unwrap();
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        // Three of four rows, then one, then all.
        for (rows, from_offset, wanted) in [(3, 24, [49.0, 64.0, 81.0]), (1, 0, [1.0, 4.0, 9.0])] {
            let x = TensorView::f32(&[1, rows, 3], &values[..rows as usize * 3]).unwrap();
            let mut commands = Vec::new();
            let run = session.start((&[Input::Host(x)], Wanted::LastRowOf(1)), Some(&mut commands)).unwrap();
            let row = session.wait(run, |results| results.row().map(<[u8]>::to_vec)).unwrap();
            assert_eq!(row, bytemuck::cast_slice::<f32, u8>(&wanted));
            let brought = commands.iter().filter_map(|command| match command {
                Command::Copy { from_offset, to: Place::Readback, size_bytes, .. } => Some((*from_offset, *size_bytes)),
                _ => None,
            });
            assert_eq!(brought.collect::<Vec<_>>(), [(from_offset, 12)]);
        }
        let outputs = session.run(&[Input::Host(TensorView::f32(&[1, 1, 3], &values[..3]).unwrap())]).unwrap();
        let outputs: Vec<_> = outputs.iter().map(|output| output.tensor().unwrap().to_f32().unwrap()).collect();
        assert_eq!(outputs, [[2.0, 4.0, 6.0], [1.0, 4.0, 9.0]]);
    }
}
