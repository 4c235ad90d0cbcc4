//! The buffers, pipelines and bind groups of one plan on one device, and how its commands reach the queue.

use super::adapter::Gpu;
use super::clock::Clock;
use super::command::{Command, Place, Sink};
use super::encode::{Download, encode, query_pairs};
use super::pipelines::{self, BoundsChecks, Pipeline};
use super::readback::Mapped;
use super::timestamps::{Queries, Ring, Stamps};
use crate::error::{Error, Result};
use crate::kernels::Grid;
use crate::plan::{BufferId, PARAMS_SLOT_BYTES, Plan};
use crate::profile::TimestampMode;

/// A plan made real.
#[derive(Debug)]
pub(crate) struct Engine {
    gpu: Gpu,
    buffers: Vec<wgpu::Buffer>,
    params: wgpu::Buffer,
    pipelines: Vec<Pipeline>,
    bind_groups: Vec<wgpu::BindGroup>,
    readback: wgpu::Buffer,
    ring: Ring,
}

/// How an engine is made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EngineOptions {
    /// The most that a run downloads.
    pub(crate) readback_bytes: u64,
    /// Which kernels the compiler checks the bounds of.
    pub(crate) checks: BoundsChecks,
}

/// One run: what varies from run to run.
#[derive(Debug)]
pub(crate) struct Run<'r> {
    /// The params slots of all dispatches.
    pub(crate) params: &'r [u8],
    /// One grid a dispatch, or nothing where it has nothing to do.
    pub(crate) grids: &'r [Option<Grid>],
    /// What to bring to the host.
    pub(crate) downloads: &'r [Download],
    /// Where timestamps are taken.
    pub(crate) timestamps: TimestampMode,
    /// Takes a copy of every command that reaches the device.
    pub(crate) tap: Option<&'r mut Vec<Command>>,
}

/// A run that was submitted.
#[derive(Debug)]
pub(crate) struct Submitted {
    /// Its results.
    pub(crate) pending: Pending,
    /// Its stamps, where it is timed.
    pub(crate) stamps: Option<Stamps>,
    /// Nanoseconds it took to record the commands.
    pub(crate) encode_ns: f64,
    /// Nanoseconds it took to hand them to the queue.
    pub(crate) submit_ns: f64,
}

/// Results under way.
#[must_use = "a run's results arrive when this is awaited"]
#[derive(Debug)]
pub(crate) struct Pending {
    gpu: Gpu,
    outputs: Option<Mapped>,
    rejected: Rejected,
}

impl Engine {
    /// Makes buffers, pipelines and bind groups.
    pub(crate) async fn new(gpu: &Gpu, plan: &Plan, options: EngineOptions) -> Result<Self> {
        gpu.check()?;
        let memory = Scope::open(gpu, wgpu::ErrorFilter::OutOfMemory);
        let validation = Scope::open(gpu, wgpu::ErrorFilter::Validation);
        let device = &gpu.device;
        let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffer = |label: &str, size: u64, usage| {
            let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
            device.create_buffer(&descriptor)
        };
        let buffers: Vec<wgpu::Buffer> =
            plan.buffers.iter().map(|planned| buffer("tensor", planned.size_bytes, storage)).collect();
        let slots = plan.dispatches().count().max(1) as u64;
        let uniform = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let params = buffer("params", slots * u64::from(PARAMS_SLOT_BYTES), uniform);
        let map_read = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let readback = buffer("readback", options.readback_bytes.max(16), map_read);
        let pipelines = gpu.pipelines.pipelines(device, &plan.variants, options.checks);
        let bind_groups = plan
            .dispatches()
            .map(|dispatch| pipelines::bind_group(device, (plan, &pipelines), (&params, &buffers), dispatch))
            .collect();
        let (validation, memory) = (validation.close(), memory.close());
        validation.check("building a session").await?;
        memory.check("building a session").await?;
        gpu.pipelines.keep(&plan.variants, options.checks, &pipelines);
        Ok(Self { gpu: gpu.clone(), buffers, params, pipelines, bind_groups, readback, ring: Ring::default() })
    }

    /// The device it lives on.
    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Writes the start of a buffer before the next run.
    pub(crate) fn upload(&self, buffer: BufferId, bytes: &[u8]) {
        const ALIGNMENT: usize = wgpu::COPY_BUFFER_ALIGNMENT as usize;
        let buffer = &self.buffers[buffer.index()];
        let (whole, rest) = bytes.split_at(bytes.len() / ALIGNMENT * ALIGNMENT);
        if !whole.is_empty() {
            self.gpu.queue.write_buffer(buffer, 0, whole);
        }
        if !rest.is_empty() {
            let mut last = [0; ALIGNMENT];
            last[..rest.len()].copy_from_slice(rest);
            self.gpu.queue.write_buffer(buffer, whole.len() as u64, &last);
        }
    }

    /// Encodes and submits a run: one params write, one encode loop, and a submit for each of its parts.
    ///
    /// It is not timed where the ring has no free place for its stamps.
    pub(crate) fn submit(&mut self, plan: &Plan, run: Run<'_>) -> Result<Submitted> {
        self.gpu.check()?;
        let clock = Clock::start();
        let scope = Scope::open(&self.gpu, wgpu::ErrorFilter::Validation);
        let pairs = query_pairs(plan, run.grids, run.timestamps);
        // A place of the ring serves every run: it is made for the most that a run can have.
        let most = run.grids.len() as u32;
        let queries = if pairs > 0 { self.ring.free(&self.gpu.device, most) } else { None };
        let timestamps = if queries.is_some() { run.timestamps } else { TimestampMode::Off };
        if !run.params.is_empty() {
            self.gpu.queue.write_buffer(&self.params, 0, run.params);
        }
        span!("encode");
        let mut encoder = Encoder::new(self, queries.as_deref(), run.tap);
        encode(plan, run.grids, run.downloads, timestamps, &mut encoder);
        let submit_ns = encoder.submit_ns;
        let rejected = scope.close();
        let device = &self.gpu.device;
        let size = run.downloads.iter().map(|download| download.offset_bytes + download.size_bytes).max();
        let outputs = size.map(|size| Mapped::new(device, &self.readback, size));
        let stamps = queries.map(|place| Stamps::new(device, place, pairs));
        let pending = Pending { gpu: self.gpu.clone(), outputs, rejected };
        Ok(Submitted { pending, stamps, encode_ns: clock.now_ns() - submit_ns, submit_ns })
    }

    /// Lets the device call back for what has arrived, without waiting.
    pub(crate) fn poll(&self) -> Result<()> {
        let polled = self.gpu.device.poll(wgpu::PollType::Poll);
        polled.map(drop).map_err(|error| Error::Gpu(format!("asking for results: {error}")))
    }

    /// Fills whole buffers with zeros.
    pub(crate) fn clear(&self, buffers: &[BufferId]) {
        let mut encoder = new_encoder(&self.gpu);
        for buffer in buffers {
            encoder.clear_buffer(&self.buffers[buffer.index()], 0, None);
        }
        self.gpu.queue.submit([encoder.finish()]);
    }

    /// Reads the start of buffers, outside of any run.
    pub(crate) fn read(&self, parts: &[(BufferId, u64)]) -> Result<Pending> {
        self.gpu.check()?;
        let scope = Scope::open(&self.gpu, wgpu::ErrorFilter::Validation);
        let size = parts.iter().map(|(_, size_bytes)| size_bytes).sum();
        let readback = self.gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("state readback"),
            size,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = new_encoder(&self.gpu);
        let mut offset = 0;
        for &(buffer, size_bytes) in parts {
            encoder.copy_buffer_to_buffer(&self.buffers[buffer.index()], 0, &readback, offset, size_bytes);
            offset += size_bytes;
        }
        self.gpu.queue.submit([encoder.finish()]);
        let rejected = scope.close();
        let outputs = (size > 0).then(|| Mapped::new(&self.gpu.device, &readback, size));
        Ok(Pending { gpu: self.gpu.clone(), outputs, rejected })
    }
}

impl Pending {
    /// Waits until the device is done, so that awaiting does not have to poll.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn wait(&self) -> Result<()> {
        if self.outputs.is_none() {
            return Ok(());
        }
        self.gpu.wait()
    }

    /// The bytes of the downloads, when they have arrived.
    pub(crate) async fn bytes(self) -> Result<Vec<u8>> {
        self.rejected.check("a run").await?;
        let bytes = match self.outputs {
            Some(outputs) => outputs.bytes().await?,
            None => Vec::new(),
        };
        self.gpu.check()?;
        Ok(bytes)
    }
}

/// The sink that is the device.
struct Encoder<'e> {
    engine: &'e Engine,
    queries: Option<&'e Queries>,
    /// Of the part that is being encoded, once it has a command.
    encoder: Option<wgpu::CommandEncoder>,
    pass: Option<wgpu::ComputePass<'static>>,
    tap: Option<&'e mut Vec<Command>>,
    submit_ns: f64,
}

impl<'e> Encoder<'e> {
    fn new(engine: &'e Engine, queries: Option<&'e Queries>, tap: Option<&'e mut Vec<Command>>) -> Self {
        Self { engine, queries, encoder: None, pass: None, tap, submit_ns: 0.0 }
    }

    fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
        self.encoder.get_or_insert_with(|| new_encoder(&self.engine.gpu))
    }

    fn place(&self, place: Place) -> Option<&'e wgpu::Buffer> {
        match place {
            Place::Plan(buffer) => self.engine.buffers.get(buffer.index()),
            Place::Readback => Some(&self.engine.readback),
            Place::Queries => self.queries.map(|queries| &queries.resolve),
            Place::QueryReadback => self.queries.map(|queries| &queries.readback),
        }
    }

    fn submit(&mut self) {
        span!("submit");
        let clock = Clock::start();
        self.pass = None;
        // A submission without commands still hands over what was written to buffers.
        self.engine.gpu.queue.submit(self.encoder.take().map(wgpu::CommandEncoder::finish));
        self.submit_ns += clock.now_ns();
    }

    fn begin_pass(&mut self, timestamps: Option<super::command::QueryPair>) {
        let timestamp_writes = timestamps.zip(self.queries).map(|(pair, queries)| wgpu::ComputePassTimestampWrites {
            query_set: &queries.sets[pair.set as usize],
            beginning_of_pass_write_index: Some(pair.begin),
            end_of_pass_write_index: Some(pair.begin + 1),
        });
        let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
        self.pass = Some(self.encoder().begin_compute_pass(&descriptor).forget_lifetime());
    }
}

impl Sink for Encoder<'_> {
    fn push(&mut self, command: Command) {
        match (&command, &mut self.pass) {
            (Command::BeginPass { timestamps }, _) => self.begin_pass(*timestamps),
            (Command::SetPipeline(variant), Some(pass)) => {
                pass.set_pipeline(&self.engine.pipelines[variant.index()].pipeline);
            }
            (Command::SetBindGroup { dispatch, params_offset }, Some(pass)) => {
                pass.set_bind_group(0, &self.engine.bind_groups[*dispatch as usize], &[*params_offset]);
            }
            (Command::WriteTimestamp { set, query }, Some(pass)) => {
                if let Some(queries) = self.queries {
                    pass.write_timestamp(&queries.sets[*set as usize], *query);
                }
            }
            (Command::Dispatch { x, y }, Some(pass)) => pass.dispatch_workgroups(*x, *y, 1),
            (Command::EndPass, _) => self.pass = None,
            (Command::Resolve { set, queries, offset_bytes }, _) => {
                if let Some(owned) = self.queries {
                    let set = &owned.sets[*set as usize];
                    self.encoder().resolve_query_set(set, queries.clone(), &owned.resolve, *offset_bytes);
                }
            }
            (Command::Copy { from, from_offset, to, to_offset, size_bytes }, _) => {
                let (from, to) = (self.place(*from), self.place(*to));
                if let (Some(from), Some(to)) = (from, to) {
                    self.encoder().copy_buffer_to_buffer(from, *from_offset, to, *to_offset, *size_bytes);
                }
            }
            (Command::Submit, _) => self.submit(),
            // The encode loop opens a pass before it sends these.
            (
                Command::SetPipeline(_)
                | Command::SetBindGroup { .. }
                | Command::WriteTimestamp { .. }
                | Command::Dispatch { .. },
                None,
            ) => {}
        }
        if let Some(tap) = &mut self.tap {
            tap.push(command);
        }
    }
}

fn new_encoder(gpu: &Gpu) -> wgpu::CommandEncoder {
    gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("run") })
}

/// An open error scope. It must be closed on the thread that opened it: wgpu keeps scopes a thread.
pub(super) struct Scope(wgpu::ErrorScopeGuard);

/// What a closed scope caught, when it is known.
pub(super) struct Rejected(std::pin::Pin<Box<dyn PendingError>>);

#[cfg(not(target_arch = "wasm32"))]
trait PendingError: Future<Output = Option<wgpu::Error>> + Send {}
#[cfg(not(target_arch = "wasm32"))]
impl<F: Future<Output = Option<wgpu::Error>> + Send> PendingError for F {}
#[cfg(target_arch = "wasm32")]
trait PendingError: Future<Output = Option<wgpu::Error>> {}
#[cfg(target_arch = "wasm32")]
impl<F: Future<Output = Option<wgpu::Error>>> PendingError for F {}

impl std::fmt::Debug for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rejected")
    }
}

impl Scope {
    pub(super) fn open(gpu: &Gpu, filter: wgpu::ErrorFilter) -> Self {
        Self(gpu.device.push_error_scope(filter))
    }

    pub(super) fn close(self) -> Rejected {
        Rejected(Box::pin(self.0.pop()))
    }
}

impl Rejected {
    pub(super) async fn check(self, what: &str) -> Result<()> {
        match self.0.await {
            None => Ok(()),
            Some(error) => Err(Error::Gpu(format!("{what} was rejected: {error}"))),
        }
    }
}
