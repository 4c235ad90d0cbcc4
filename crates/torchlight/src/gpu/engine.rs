//! The buffers, pipelines and bind groups of one plan on one device, and how its commands reach the queue.

use super::adapter::Gpu;
use super::clock::Clock;
use super::command::{Command, Place};
use super::encode::{Download, encode, query_pairs};
use super::encoder::{Encoder, new_encoder};
use super::pending::Pending;
use super::pipelines::{self, BoundsChecks, Pipeline};
use super::readback::Mapped;
use super::scope::Scopes;
use super::timestamps::{Queries, Ring, Stamps};
use super::upload::EngineUploads;
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
    pub(super) pipelines: Vec<Pipeline>,
    pub(super) bind_groups: Vec<wgpu::BindGroup>,
    /// Made by the first run that downloads: what all runs together want is known only then.
    readback: Option<wgpu::Buffer>,
    ring: Ring,
}

/// One run: what varies from run to run.
#[derive(Debug)]
pub(crate) struct Run<'r> {
    /// The params slots of what is launched, in order.
    pub(crate) params: &'r [u8],
    /// One grid a dispatch, or nothing where it has nothing to do.
    pub(crate) grids: &'r [Option<Grid>],
    /// What to bring to the host.
    pub(crate) downloads: &'r [Download],
    /// The most that a run brings which wants the same.
    pub(crate) most_downloaded_bytes: u64,
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

impl Engine {
    /// Makes buffers, pipelines and bind groups.
    pub(crate) async fn new(gpu: &Gpu, plan: &Plan, checks: BoundsChecks) -> Result<Self> {
        gpu.check()?;
        let pipelines = gpu.compiled(&plan.variants, checks, |_| {}).await?;
        let scopes = Scopes::open(gpu);
        let device = &gpu.device;
        let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffer = |label, size, usage| new_buffer(device, label, size, usage);
        let buffers: Vec<wgpu::Buffer> =
            plan.buffers.iter().map(|planned| buffer("tensor", planned.size_bytes, storage)).collect();
        let slots = plan.dispatches().count().max(1) as u64;
        let uniform = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let params = buffer("params", slots * u64::from(PARAMS_SLOT_BYTES), uniform);
        let bind_groups = plan
            .dispatches()
            .map(|dispatch| pipelines::bind_group(device, (plan, &pipelines), (&params, &buffers), dispatch))
            .collect();
        scopes.close().check("building a session").await?;
        let (readback, ring) = (None, Ring::default());
        Ok(Self { gpu: gpu.clone(), buffers, params, pipelines, bind_groups, readback, ring })
    }

    /// The device it lives on.
    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Writes the start of a buffer before the next run.
    pub(crate) fn upload(&self, buffer: BufferId, bytes: &[u8]) {
        self.write((buffer, 0), bytes);
    }

    /// Uploads of which little is staged at once.
    pub(crate) fn uploads(&self) -> EngineUploads<'_> {
        EngineUploads::new(self)
    }

    /// Writes a part of a buffer before the next submission. The rest of its last four bytes becomes zero.
    pub(super) fn write(&self, (buffer, offset_bytes): (BufferId, u64), bytes: &[u8]) {
        const ALIGNMENT: usize = wgpu::COPY_BUFFER_ALIGNMENT as usize;
        let buffer = &self.buffers[buffer.index()];
        let (whole, rest) = bytes.split_at(bytes.len() / ALIGNMENT * ALIGNMENT);
        if !whole.is_empty() {
            self.gpu.queue.write_buffer(buffer, offset_bytes, whole);
        }
        if !rest.is_empty() {
            let mut last = [0; ALIGNMENT];
            last[..rest.len()].copy_from_slice(rest);
            self.gpu.queue.write_buffer(buffer, offset_bytes + whole.len() as u64, &last);
        }
    }

    /// Encodes and submits a run: one params write, one encode loop, and a submit for each of its parts.
    ///
    /// It is not timed where the ring has no free place for its stamps.
    pub(crate) fn submit(&mut self, plan: &Plan, run: Run<'_>) -> Result<Submitted> {
        self.gpu.check()?;
        let clock = Clock::start();
        let scopes = Scopes::open(&self.gpu);
        let pairs = query_pairs(plan, run.grids, run.timestamps);
        // A place of the ring serves every run: it is made for the most that a run can have.
        let most = run.grids.len() as u32;
        let queries = if pairs > 0 { self.ring.free(&self.gpu.device, most) } else { None };
        let timestamps = if queries.is_some() { run.timestamps } else { TimestampMode::Off };
        if !run.params.is_empty() {
            self.gpu.queue.write_buffer(&self.params, 0, run.params);
        }
        self.reserve_readback(run.most_downloaded_bytes);
        span!("encode");
        let mut encoder = Encoder::new(self, queries.as_deref(), run.tap);
        encode(plan, run.grids, run.downloads, timestamps, &mut encoder);
        let submit_ns = encoder.submit_ns;
        let rejected = scopes.close();
        let device = &self.gpu.device;
        let size = run.downloads.iter().map(|download| download.offset_bytes + download.size_bytes).max();
        let outputs = size.zip(self.readback.as_ref()).map(|(size, readback)| Mapped::new(device, readback, size));
        let stamps = queries.map(|place| Stamps::new(device, place, pairs));
        let pending = Pending::new(&self.gpu, outputs, rejected);
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
        let scopes = Scopes::open(&self.gpu);
        let size = parts.iter().map(|(_, size_bytes)| size_bytes).sum();
        let readback = new_readback(&self.gpu.device, "state readback", size);
        let mut encoder = new_encoder(&self.gpu);
        let mut offset = 0;
        for &(buffer, size_bytes) in parts {
            encoder.copy_buffer_to_buffer(&self.buffers[buffer.index()], 0, &readback, offset, size_bytes);
            offset += size_bytes;
        }
        self.gpu.queue.submit([encoder.finish()]);
        let rejected = scopes.close();
        let outputs = (size > 0).then(|| Mapped::new(&self.gpu.device, &readback, size));
        Ok(Pending::new(&self.gpu, outputs, rejected))
    }

    /// The buffer of a place in a command; `queries` are those of its run.
    pub(super) fn place<'e>(&'e self, place: Place, queries: Option<&'e Queries>) -> Option<&'e wgpu::Buffer> {
        match place {
            Place::Plan(buffer) => self.buffers.get(buffer.index()),
            Place::Readback => self.readback.as_ref(),
            Place::Queries => queries.map(|queries| &queries.resolve),
            Place::QueryReadback => queries.map(|queries| &queries.readback),
        }
    }

    /// Makes the buffer that downloads go through, where there is none that is large enough.
    fn reserve_readback(&mut self, size_bytes: u64) {
        let has = self.readback.as_ref().map_or(0, wgpu::Buffer::size);
        if size_bytes > has {
            self.readback = Some(new_readback(&self.gpu.device, "readback", size_bytes));
        }
    }
}

fn new_readback(device: &wgpu::Device, label: &str, size_bytes: u64) -> wgpu::Buffer {
    new_buffer(device, label, size_bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST)
}

fn new_buffer(device: &wgpu::Device, label: &str, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false })
}
