//! Adapters and devices: choosing one, opening it, or taking the caller's own.

use std::sync::{Arc, Mutex, PoisonError};

use super::clock::Clock;
use super::pipeline_cache::PipelineCache;
use super::pipelines::Cache;
use crate::error::{Error, Result};
use crate::plan::{DeviceFacts, DeviceLimits};

/// Which adapter to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdapterChoice {
    /// A discrete GPU before an integrated one, before a software adapter.
    #[default]
    Best,
    /// By position in [`Gpu::adapters`], or by a part of its name, in any case.
    Named(String),
}

/// Which limits to ask of the adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitsChoice {
    /// All that the adapter has.
    #[default]
    Adapter,
    /// WebGPU's defaults and no optional feature, as the most modest browser offers.
    WebGpuDefaults,
}

/// How to open a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// Which adapter.
    pub adapter: AdapterChoice,
    /// Which limits and features.
    pub limits: LimitsChoice,
    /// Whether to use what wgpu calls experimental where the adapter has it: cooperative matrices, on which attention is
    /// several times as fast. wgpu warns that such features may still have defects that are not safe.
    pub experimental: bool,
    /// What [`Gpu::pipeline_cache`] gave out before, so that the driver need not compile the same kernels again, or nothing
    /// (`Some` of no bytes) to begin with. `None` keeps no cache.
    ///
    /// Bytes of another adapter, driver or version, and damaged ones, are not used, and [`Gpu::notice`] says so. Whoever can
    /// write them can make the driver run what they like: keep them where only their owner writes.
    pub pipeline_cache: Option<Vec<u8>>,
}

/// What a device told outside of any call.
pub(super) type Mishap = Arc<Mutex<Option<String>>>;

/// An open device.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) pipelines: Arc<Cache>,
    facts: DeviceFacts,
    mishap: Mishap,
    notice: Option<String>,
}

impl Gpu {
    /// What each adapter of this machine offers, in the order in which [`AdapterChoice::Best`] prefers them.
    pub async fn adapters() -> Vec<DeviceFacts> {
        let facts = |adapter: &wgpu::Adapter| {
            let features = adapter.features() - unusable_features(adapter);
            facts(&adapter.get_info(), features, &adapter.limits(), None)
        };
        enumerate(&instance()).await.iter().map(facts).collect()
    }

    /// [`Self::adapters`], waited for.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn adapters_blocking() -> Vec<DeviceFacts> {
        pollster::block_on(Self::adapters())
    }

    /// Opens a device. Timestamps are asked for wherever they are offered.
    ///
    /// # Errors
    /// [`Error::Adapter`] where no adapter matches, [`Error::Gpu`] where the driver refuses.
    pub async fn open(options: &GpuOptions) -> Result<Self> {
        let adapters = enumerate(&instance()).await;
        let adapter = choose(&adapters, &options.adapter)?;
        let offered = adapter.features() - unusable_features(adapter);
        let (mut required_features, required_limits) = match options.limits {
            LimitsChoice::Adapter => (offered & wanted_features(), adapter.limits()),
            LimitsChoice::WebGpuDefaults => (wgpu::Features::empty(), wgpu::Limits::default()),
        };
        let mut experimental_features = wgpu::ExperimentalFeatures::disabled();
        if options.experimental && options.limits == LimitsChoice::Adapter {
            required_features |= offered & wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
            experimental_features = accept_experimental();
        }
        let pipeline_cache = match options.limits {
            LimitsChoice::Adapter => offered & wgpu::Features::PIPELINE_CACHE,
            LimitsChoice::WebGpuDefaults => wgpu::Features::empty(),
        };
        if options.pipeline_cache.is_some() {
            required_features |= pipeline_cache;
        }
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("torchlight"),
            required_features,
            required_limits,
            experimental_features,
            ..Default::default()
        };
        let (device, queue) = adapter
            .request_device(&descriptor)
            .await
            .map_err(|error| Error::Gpu(format!("{} refused a device: {error}", adapter.get_info().name)))?;
        let mut gpu = Self::with_info(device, queue, &adapter.get_info());
        let mishap = gpu.mishap.clone();
        gpu.device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| note(&mishap, error.to_string())));
        if let Some(sealed) = &options.pipeline_cache {
            gpu.open_pipeline_cache(sealed).await?;
        }
        Ok(gpu)
    }

    /// [`Self::open`], waited for.
    ///
    /// # Errors
    /// As [`Self::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_blocking(options: &GpuOptions) -> Result<Self> {
        pollster::block_on(Self::open(options))
    }

    /// Takes the caller's own device. Its features decide whether timestamps are available.
    pub fn from_device(device: wgpu::Device, queue: wgpu::Queue) -> Self {
        let info = device.adapter_info();
        Self::with_info(device, queue, &info)
    }

    /// A device of wgpu's noop back end with all features, which accepts all and does nothing: pipelines are validated without a driver.
    #[cfg(feature = "noop")]
    pub fn noop() -> Self {
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("torchlight noop"),
            required_features: wanted_features() | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX,
            required_limits: wgpu::Limits { max_compute_workgroup_storage_size: 49152, ..Default::default() },
            experimental_features: accept_experimental(),
            ..Default::default()
        };
        let (device, queue) = wgpu::Device::noop(&descriptor);
        Self::from_device(device, queue)
    }

    /// Waits until the device has done all that was submitted.
    ///
    /// # Errors
    /// [`Error::Gpu`] where the device is lost.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn wait(&self) -> Result<()> {
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        polled.map_err(|error| Error::Gpu(format!("waiting for the device: {error}")))?;
        self.check()
    }

    /// [`Self::wait`] for a run that may be done within a fraction of a millisecond, as the step of a model is: it asks a GPU again
    /// and again for that long, since it takes some 50 µs to wake a thread that sleeps. A CPU that plays GPU needs its cores.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn wait_awake(&self) -> Result<()> {
        const AWAKE_NS: f64 = 0.5e6;
        let clock = Clock::start();
        while !self.facts.is_cpu && clock.now_ns() < AWAKE_NS {
            let polled = self.device.poll(wgpu::PollType::Poll);
            let status = polled.map_err(|error| Error::Gpu(format!("waiting for the device: {error}")))?;
            if status.is_queue_empty() {
                return self.check();
            }
            std::hint::spin_loop();
        }
        self.wait()
    }

    /// What the driver compiled since the device was opened, and what it began with: bytes for
    /// [`GpuOptions::pipeline_cache`]. Nothing where that was `None`, or the back end keeps no cache: of wgpu's only Vulkan does.
    pub fn pipeline_cache(&self) -> Option<Vec<u8>> {
        self.pipelines.bytes()
    }

    /// Why the pipeline cache that was given is not used.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// What the device is and offers.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// The device.
    pub fn device(&self) -> &wgpu::Device {
        &self.device
    }

    /// The queue.
    pub fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    fn with_info(device: wgpu::Device, queue: wgpu::Queue, info: &wgpu::AdapterInfo) -> Self {
        let facts = facts(info, device.features(), &device.limits(), Some(queue.get_timestamp_period()));
        let mishap = Mishap::default();
        let lost = mishap.clone();
        device.set_device_lost_callback(move |reason, message| {
            note(&lost, format!("the device is lost ({reason:?}) {message}"));
        });
        Self { device, queue, pipelines: Arc::default(), facts, mishap, notice: None }
    }

    async fn open_pipeline_cache(&mut self, sealed: &[u8]) -> Result<()> {
        if !self.device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            let Self { facts, .. } = self;
            self.notice = Some(format!("no pipeline cache is kept on {} ({})", facts.name, facts.backend));
            return Ok(());
        }
        let (cache, notice) = PipelineCache::open(self, sealed).await?;
        (self.pipelines, self.notice) = (Arc::new(Cache::over(cache)), notice);
        Ok(())
    }

    /// Fails where the device told of a mishap since it was opened.
    pub(super) fn check(&self) -> Result<()> {
        match &*self.mishap.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(message) => Err(Error::Gpu(message.clone())),
            None => Ok(()),
        }
    }
}

/// Keeps the first mishap: later ones follow from it.
fn note(mishap: &Mishap, message: String) {
    mishap.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
}

fn instance() -> wgpu::Instance {
    wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle())
}

/// The features that Torchlight uses where they are offered.
fn wanted_features() -> wgpu::Features {
    wgpu::Features::TIMESTAMP_QUERY
        | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS
        | wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES
        | wgpu::Features::SHADER_F16
        | wgpu::Features::SUBGROUP
        | wgpu::Features::SUBGROUP_BARRIER
}

/// Features that an adapter lists and that Torchlight cannot use: its kernels multiply matrices of 16 x 16 halves.
fn unusable_features(adapter: &wgpu::Adapter) -> wgpu::Features {
    use wgpu::CooperativeScalarType::{F16, F32};
    let fits = |shape: &wgpu::CooperativeMatrixProperties, result| {
        [shape.m_size, shape.n_size, shape.k_size] == [16; 3] && shape.ab_type == F16 && shape.cr_type == result
    };
    let shapes = adapter.cooperative_matrix_properties();
    let usable = [F16, F32].iter().all(|&result| shapes.iter().any(|shape| fits(shape, result)));
    if usable { wgpu::Features::empty() } else { wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX }
}

#[allow(unsafe_code, reason = "wgpu makes accepting experimental features unsafe")]
fn accept_experimental() -> wgpu::ExperimentalFeatures {
    // SAFETY: the caller asked for it in GpuOptions, whose documentation passes wgpu's warning on. Kernels reach
    // cooperative matrices only through the bounds that their WGSL argues for, as all their memory.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

async fn enumerate(instance: &wgpu::Instance) -> Vec<wgpu::Adapter> {
    let mut adapters = instance.enumerate_adapters(wgpu::Backends::all()).await;
    adapters.sort_by_key(|adapter| match adapter.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    });
    adapters
}

fn choose<'a>(adapters: &'a [wgpu::Adapter], choice: &AdapterChoice) -> Result<&'a wgpu::Adapter> {
    let Some(best) = adapters.first() else {
        return Err(Error::Adapter(
            "no GPU adapter: install a Vulkan driver, or a software one (Debian and Ubuntu: apt-get install \
             mesa-vulkan-drivers libvulkan1)"
                .into(),
        ));
    };
    let AdapterChoice::Named(wanted) = choice else { return Ok(best) };
    let by_index = wanted.parse::<usize>().ok().and_then(|index| adapters.get(index));
    let matches = |adapter: &&wgpu::Adapter| adapter.get_info().name.to_lowercase().contains(&wanted.to_lowercase());
    by_index.or_else(|| adapters.iter().find(matches)).ok_or_else(|| {
        let names: Vec<String> = adapters
            .iter()
            .enumerate()
            .map(|(index, adapter)| format!("{index}: {}", adapter.get_info().name))
            .collect();
        Error::Adapter(format!("no adapter matches {wanted:?}; there are: {}", names.join(", ")))
    })
}

fn facts(
    info: &wgpu::AdapterInfo,
    features: wgpu::Features,
    limits: &wgpu::Limits,
    period: Option<f32>,
) -> DeviceFacts {
    let has = |feature| features.contains(feature);
    DeviceFacts {
        name: info.name.clone(),
        backend: info.backend.to_string(),
        driver: [info.driver.as_str(), info.driver_info.as_str()].join(" ").trim().to_owned(),
        is_cpu: info.device_type == wgpu::DeviceType::Cpu,
        limits: DeviceLimits {
            max_buffer_size: limits.max_buffer_size,
            max_storage_buffer_binding_size: limits.max_storage_buffer_binding_size,
            max_compute_workgroups_per_dimension: limits.max_compute_workgroups_per_dimension,
            max_compute_workgroup_storage_size: limits.max_compute_workgroup_storage_size,
            max_compute_invocations_per_workgroup: limits.max_compute_invocations_per_workgroup,
        },
        timestamps: has(wgpu::Features::TIMESTAMP_QUERY),
        timestamps_inside_passes: has(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES),
        timestamp_period_ns: period.map(f64::from),
        shader_f16: has(wgpu::Features::SHADER_F16),
        // Kernels that use subgroups also wait for one: a barrier of its own, which browsers do not have.
        subgroup_sizes: has(wgpu::Features::SUBGROUP | wgpu::Features::SUBGROUP_BARRIER)
            .then_some([info.subgroup_min_size, info.subgroup_max_size]),
        cooperative_matrix: has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX),
    }
}
