//! A method of a program on a device: built once, run step by step.

mod attention;
mod calibrate;
mod constants;
mod generator;
mod half;
mod inputs;
mod loading;
mod options;
mod outputs;
mod profiler;
mod states;
mod step;

pub use attention::{Attention, AttentionShape};
pub use calibrate::{WarmUp, calibrate_async, warm_up_async};
#[cfg(not(target_arch = "wasm32"))]
pub use calibrate::{calibrate, warm_up};
pub use generator::Generator;
pub use inputs::Input;
pub use loading::Loading;
pub use options::SessionOptions;
pub use outputs::Output;

use crate::error::Result;
use crate::gpu::{Clock, Download, Engine, Gpu};
use crate::graph::{Fusion, Graph, Live};
use crate::kernels::Grid;
use crate::plan::{DeviceFacts, Implementation, PARAMS_SLOT_BYTES, Plan};
use crate::profile::{Profile, TimestampMode};
use inputs::Inputs;
use outputs::Wanted;
use profiler::Profiler;
use states::{State, clear_zeros, states};

/// A method of a program, ready to run again and again.
///
/// Buffers, pipelines and bind groups are made by [`Session::new`]; a run writes inputs and params, encodes once and
/// submits, a long run in parts. Caches inside the graph keep their content from run to run until [`Session::reset`].
/// After an error that is not [`Error::Gpu`](crate::Error::Gpu) nothing has changed.
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

impl Session {
    /// Plans the graph for the device, makes buffers and pipelines, and uploads constants and caches.
    ///
    /// # Errors
    /// [`Error::Limits`](crate::Error::Limits) where the device cannot hold the plan,
    /// [`Error::Gpu`](crate::Error::Gpu) where the driver refuses.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(gpu: &Gpu, graph: &Graph<'_>, options: SessionOptions) -> Result<Self> {
        pollster::block_on(Self::new_async(gpu, graph, options))
    }

    /// [`Session::new`] for executors and browsers.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub async fn new_async(gpu: &Gpu, graph: &Graph<'_>, options: SessionOptions) -> Result<Self> {
        Self::new_with_progress_async(gpu, graph, options, |_| {}).await
    }

    /// [`Session::new`], which tells how far it has come: models take seconds.
    ///
    /// Constants are uploaded in pieces, of which a few MiB are under way at a time: besides the program's bytes, which
    /// may be a mapping, no copy of them lies in the host's memory.
    ///
    /// # Errors
    /// As [`Session::new`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new_with_progress(
        gpu: &Gpu,
        graph: &Graph<'_>,
        options: SessionOptions,
        progress: impl FnMut(Loading),
    ) -> Result<Self> {
        pollster::block_on(Self::new_with_progress_async(gpu, graph, options, progress))
    }

    /// [`Session::new_with_progress`] for executors and browsers.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub async fn new_with_progress_async(
        gpu: &Gpu,
        graph: &Graph<'_>,
        options: SessionOptions,
        mut progress: impl FnMut(Loading),
    ) -> Result<Self> {
        let fused = match options.fusion {
            Fusion::On => Some(graph.clone().fused(gpu.facts().limits.largest_binding())),
            Fusion::Off => None,
        };
        let graph = fused.as_ref().unwrap_or(graph);
        let plan = Plan::new(graph, gpu.facts(), options.plan())?;
        progress(Loading::Planned);
        let all = plan.variants.len();
        let compiled = |pipelines| progress(Loading::Compiled { pipelines, all });
        gpu.compiled(&plan.variants, options.checks, compiled).await?;
        let engine = Engine::new(gpu, &plan, options.checks).await?;
        let states = states(&plan, graph);
        clear_zeros(&engine, &states);
        constants::upload(&engine, (&plan, graph, &states), &mut progress).await?;
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
    /// [`Error::Gpu`](crate::Error::Gpu) where the device failed.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn run(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Output>> {
        self.step((inputs, Wanted::Outputs), |results| results.outputs())
    }

    /// [`Session::run`] for executors and browsers.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn run_async(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Output>> {
        self.step_async((inputs, Wanted::Outputs), |results| results.outputs()).await
    }

    /// [`Session::run`], with every command that reached the device between the params write and the results.
    ///
    /// # Errors
    /// As [`Session::run`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn run_recorded(&mut self, inputs: &[Input<'_>]) -> Result<(Vec<Output>, Vec<crate::gpu::Command>)> {
        let mut commands = Vec::new();
        let run = self.start((inputs, Wanted::Outputs), Some(&mut commands))?;
        Ok((self.wait(run, |results| results.outputs())?, commands))
    }

    /// Puts the caches inside the graph back to the program's content, and forgets inputs left on the device.
    pub fn reset(&mut self) {
        self.reset_states();
        self.inputs.forget();
    }

    /// Takes the profile of the runs since the last take. It can be taken at any time, and waits for nothing: a run
    /// whose stamps are still under way is in the next one.
    ///
    /// # Errors
    /// [`Error::Gpu`](crate::Error::Gpu) where the device failed.
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

    /// The graph as it runs: with its operators fused, where they are, and without the bytes of its constants.
    pub fn graph(&self) -> &Graph<'static> {
        &self.graph
    }
}

/// Copies move multiples of 4 bytes.
fn download_bytes(size_bytes: u64) -> u64 {
    size_bytes.next_multiple_of(4)
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
