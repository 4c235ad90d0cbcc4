//! What a device was measured to do: the ceilings that kernels are held against.

use crate::error::{Error, Result};
use crate::gpu::{BoundsChecks, Clock, Download, Engine, Gpu, Run, Submitted};
use crate::kernels::calibrate_fma::Real;
use crate::kernels::{Grid, Variant, Work, calibrate_copy, calibrate_fma, calibrate_matrix};
use crate::plan::{BufferId, BufferPlan, Dispatch, Launch, PARAMS_SLOT_BYTES, Plan, Role, Step, VariantId};
use crate::profile::{Peaks, TimestampMode};

/// The most bytes that the copy reads: several times any cache.
const COPY_BYTES: u64 = 1 << 30;
/// The same for a software adapter, whose memory is slow and whose caches are small.
const COPY_BYTES_CPU: u64 = 1 << 26;
/// How long a kernel is repeated at most. Clocks rise only under load, and some take a second.
const BUDGET_NS: f64 = 1.5e9;
/// The same for a software adapter, whose clock does not wait for work.
const BUDGET_NS_CPU: f64 = 0.5e9;
/// Runs without a faster one that end it sooner. The fastest counts: what disturbs a run only makes it slower.
const SETTLED_AFTER: usize = 300;

/// A kernel with fixed work.
struct Probe {
    variant: Variant,
    launch: Launch,
    buffer_bytes: u64,
    work: Work,
}

/// Measures a device. It takes up to six seconds, and as much memory as the largest binding twice, at most 2 GiB.
///
/// Times are GPU timestamps at begin and end of a pass where the device has them, else the host's clock around a run.
///
/// # Errors
/// [`Error::Gpu`] where the device failed.
#[cfg(not(target_arch = "wasm32"))]
pub fn calibrate(gpu: &Gpu) -> Result<Peaks> {
    pollster::block_on(calibrate_async(gpu))
}

/// [`calibrate()`] for executors and browsers.
///
/// # Errors
/// As [`calibrate()`].
pub async fn calibrate_async(gpu: &Gpu) -> Result<Peaks> {
    let facts = gpu.facts();
    let gflops = async |probe: Probe| Ok::<f64, Error>(probe.work.flops as f64 / fastest_ns(gpu, &probe).await?);
    let copy = copy_probe(gpu);
    let copy_gbps = copy.work.bytes as f64 / fastest_ns(gpu, &copy).await?;
    let f32_gflops = gflops(fma_probe(gpu, Real::F32)).await?;
    let f16_gflops = if facts.shader_f16 { Some(gflops(fma_probe(gpu, Real::F16)).await?) } else { None };
    let matrix_gflops = if facts.cooperative_matrix { Some(gflops(matrix_probe()).await?) } else { None };
    Ok(Peaks { copy_gbps, f32_gflops, f16_gflops, matrix_gflops })
}

fn copy_probe(gpu: &Gpu) -> Probe {
    let limits = &gpu.facts().limits;
    let most = if gpu.facts().is_cpu { COPY_BYTES_CPU } else { COPY_BYTES };
    let bytes = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size).min(most) / 16 * 16;
    let params = calibrate_copy::Params { lanes: (bytes / 16) as u32 };
    Probe {
        variant: calibrate_copy::variant(),
        launch: Launch::CalibrateCopy(params),
        buffer_bytes: bytes,
        work: calibrate_copy::work(params),
    }
}

fn fma_probe(gpu: &Gpu, real: Real) -> Probe {
    // About a millisecond on a fast GPU; a CPU gets a hundredth of it.
    let (iterations, invocations) = if gpu.facts().is_cpu { (32, 1 << 14) } else { (256, 1 << 19) };
    let params = calibrate_fma::Params { iterations, invocations };
    Probe {
        variant: calibrate_fma::variant(real),
        launch: Launch::CalibrateFma(params),
        buffer_bytes: 16 * u64::from(invocations),
        work: calibrate_fma::work(params),
    }
}

/// About a millisecond on a fast GPU; no CPU has cooperative matrices.
fn matrix_probe() -> Probe {
    matrix_probe_of(calibrate_matrix::Params { iterations: 512, workgroups: 1056 })
}

fn matrix_probe_of(params: calibrate_matrix::Params) -> Probe {
    let work = calibrate_matrix::work(params);
    Probe {
        variant: calibrate_matrix::variant(),
        launch: Launch::CalibrateMatrix(params),
        buffer_bytes: work.bytes,
        work,
    }
}

/// A plan of one dispatch.
fn plan(probe: &Probe, max_workgroups_per_dimension: u32) -> Plan {
    let bindings = probe.variant.kernel.bindings.len() as u32;
    let dispatch = Dispatch {
        variant: VariantId(0),
        buffers: (0..bindings).map(BufferId).collect(),
        node: 0,
        alternative: None,
        launch: probe.launch,
        max_workgroups: 0,
    };
    Plan {
        variants: vec![probe.variant.clone()],
        buffers: vec![BufferPlan { size_bytes: probe.buffer_bytes, role: Role::Shared }; bindings as usize],
        tensor_buffers: Vec::new(),
        steps: vec![Step::Dispatch(dispatch)],
        max_workgroups_per_dimension,
        tensor_dtypes: Vec::new(),
        choices: Vec::new(),
        linears: Vec::new(),
    }
}

/// How warm a device became.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct WarmUp {
    /// Nanoseconds of the probe's fastest run.
    pub best_ns: f64,
    /// Nanoseconds of its last run.
    pub last_ns: f64,
    /// How often it ran.
    pub runs: u32,
    /// Whether the last runs were within 3 % of the fastest: the clocks have risen.
    pub stable: bool,
}

/// Keeps a device busy with a probe of fixed work until its time no longer falls: GPUs raise their clocks under load, and
/// lower them in pauses of milliseconds. It takes at most two seconds.
///
/// # Errors
/// [`Error::Gpu`] where the device failed.
#[cfg(not(target_arch = "wasm32"))]
pub fn warm_up(gpu: &Gpu) -> Result<WarmUp> {
    pollster::block_on(warm_up_async(gpu))
}

/// [`warm_up()`] for executors and browsers.
///
/// # Errors
/// As [`warm_up()`].
pub async fn warm_up_async(gpu: &Gpu) -> Result<WarmUp> {
    /// Runs in a row that must be as fast as the fastest.
    const STEADY_RUNS: u32 = 20;
    let mut repeat = Repeat::new(gpu, &fma_probe(gpu, Real::F32)).await?;
    let budget_ns = if gpu.facts().is_cpu { BUDGET_NS_CPU / 2.0 } else { 2e9 };
    let clock = Clock::start();
    let mut warm_up = WarmUp { best_ns: f64::INFINITY, last_ns: f64::INFINITY, runs: 0, stable: false };
    let mut steady = 0;
    while steady < STEADY_RUNS && clock.now_ns() < budget_ns {
        let ns = repeat.run().await?;
        steady = if ns <= warm_up.best_ns * 1.03 { steady + 1 } else { 0 };
        warm_up = WarmUp { best_ns: warm_up.best_ns.min(ns), last_ns: ns, runs: warm_up.runs + 1, stable: false };
    }
    Ok(WarmUp { stable: steady >= STEADY_RUNS, ..warm_up })
}

/// Nanoseconds of the fastest of some runs.
async fn fastest_ns(gpu: &Gpu, probe: &Probe) -> Result<f64> {
    let mut repeat = Repeat::new(gpu, probe).await?;
    let budget_ns = if gpu.facts().is_cpu { BUDGET_NS_CPU } else { BUDGET_NS };
    let clock = Clock::start();
    let (mut fastest, mut since, mut runs) = (f64::INFINITY, 0, 0);
    // The first run pays for compilation, and for pages that nobody touched before.
    while runs < 3 || (since < SETTLED_AFTER && clock.now_ns() < budget_ns) {
        let run_ns = repeat.run().await?;
        since += 1;
        if runs > 0 && run_ns < fastest {
            (fastest, since) = (run_ns, 0);
        }
        runs += 1;
    }
    Ok(fastest)
}

/// A probe that runs again and again.
struct Repeat {
    plan: Plan,
    engine: Engine,
    params: [u8; PARAMS_SLOT_BYTES as usize],
    grid: Grid,
    timestamps: TimestampMode,
    period_ns: f64,
}

impl Repeat {
    async fn new(gpu: &Gpu, probe: &Probe) -> Result<Self> {
        let facts = gpu.facts();
        let plan = plan(probe, facts.limits.max_compute_workgroups_per_dimension);
        let engine = Engine::new(gpu, &plan, BoundsChecks::default()).await?;
        let mut params = [0; PARAMS_SLOT_BYTES as usize];
        let workgroups = probe.launch.resolve_fixed(&mut params);
        let grid = Grid::fold(workgroups, plan.max_workgroups_per_dimension)
            .ok_or_else(|| Error::Gpu(format!("{workgroups} workgroups cannot be launched")))?;
        let timestamps = if facts.timestamps { TimestampMode::Pass } else { TimestampMode::Off };
        let period_ns = facts.timestamp_period_ns.unwrap_or(1.0);
        Ok(Self { plan, engine, params, grid, timestamps, period_ns })
    }

    /// Nanoseconds of a run: by the device's clock, or else the host's.
    async fn run(&mut self) -> Result<f64> {
        // A download of a few bytes makes the host wait for the run.
        let downloads = [start_of(BufferId(0), 16)];
        let clock = Clock::start();
        let run = Run {
            params: &self.params,
            grids: &[Some(self.grid)],
            downloads: &downloads,
            most_downloaded_bytes: 16,
            timestamps: self.timestamps,
            tap: None,
        };
        let Submitted { pending, stamps, .. } = self.engine.submit(&self.plan, run)?;
        pending.arrived().await?;
        let host_ns = clock.now_ns();
        self.engine.poll()?;
        let stamped = match stamps.and_then(|mut stamps| stamps.take_ready()) {
            Some(pairs) => pairs?.first().filter(|pair| pair.begin < pair.end).map(|pair| pair.end - pair.begin),
            None => None,
        };
        Ok(stamped.map_or(host_ns, |ticks| ticks as f64 * self.period_ns))
    }
}

/// The start of a buffer, as the only download.
fn start_of(buffer: BufferId, size_bytes: u64) -> Download {
    Download { output: 0, buffer, from_offset_bytes: 0, size_bytes, offset_bytes: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::GpuOptions;
    use crate::reference;

    fn gpu() -> Gpu {
        Gpu::open_blocking(&GpuOptions { experimental: true, ..GpuOptions::default() }).unwrap()
    }

    /// What a probe leaves in its last buffer, which begins as `source` does in its first.
    fn result(probe: &Probe, source: &[f32]) -> Vec<f32> {
        let gpu = gpu();
        let plan = plan(probe, 65535);
        let mut engine = pollster::block_on(Engine::new(&gpu, &plan, BoundsChecks::default())).unwrap();
        engine.upload(BufferId(0), bytemuck::cast_slice(source));
        let mut params = [0; PARAMS_SLOT_BYTES as usize];
        let grid = Grid::fold(probe.launch.resolve_fixed(&mut params), 65535).unwrap();
        let last = BufferId(plan.buffers.len() as u32 - 1);
        let run = Run {
            params: &params,
            grids: &[Some(grid)],
            downloads: &[start_of(last, probe.buffer_bytes)],
            most_downloaded_bytes: probe.buffer_bytes,
            timestamps: TimestampMode::Off,
            tap: None,
        };
        let pending = engine.submit(&plan, run).unwrap().pending;
        let arrived = pollster::block_on(pending.arrived()).unwrap();
        arrived.read(|bytes| Ok(bytemuck::pod_collect_to_vec(bytes))).unwrap()
    }

    #[test]
    fn the_copy_copies_every_lane_and_no_more() {
        let source: Vec<f32> = (0..301 * 4).map(|i| i as f32).collect();
        let params = calibrate_copy::Params { lanes: 300 };
        let probe = Probe {
            variant: calibrate_copy::variant(),
            launch: Launch::CalibrateCopy(params),
            buffer_bytes: 301 * 16,
            work: calibrate_copy::work(params),
        };
        let got = result(&probe, &source);
        assert_eq!(got[..1200], reference::calibrate_copy::reference(&source)[..1200]);
        assert_eq!(got[1200..], [0.0; 4]);
    }

    #[test]
    fn the_multiply_adds_are_all_done() {
        for (real, tolerances) in [(Real::F32, [1e-5, 1e-30]), (Real::F16, [4e-3, 1e-6])] {
            for iterations in [0, 1, 7, 100] {
                check_fma(real, iterations, tolerances);
            }
        }
    }

    fn check_fma(real: Real, iterations: u32, [relative, absolute]: [f64; 2]) {
        {
            let params = calibrate_fma::Params { iterations, invocations: 300 };
            let probe = Probe {
                variant: calibrate_fma::variant(real),
                launch: Launch::CalibrateFma(params),
                buffer_bytes: 300 * 16,
                work: calibrate_fma::work(params),
            };
            let got = result(&probe, &[]);
            for (invocation, lane) in got.chunks(4).enumerate() {
                let wanted = reference::calibrate_fma::reference(iterations, invocation as u32);
                for (got, wanted) in lane.iter().zip(wanted) {
                    let error = (f64::from(*got) - wanted).abs();
                    // What is left of the start of a chain may be below the smallest number of the type.
                    assert!(
                        error <= relative * wanted.abs() || error < absolute,
                        "{iterations} turns, {invocation}: {got}, wanted {wanted}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_matrix_products_are_all_done_where_there_are_matrices() {
        let gpu = gpu();
        let peaks = pollster::block_on(calibrate_async(&gpu)).unwrap();
        assert_eq!(peaks.matrix_gflops.is_some(), gpu.facts().cooperative_matrix);
        if !gpu.facts().cooperative_matrix {
            return;
        }
        for iterations in [0, 1, 7] {
            let got = result(&matrix_probe_of(calibrate_matrix::Params { iterations, workgroups: 3 }), &[]);
            let wanted = reference::calibrate_matrix::reference(iterations);
            assert_eq!(got.len(), 12 * 256);
            for (index, got) in got.iter().enumerate() {
                let wanted = wanted[index % 256];
                assert!((f64::from(*got) - wanted).abs() < 1e-2, "{iterations} turns, {index}: {got}, wanted {wanted}");
            }
        }
    }
}
