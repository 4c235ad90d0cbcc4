//! A method of a program on a device: built once, run step by step.

mod attention;
mod calibrate;
mod generator;
mod half;
mod inputs;
mod options;
mod outputs;
mod profiler;

pub use attention::{Attention, AttentionShape};
pub use calibrate::{WarmUp, calibrate_async, warm_up_async};
#[cfg(not(target_arch = "wasm32"))]
pub use calibrate::{calibrate, warm_up};
pub use generator::Generator;
pub use inputs::Input;
pub use options::SessionOptions;
pub use outputs::Output;

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::gpu::{Clock, Command, Download, Engine, EngineOptions, Gpu, Pending, Run, Submitted};
use crate::graph::{Fusion, Graph, GraphOutput, Live, Origin, TensorId};
use crate::kernels::Grid;
use crate::plan::{BufferId, DeviceFacts, Implementation, PARAMS_SLOT_BYTES, Plan, Role};
use crate::profile::{HostTimes, Profile, TimestampMode};
use crate::tensor::{DType, HostTensor};
use inputs::Inputs;
use profiler::{Moments, Profiler, RunFacts};

/// A method of a program, ready to run again and again.
///
/// Buffers, pipelines and bind groups are made by [`Session::new`]; a run writes inputs and params, encodes once and
/// submits once. Caches inside the graph keep their content from run to run until [`Session::reset`]. After an error
/// that is not [`Error::Gpu`] nothing has changed.
///
/// ```no_run
/// use torchlight::{Gpu, GpuOptions, Graph, Input, Program, Session, SessionOptions, TensorView};
///
/// let bytes = std::fs::read("model.pte")?;
/// let program = Program::parse(&bytes).map_err(torchlight::Error::from)?;
/// let graph = Graph::from_method(&program, "forward")?;
/// let gpu = Gpu::open_blocking(&GpuOptions::default())?;
/// let mut session = Session::new(&gpu, &graph, SessionOptions::from_env()?)?;
/// let x = TensorView::f32(&[2, 3], &[1.0; 6])?;
/// let outputs = session.run(&[Input::Host(x)])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Session {
    engine: Engine,
    plan: Plan,
    /// The graph without the bytes of its constants.
    graph: Graph<'static>,
    states: Vec<State>,
    inputs: Inputs,
    live: Live,
    params: Vec<u8>,
    grids: Vec<Option<Grid>>,
    downloads: Vec<Download>,
    /// How each node with alternatives is served in the latest run.
    chosen: Vec<Implementation>,
    timestamps: TimestampMode,
    notice: Option<String>,
    profiler: Profiler,
    clock: Clock,
}

/// A run under way.
struct Started {
    pending: Pending,
    begun_ns: f64,
}

/// A tensor that lives as long as the session.
#[derive(Debug)]
struct State {
    tensor: TensorId,
    buffer: BufferId,
    /// The program's bytes, or nothing where they are all zero.
    initial: Option<Vec<u8>>,
}

impl Session {
    /// Plans the graph for the device, makes buffers and pipelines, and uploads constants and caches.
    ///
    /// # Errors
    /// [`Error::Limits`] where the device cannot hold the plan, [`Error::Gpu`] where the driver refuses.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(gpu: &Gpu, graph: &Graph<'_>, options: SessionOptions) -> Result<Self> {
        pollster::block_on(Self::new_async(gpu, graph, options))
    }

    /// [`Session::new`] for executors and browsers.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub async fn new_async(gpu: &Gpu, graph: &Graph<'_>, options: SessionOptions) -> Result<Self> {
        let fused = match options.fusion {
            Fusion::On => Some(graph.clone().fused(gpu.facts().limits.largest_binding())),
            Fusion::Off => None,
        };
        let graph = fused.as_ref().unwrap_or(graph);
        let plan = Plan::new(graph, gpu.facts(), options.plan())?;
        let readback_bytes = graph.outputs.iter().map(|output| largest_download(graph, output)).sum();
        let engine = Engine::new(gpu, &plan, EngineOptions { readback_bytes, checks: options.checks }).await?;
        upload_constants(&engine, &plan, graph);
        let states = states(&plan, graph);
        let dispatches = plan.dispatches().count();
        let mut session = Self {
            engine,
            states,
            inputs: Inputs::new(graph),
            live: Live::new(graph),
            params: vec![0; dispatches * PARAMS_SLOT_BYTES as usize],
            grids: Vec::with_capacity(dispatches),
            downloads: Vec::with_capacity(graph.outputs.len()),
            chosen: Vec::with_capacity(plan.choices.len()),
            timestamps: TimestampMode::Off,
            notice: None,
            profiler: Profiler::new(gpu.facts(), options.profile_samples),
            clock: Clock::start(),
            graph: graph.without_constants(),
            plan,
        };
        session.upload_states();
        session.set_timestamps(options.timestamps);
        Ok(session)
    }

    /// Runs the program once and waits for its outputs, in the program's order.
    ///
    /// An output that is the new content of an input comes to the host only where that input came from it: a cache
    /// given as [`Input::Resident`] stays on the device, and is reported as [`Output::Resident`].
    ///
    /// # Errors
    /// Where the inputs are not what the program takes, or a position lies outside a cache: then nothing has changed.
    /// [`Error::Gpu`] where the device failed.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn run(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Output>> {
        span!("run");
        let run = self.start(inputs, None)?;
        self.wait(run)
    }

    /// [`Session::run`] for executors and browsers.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn run_async(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Output>> {
        let Started { pending, begun_ns } = self.start(inputs, None)?;
        let waiting_ns = self.clock.now_ns();
        let bytes = pending.bytes().await?;
        let arrived_ns = self.clock.now_ns();
        self.finish(Moments { begun_ns, waiting_ns, arrived_ns }, &bytes)
    }

    /// [`Session::run`], with every command that reached the device between the params write and the results.
    ///
    /// # Errors
    /// As [`Session::run`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn run_recorded(&mut self, inputs: &[Input<'_>]) -> Result<(Vec<Output>, Vec<Command>)> {
        let mut commands = Vec::new();
        let run = self.start(inputs, Some(&mut commands))?;
        Ok((self.wait(run)?, commands))
    }

    /// Puts the caches inside the graph back to the program's content, and forgets inputs left on the device.
    pub fn reset(&mut self) {
        self.upload_states();
        self.inputs.forget();
    }

    /// The caches inside the graph, as they are now: for each attention operator keys, then values.
    ///
    /// # Errors
    /// [`Error::Gpu`] where the device failed.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn read_states(&self) -> Result<Vec<HostTensor>> {
        let pending = self.start_read_states()?;
        pending.wait()?;
        self.finish_read_states(&pollster::block_on(pending.bytes())?)
    }

    /// [`Session::read_states`] for executors and browsers.
    ///
    /// # Errors
    /// As [`Session::read_states`].
    pub async fn read_states_async(&self) -> Result<Vec<HostTensor>> {
        self.finish_read_states(&self.start_read_states()?.bytes().await?)
    }

    /// Takes the profile of the runs since the last take. It can be taken at any time, and waits for nothing: a run
    /// whose stamps are still under way is in the next one.
    ///
    /// # Errors
    /// [`Error::Gpu`] where the device failed.
    pub fn take_profile(&mut self) -> Result<Profile> {
        self.engine.poll()?;
        self.profiler.take()
    }

    /// Gives the runs that follow a number of the caller's, as the step of a case: profiles carry it.
    pub fn set_step(&mut self, step: u64) {
        self.profiler.set_step(step);
    }

    /// Turns timestamps on or off for the runs that follow.
    ///
    /// Where the device does not offer the mode, the next best is used and [`Session::notice`] says so.
    pub fn set_timestamps(&mut self, wanted: TimestampMode) {
        let (mode, notice) = available_mode(wanted, self.engine.gpu().facts());
        (self.timestamps, self.notice) = (mode, notice);
    }

    /// The timestamp mode in use.
    pub fn timestamps(&self) -> TimestampMode {
        self.timestamps
    }

    /// Why the timestamp mode in use is not the one that was asked for.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The graph, without the bytes of its constants.
    pub fn graph(&self) -> &Graph<'static> {
        &self.graph
    }

    /// Prepares a run and submits it.
    fn start(&mut self, inputs: &[Input<'_>], tap: Option<&mut Vec<Command>>) -> Result<Started> {
        let begun_ns = self.clock.now_ns();
        self.prepare(inputs)?;
        let prepare_ns = self.clock.now_ns() - begun_ns;
        let run = Run {
            params: &self.params,
            grids: &self.grids,
            downloads: &self.downloads,
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
    fn prepare(&mut self, inputs: &[Input<'_>]) -> Result<()> {
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
        self.plan_downloads(inputs);
        self.inputs.commit();
        Ok(())
    }

    /// Params and grid of every dispatch, from live shapes.
    fn resolve(&mut self) -> Result<()> {
        self.plan.choose(&self.graph, &self.live, &mut self.chosen)?;
        self.grids.clear();
        let slots = self.params.chunks_exact_mut(PARAMS_SLOT_BYTES as usize);
        for (dispatch, slot) in self.plan.dispatches().zip(slots) {
            let is_chosen = dispatch.is_chosen(&self.chosen);
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
        }
        Ok(())
    }

    fn plan_downloads(&mut self, inputs: &[Input<'_>]) {
        self.downloads.clear();
        let mut offset_bytes = 0;
        for (index, output) in self.graph.outputs.iter().enumerate() {
            let GraphOutput::Tensor { tensor, mutates_input, .. } = output else { continue };
            if mutates_input.is_some_and(|input| matches!(inputs[input], Input::Resident)) {
                continue;
            }
            let Some(buffer) = self.plan.tensor_buffers[tensor.index()] else { continue };
            let dtype = self.plan.dtype(*tensor);
            let size_bytes = download_bytes(self.live.dims(*tensor).elements() * dtype.size_bytes() as u64);
            self.downloads.push(Download { output: index, buffer, size_bytes, offset_bytes });
            offset_bytes += size_bytes;
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn wait(&mut self, Started { pending, begun_ns }: Started) -> Result<Vec<Output>> {
        let waiting_ns = self.clock.now_ns();
        {
            span!("wait");
            pending.wait()?;
        }
        let arrived_ns = self.clock.now_ns();
        let bytes = pollster::block_on(pending.bytes())?;
        self.finish(Moments { begun_ns, waiting_ns, arrived_ns }, &bytes)
    }

    fn finish(&mut self, moments: Moments, bytes: &[u8]) -> Result<Vec<Output>> {
        let outputs = outputs::collect((&self.graph, &self.plan), &self.live, &self.downloads, bytes);
        self.profiler.returned(moments, self.clock.now_ns())?;
        outputs
    }

    fn upload_states(&mut self) {
        let zeros: Vec<BufferId> =
            self.states.iter().filter(|state| state.initial.is_none()).map(|state| state.buffer).collect();
        self.engine.clear(&zeros);
        for state in &self.states {
            if let Some(bytes) = &state.initial {
                self.engine.upload(state.buffer, bytes);
            }
        }
    }

    fn start_read_states(&self) -> Result<Pending> {
        let parts: Vec<(BufferId, u64)> = self
            .states
            .iter()
            .map(|state| (state.buffer, download_bytes(self.plan.size_bytes(&self.graph, state.tensor))))
            .collect();
        self.engine.read(&parts)
    }

    fn finish_read_states(&self, bytes: &[u8]) -> Result<Vec<HostTensor>> {
        let mut rest = bytes;
        let tensor = |state: &State| {
            let tensor = self.graph.tensor(state.tensor);
            let size_bytes = self.plan.size_bytes(&self.graph, state.tensor);
            let (content, others) = rest
                .split_at_checked(download_bytes(size_bytes) as usize)
                .ok_or_else(|| Error::Gpu(format!("{} bytes of caches arrived, which is too few", bytes.len())))?;
            rest = others;
            let content = &content[..size_bytes as usize];
            let content = match self.plan.dtype(state.tensor) {
                DType::F16 => half::widen(content),
                _ => content.to_vec(),
            };
            HostTensor::new(tensor.dtype, tensor.bound.as_slice(), content)
        };
        self.states.iter().map(tensor).collect()
    }

    fn input_buffer(&self, index: usize) -> Option<BufferId> {
        self.plan.tensor_buffers[self.graph.inputs[index].tensor.index()]
    }
}

/// Copies move multiples of 4 bytes.
fn download_bytes(size_bytes: u64) -> u64 {
    size_bytes.next_multiple_of(4)
}

fn largest_download(graph: &Graph<'_>, output: &GraphOutput) -> u64 {
    match output {
        GraphOutput::Tensor { tensor, .. } => download_bytes(graph.tensor(*tensor).size_bytes()),
        _ => 0,
    }
}

fn upload_constants(engine: &Engine, plan: &Plan, graph: &Graph<'_>) {
    for (index, buffer) in plan.buffers.iter().enumerate() {
        let Role::Constant(tensor) = buffer.role else { continue };
        let segments: Vec<&[u8]> = graph.tensor(tensor).segments().map(|(_, bytes)| bytes).collect();
        let bytes: Cow<'_, [u8]> = match segments[..] {
            [whole] => whole.into(),
            _ => segments.concat().into(),
        };
        match plan.dtype(tensor) {
            DType::F16 => engine.upload(BufferId(index as u32), &half::narrow(&bytes)),
            _ => engine.upload(BufferId(index as u32), &bytes),
        }
    }
}

fn states(plan: &Plan, graph: &Graph<'_>) -> Vec<State> {
    let state = |tensor: TensorId| {
        let buffer = plan.tensor_buffers[tensor.index()]?;
        let Origin::State(bytes) = graph.tensor(tensor).origin else { return None };
        let initial = bytes.iter().any(|&byte| byte != 0).then(|| match plan.dtype(tensor) {
            DType::F16 => half::narrow(bytes),
            _ => bytes.to_vec(),
        });
        Some(State { tensor, buffer, initial })
    };
    graph.states().into_iter().filter_map(state).collect()
}

/// The mode that a device offers for the one that is wanted, and what to say where they differ.
fn available_mode(wanted: TimestampMode, facts: &DeviceFacts) -> (TimestampMode, Option<String>) {
    let (pass, inside) = (facts.timestamps, facts.timestamps && facts.timestamps_inside_passes);
    match wanted {
        TimestampMode::Off => (TimestampMode::Off, None),
        TimestampMode::Pass | TimestampMode::Run if pass => (wanted, None),
        TimestampMode::Inside if inside => (TimestampMode::Inside, None),
        TimestampMode::Inside if pass => {
            let notice = format!("{} has no timestamps inside passes: using pass timestamps", facts.name);
            (TimestampMode::Pass, Some(notice))
        }
        TimestampMode::Pass | TimestampMode::Inside | TimestampMode::Run => {
            (TimestampMode::Off, Some(format!("{} has no timestamps: GPU times are not available", facts.name)))
        }
    }
}
