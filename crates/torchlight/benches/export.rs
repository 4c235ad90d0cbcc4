//! What the exports of a long profile cost: a million dispatches, to a writer that forgets them.
//!
//! `cargo bench -p torchlight --bench export`. The item rate is dispatches a second, and `max alloc` is the memory that an
//! export needs beside the profile, in blocks and in bytes. `/usr/bin/time -v` tells the memory of the whole process; give
//! it the name of a bench to have that format alone.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher};
use torchlight::profile::export::report::write_report;
use torchlight::profile::export::{write_csv, write_etdump, write_json, write_trace, write_tsv};
use torchlight::profile::{Adapter, DeviceClock, Durations, HostTimes, Key, KeyStatistics, TickPair, Timed, samples};
use torchlight::{Profile, Route, RunProfile, TimestampMode};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

const RUNS: u64 = 10_000;
const DISPATCHES: u32 = 100;

/// The kernels of an attention, one after another.
const KERNELS: [(&str, &str); 5] = [
    ("update_cache", "update_cache"),
    ("update_cache", "update_cache"),
    ("sdpa_compute_attn_weights", "sdpa"),
    ("sdpa_softmax", "sdpa"),
    ("sdpa_compute_out", "sdpa"),
];

/// A tick is no whole number of ns, so that times have all their digits.
const CLOCK: DeviceClock = DeviceClock { period_ns: 41.666_666_666_666_664, quantum_ticks: 1 };

fn main() {
    divan::main();
}

/// A decode of twenty layers: a run a token, at contexts that grow.
fn profile() -> &'static Profile {
    static PROFILE: OnceLock<Profile> = OnceLock::new();
    PROFILE.get_or_init(|| {
        let mut noise = fastrand::Rng::with_seed(1);
        let runs: Vec<RunProfile> = (0..RUNS).map(|number| run(number, &mut noise)).collect();
        let mut statistics: BTreeMap<Key, Durations> = BTreeMap::new();
        for sample in runs.iter().flat_map(|run| &run.samples) {
            statistics.entry(Key::of(sample)).or_default().add(sample);
        }
        let statistics = statistics.into_iter().map(|(key, durations)| KeyStatistics { key, durations }).collect();
        let adapter = Adapter {
            name: "NVIDIA H200".to_owned(),
            backend: "vulkan".to_owned(),
            driver: "NVIDIA 580.159.04".to_owned(),
            is_cpu: false,
        };
        Profile { adapter, mode: TimestampMode::Pass, runs, statistics, ..Profile::default() }
    })
}

fn run(number: u64, noise: &mut fastrand::Rng) -> RunProfile {
    let context_len = 1 + number as u32;
    let [update_cache, sdpa] = ["s1 h8 d128", "s1 h32 hk8 d128"];
    let mut now = (1 << 50) + number * 1_000_000;
    let mut stamps = Vec::new();
    let mut dispatches = Vec::new();
    for (dispatch, (kernel, operator)) in (0..DISPATCHES).zip(KERNELS.into_iter().cycle()) {
        let is_update = operator == "update_cache";
        let keys = if is_update { 1 } else { u64::from(context_len) };
        // One in eight begins before the one before it has ended.
        let begin = now - if noise.u8(..8) == 0 { 20 } else { 0 };
        now += 100 + keys / 20 + noise.u64(..30);
        stamps.push(TickPair { begin, end: now });
        now += 40;
        dispatches.push(Timed {
            dispatch,
            kernel: kernel.into(),
            route: (!is_update).then_some(Route::Materialised),
            operator: operator.into(),
            node: dispatch / 5 * 3 + dispatch % 5 / 2,
            instruction: 0,
            shape: if is_update { update_cache } else { sdpa }.into(),
            context_len: (!is_update).then_some(context_len),
            workgroups: [32, 1],
            workgroup_size: 64,
            bytes: keys * 8 * 128 * 4,
            flops: if is_update { 0 } else { keys * 32 * 128 * 2 },
        });
    }
    let host = HostTimes {
        prepare_ns: 8_200.0 + noise.f64() * 900.0,
        encode_ns: 95_400.0 + noise.f64() * 9_000.0,
        submit_ns: 47_900.0 + noise.f64() * 9_000.0,
        wait_ns: 900_000.0 + noise.f64() * 90_000.0,
        readback_ns: 2_600.0 + noise.f64() * 300.0,
        wall_ns: 1_200_000.0,
    };
    RunProfile {
        run: number,
        step: number,
        mode: TimestampMode::Pass,
        clock: CLOCK,
        start_ns: number as f64 * 1_212_000.5,
        host,
        samples: samples(dispatches, &stamps, CLOCK),
    }
}

/// Times an export of the whole profile.
fn bench(bencher: Bencher, export: impl Fn(&Profile, &mut io::Sink) -> io::Result<()> + Sync) {
    let profile = profile();
    bencher
        .counter(ItemsCount::new(RUNS * u64::from(DISPATCHES)))
        .bench(|| export(profile, &mut io::sink()).expect("a sink takes everything"));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn tsv(bencher: Bencher) {
    bench(bencher, write_tsv);
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn csv(bencher: Bencher) {
    bench(bencher, write_csv);
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn json(bencher: Bencher) {
    bench(bencher, write_json);
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn trace(bencher: Bencher) {
    bench(bencher, write_trace);
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn etdump(bencher: Bencher) {
    bench(bencher, write_etdump);
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn html(bencher: Bencher) {
    bench(bencher, |profile, out| write_report(profile, "A long decode", out));
}
