//! Profiles for the tests of the report, and a reader of its pages.

mod page;

use std::sync::Arc;

use torchlight::profile::{Adapter, DeviceClock, HostTimes, TickPair, Timed, samples};
use torchlight::{Profile, Route, RunProfile, TimestampMode};

pub(crate) use page::{data, shown, shown_runs};

/// Kernels of attention, with the ns of a dispatch and what each key of the context adds.
const ATTENTION: [(&str, f64, f64); 5] = [
    ("update_cache", 4_750.0, 0.0),
    ("update_cache", 4_810.0, 0.0),
    ("sdpa_compute_attn_weights", 5_200.0, 9.0),
    ("sdpa_softmax", 5_560.0, 2.5),
    ("sdpa_compute_out", 5_310.0, 7.0),
];

/// From the return of a run to the next call.
pub(crate) const PAUSE_NS: f64 = 12_000.0;

const CLOCK: DeviceClock = DeviceClock { period_ns: 1.0, quantum_ticks: 32 };

fn timed(dispatch: u32, kernel: &str, context_len: u32) -> Timed {
    let is_update = kernel == "update_cache";
    let keys = if is_update { 1 } else { u64::from(context_len) };
    Timed {
        dispatch,
        kernel: kernel.into(),
        route: Some(Route::Materialised),
        operator: if is_update { "update_cache" } else { "sdpa" }.into(),
        node: 3 + dispatch / 2,
        instruction: 0,
        shape: "s1 h32 hk8 d128".into(),
        context_len: Some(context_len),
        workgroups: [32, 1],
        workgroup_size: 64,
        bytes: keys * 8 * 128 * 4,
        flops: if is_update { 0 } else { keys * 32 * 128 * 2 },
    }
}

/// A run of attention at some context.
pub(crate) fn attention_run(run: u64, step: u64, context_len: u32, noise: &mut fastrand::Rng) -> RunProfile {
    let mut now = 0;
    let mut stamps = Vec::new();
    for (_, base_ns, key_ns) in ATTENTION {
        let mut jitter = || 1.0 + noise.f64().powi(4) * 0.25;
        let ticks = ((base_ns + key_ns * f64::from(context_len)) * jitter() / 32.0) as u64 * 32;
        stamps.push(TickPair { begin: (1 << 40) + now, end: (1 << 40) + now + ticks });
        now += ticks + 1_600;
    }
    let timed = ATTENTION.iter().zip(0..).map(|(&(kernel, ..), index)| timed(index, kernel, context_len)).collect();
    let (prepare_ns, encode_ns, submit_ns, readback_ns) = (8_200.0, 21_400.0, 17_900.0, 2_600.0);
    let wait_ns = now as f64 + 24_000.0;
    let wall_ns = prepare_ns + encode_ns + submit_ns + wait_ns + readback_ns + 900.0;
    RunProfile {
        run,
        step,
        mode: TimestampMode::Pass,
        clock: CLOCK,
        start_ns: 0.0,
        host: HostTimes { prepare_ns, encode_ns, submit_ns, wait_ns, readback_ns, wall_ns },
        samples: samples(timed, &stamps, CLOCK),
    }
}

/// Starts each run a while after the one before it has returned.
fn one_after_another(mut runs: Vec<RunProfile>) -> Vec<RunProfile> {
    let mut now_ns = 5e6;
    for run in &mut runs {
        run.start_ns = now_ns;
        now_ns += run.host.wall_ns + PAUSE_NS;
    }
    runs
}

/// Judges a run's samples anew, with other stamps at one place.
pub(crate) fn restamp(run: &mut RunProfile, place: usize, ticks: TickPair) {
    let mut pairs: Vec<TickPair> = run.samples.iter().map(|sample| sample.ticks).collect();
    pairs[place] = ticks;
    run.samples = samples(run.samples.drain(..).map(|sample| sample.timed).collect(), &pairs, CLOCK);
}

pub(crate) fn profile(runs: &[RunProfile]) -> Profile {
    let adapter = Adapter {
        name: "NVIDIA H200".to_owned(),
        backend: "Vulkan".to_owned(),
        driver: "NVIDIA 580.159.04".to_owned(),
        is_cpu: false,
    };
    Profile { adapter, ..Profile::default() }.of_runs(runs)
}

/// Eight steps of a decode, twenty runs each, with a dispatch of each flag.
pub(crate) fn decode() -> Profile {
    let mut noise = fastrand::Rng::with_seed(7);
    let runs = (0..160).map(|run| attention_run(run, run / 20, 64 << (run / 20), &mut noise)).collect();
    let mut runs = one_after_another(runs);
    let [update, scores] = [1, 2].map(|place| runs[0].samples[place].ticks);
    let begin = runs[2].samples[4].ticks.begin;
    restamp(&mut runs[0], 2, TickPair { begin: update.begin, ..scores });
    let scores = runs[1].samples[2].ticks;
    restamp(&mut runs[1], 3, TickPair { begin: scores.begin, end: scores.begin + 640 });
    restamp(&mut runs[2], 4, TickPair { begin, end: begin + 16 });
    restamp(&mut runs[44], 3, TickPair { begin: 0, end: 0 });
    restamp(&mut runs[90], 4, TickPair { begin: 900, end: 100 });
    Profile { dropped_runs: 12, untimed_runs: 3, ..profile(&runs) }
}

/// As many runs of attention, each at a context of its own.
pub(crate) fn long_decode(runs: u64) -> Vec<RunProfile> {
    let mut noise = fastrand::Rng::with_seed(11);
    one_after_another((0..runs).map(|run| attention_run(run, run, 30_000 + run as u32, &mut noise)).collect())
}

/// As many runs of attention, where every dispatch begins within the one before it.
pub(crate) fn overlapping(runs: u64) -> Vec<RunProfile> {
    let mut runs = long_decode(runs);
    for run in &mut runs {
        for place in 1..run.samples.len() {
            let [before, ticks] = [place - 1, place].map(|place| run.samples[place].ticks);
            restamp(run, place, TickPair { begin: before.begin, end: ticks.end });
        }
    }
    runs
}

/// As many runs with all that takes room: many long names, contexts and sizes from all over, stamps at the end of the
/// clock, in any order, and ticks that are no whole ns.
pub(crate) fn crowded(runs: u64) -> Vec<RunProfile> {
    let mut noise = fastrand::Rng::with_seed(5);
    let mut runs = long_decode(runs);
    for run in &mut runs {
        run.clock.period_ns = 41.667;
        let mut dispatches: Vec<Timed> = run.samples.drain(..).map(|sample| sample.timed).collect();
        let mut stamps = Vec::new();
        for timed in &mut dispatches {
            timed.kernel = format!("{}_{}_{}", timed.kernel, "x".repeat(150), noise.u8(..8)).into();
            timed.shape = format!("{}{}", "[1, 4096, 128] ".repeat(12), noise.u8(..8)).into();
            timed.context_len = Some(noise.u32(1..1 << 17));
            timed.bytes = noise.u64(..1 << 30);
            let begin = u64::MAX - noise.u64(1 << 25..1 << 26);
            stamps.push(TickPair { begin, end: begin + (1 << noise.u32(5..25)) + noise.u64(..32) });
        }
        run.samples = samples(dispatches, &stamps, run.clock);
    }
    runs
}

/// A run of as many dispatches, each of an operator of its own.
pub(crate) fn one_run(dispatches: u32) -> RunProfile {
    let mut run = long_decode(1).remove(0);
    run.samples = run.samples.iter().cycle().take(dispatches as usize).cloned().collect();
    for (place, sample) in (0..).zip(&mut run.samples) {
        (sample.timed.dispatch, sample.timed.node) = (place, place);
    }
    run
}

/// As many runs of a dispatch each.
pub(crate) fn one_dispatch(runs: u64) -> Vec<RunProfile> {
    let mut runs = long_decode(runs);
    runs.iter_mut().for_each(|run| run.samples.truncate(1));
    runs
}

/// Runs of dispatches that have nothing in common, with names that are longer in a page than in memory.
pub(crate) fn unlike(runs: u64, dispatches: u32) -> Vec<RunProfile> {
    let mut noise = fastrand::Rng::with_seed(13);
    let mut run = |run: u64| {
        let mut like = attention_run(run, noise.u64(..), 1, &mut fastrand::Rng::with_seed(1));
        let stamps: Vec<TickPair> =
            (0..dispatches).map(|_| TickPair { begin: noise.u64(1..), end: noise.u64(1..) }).collect();
        let dispatches = (0..dispatches).map(|dispatch| {
            let kernel = format!("{}{}", noise.u16(..1_000), "&".repeat(300));
            let name: Arc<str> = format!("{}{}", noise.u64(..), "<\u{1}\u{2028}".repeat(80)).into();
            Timed {
                node: noise.u32(..),
                operator: name.clone(),
                shape: name.clone(),
                context_len: Some(noise.u32(..)),
                bytes: noise.u64(..),
                ..timed(dispatch, &kernel, 1)
            }
        });
        like.samples = samples(dispatches.collect(), &stamps, CLOCK);
        like.host.wait_ns = noise.f64() * 1e15;
        like.host.wall_ns += like.host.wait_ns;
        like
    };
    (0..runs).map(&mut run).collect()
}
