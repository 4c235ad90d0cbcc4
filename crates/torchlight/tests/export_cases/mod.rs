//! Profiles made by hand for the tests of the exports: awkward names, every quality, any length, seeded chance.
#![allow(dead_code, reason = "every test binary uses its own part")]

use std::path::PathBuf;

use torchlight::profile::{Adapter, DeviceClock, HostTimes, Peaks, TickPair, Timed, samples};
use torchlight::{Profile, Route, RunProfile, Sample, TimestampMode};

/// Names that break careless writers.
pub(crate) const AWKWARD: [&str; 10] = [
    "plain",
    "\"quoted\" and ''",
    "back\\slash, \\n and \\",
    "new\nline",
    "tab\tand\rreturn",
    "größe λ 漢字 🜲",
    "comma, semicolon; colon:",
    " blanks ",
    "=1+1 </script> &amp; {} []",
    "\u{1b}[31mcontrol\u{7f}",
];

/// Stamps of one run that have every quality, with a clock whose step is 8 ticks: the latest are below it.
pub(crate) const FLAGGED: [(u64, u64); 7] =
    [(1000, 1100), (1050, 1200), (1060, 1160), (0, 0), (1300, 1250), (1400, 1500), (1600, 1604)];

/// A dispatch of a name.
pub(crate) fn timed(dispatch: u32, name: &str) -> Timed {
    Timed {
        dispatch,
        kernel: name.into(),
        route: dispatch.is_multiple_of(2).then_some(Route::Materialised),
        operator: format!("operator of {name}").into(),
        node: dispatch + 3,
        instruction: dispatch / 4,
        shape: format!("[1, {dispatch}] {name}").into(),
        context_len: dispatch.is_multiple_of(3).then_some(dispatch + 1),
        workgroups: [dispatch + 1, 2],
        workgroup_size: 64,
        bytes: 1 << (dispatch % 50),
        flops: u64::from(dispatch) * 17,
    }
}

/// A run of the given names and stamps.
pub(crate) fn run(number: u64, names: &[&str], stamps: &[(u64, u64)], clock: DeviceClock) -> RunProfile {
    let timed = (0..).zip(names).map(|(dispatch, name)| timed(dispatch, name)).collect();
    let stamps: Vec<TickPair> = stamps.iter().map(|&(begin, end)| TickPair { begin, end }).collect();
    let host = HostTimes {
        prepare_ns: 1200.25,
        encode_ns: 3400.5,
        submit_ns: 560.125,
        wait_ns: 78_900.0,
        readback_ns: 1000.1,
        wall_ns: 90_000.7,
    };
    let start_ns = 1e6 + number as f64 * 100_000.3;
    let samples: Vec<Sample> = samples(timed, &stamps, clock);
    RunProfile { run: number, step: number / 2, mode: TimestampMode::Pass, clock, start_ns, host, samples }
}

/// A whole profile of runs.
pub(crate) fn profile_of(runs: &[RunProfile]) -> Profile {
    let adapter = Adapter {
        name: "A \"GPU\"\tof λ\\".to_owned(),
        backend: "vulkan".to_owned(),
        driver: "driver\n1.2".to_owned(),
        is_cpu: true,
    };
    let peaks = Some(Peaks { copy_gbps: 812.5, f32_gflops: 10_400.1, f16_gflops: Some(20_800.5), matrix_gflops: None });
    let about = Profile { adapter, peaks, warmup: 1, ..Profile::default() };
    Profile { dropped_runs: 7, untimed_runs: 2, mode: TimestampMode::Pass, ..about.of_runs(runs) }
}

/// Three runs of every awkward name, and one of every quality.
pub(crate) fn awkward_profile() -> Profile {
    let clock = DeviceClock { period_ns: 52.083, quantum_ticks: 8 };
    let mut runs: Vec<RunProfile> =
        (0..3).map(|number| run(number, &AWKWARD, &stamps(number, AWKWARD.len()), clock)).collect();
    runs.push(run(3, &AWKWARD[..FLAGGED.len()], &FLAGGED, clock));
    profile_of(&runs)
}

/// Stamps in order, of different lengths in different runs.
fn stamps(run: u64, dispatches: usize) -> Vec<(u64, u64)> {
    let begin = |dispatch: u64| (1 << 55) + run * 1_000_000 + dispatch * 1000;
    (0..dispatches as u64).map(|dispatch| (begin(dispatch), begin(dispatch) + 100 + dispatch * 8 + run)).collect()
}

/// A profile of runs of a thousand dispatches.
pub(crate) fn long_profile(dispatches: usize) -> Profile {
    let clock = DeviceClock { period_ns: 1.0, quantum_ticks: 1 };
    let names: Vec<&str> = AWKWARD.into_iter().cycle().take(1000).collect();
    let runs = dispatches as u64 / 1000;
    profile_of(&(0..runs).map(|number| run(number, &names, &stamps(number, 1000), clock)).collect::<Vec<_>>())
}

/// A profile of chance: awkward names joined, and stamps of every kind.
pub(crate) fn random_profile(rng: &mut fastrand::Rng) -> Profile {
    let runs: Vec<RunProfile> = (0..rng.u64(..5)).map(|number| random_run(rng, number)).collect();
    profile_of(&runs)
}

fn random_run(rng: &mut fastrand::Rng, number: u64) -> RunProfile {
    let names: Vec<String> = (0..rng.usize(..20)).map(|_| random_name(rng)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let base = rng.u64(..) >> 8;
    let stamps: Vec<(u64, u64)> = names.iter().map(|_| random_stamps(rng, base)).collect();
    let clock = DeviceClock { period_ns: rng.f64() * 100.0, quantum_ticks: rng.u64(1..100) };
    let mut run = run(number, &names, &stamps, clock);
    run.start_ns = rng.f64() * 1e13;
    run.host.wait_ns = rng.f64() * 1e9;
    run
}

fn random_name(rng: &mut fastrand::Rng) -> String {
    let mut name: String = (0..rng.usize(..3)).map(|_| AWKWARD[rng.usize(..AWKWARD.len())]).collect();
    name.extend((0..rng.usize(..4)).map(|_| rng.char(..)));
    name
}

fn random_stamps(rng: &mut fastrand::Rng, base: u64) -> (u64, u64) {
    if rng.u8(..8) == 0 {
        return (0, 0);
    }
    (base + rng.u64(..1000), base + rng.u64(..1000))
}

/// What a writer of a profile writes.
pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes).unwrap();
    bytes
}

/// A file whose content was agreed on.
pub(crate) fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}
