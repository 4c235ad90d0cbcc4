//! What the page shows, as the JSON that its scripts read. Numbers that were not measured are null.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;

use super::timeline::Timeline;
use crate::profile::{Adapter, DeviceClock, Durations, KeyStatistics, Profile, Quality, RunProfile};

/// The most bars that can be told apart: of more steps, neighbours share one.
const MOST_BARS: usize = 96;

/// Everything.
#[derive(Serialize)]
pub(super) struct Data<'p> {
    adapter: &'p Adapter,
    modes: Vec<&'static str>,
    clock: Option<DeviceClock>,
    counts: Counts,
    kernels: Vec<Kernel>,
    steps: Steps,
    timeline: Timeline,
    table: Vec<Row>,
}

/// How much there is, and what is missing.
#[derive(Serialize)]
struct Counts {
    kept_runs: usize,
    dropped_runs: u64,
    untimed_runs: u64,
    dispatches: u64,
    counted: u64,
    flagged: BTreeMap<&'static str, u64>,
}

/// A kernel over all routes, shapes and contexts. Everything else names it by its place in the list.
#[derive(Serialize)]
struct Kernel {
    name: Arc<str>,
    dispatches: u64,
    mean_ns: Option<f64>,
    share: Option<f64>,
}

/// What the steps cost.
#[derive(Serialize)]
struct Steps {
    /// Steps that share a bar, but for the last.
    steps_a_bar: usize,
    bars: Vec<Bar>,
}

/// The kernels' times in a step, or in a few that follow each other.
#[derive(Serialize)]
struct Bar {
    first: u64,
    last: u64,
    /// The shortest and the longest context, where a kernel has one.
    context: Option<(u32, u32)>,
    runs: u64,
    /// Nanoseconds a run of each kernel: the mean of what counts, times the dispatches a run.
    kernels_ns: Vec<Option<f64>>,
}

/// A line of the table.
#[derive(Serialize)]
struct Row {
    kernel: usize,
    route: Option<&'static str>,
    shape: Arc<str>,
    context_bucket: Option<u32>,
    dispatches: u64,
    counted: u64,
    flagged: BTreeMap<&'static str, u64>,
    min_ns: Option<f64>,
    quantiles_ns: [Option<f64>; 3],
    mean_ns: Option<f64>,
    total_ns: Option<f64>,
    share: Option<f64>,
    bandwidth_gbps: Option<f64>,
    gflops: Option<f64>,
}

impl<'p> Data<'p> {
    pub(super) fn of(profile: &'p Profile) -> Self {
        let mut names = Interner::default();
        let kernels: Vec<Kernel> = profile.kernels().into_iter().map(Kernel::of).collect();
        for kernel in &kernels {
            names.place(&kernel.name);
        }
        let mut modes = Vec::new();
        for run in &profile.runs {
            if !modes.contains(&run.mode.name()) {
                modes.push(run.mode.name());
            }
        }
        let total_ns = profile.total_ns();
        let table = profile.statistics.iter().map(|entry| Row::of(entry, total_ns, &mut names)).collect();
        let steps = Steps::of(&profile.runs, &mut names);
        let timeline = Timeline::of(&profile.runs, &mut names);
        Self {
            adapter: &profile.adapter,
            modes,
            clock: profile.runs.last().map(|run| run.clock),
            counts: Counts::of(profile),
            kernels: with_unsummed(kernels, names),
            steps,
            timeline,
            table,
        }
    }
}

/// Adds kernels that are in a run and in no statistic, as in a profile put together by hand.
fn with_unsummed(mut kernels: Vec<Kernel>, names: Interner) -> Vec<Kernel> {
    let unsummed = names.into_strings().into_iter().skip(kernels.len());
    kernels.extend(unsummed.map(|name| Kernel { name, dispatches: 0, mean_ns: None, share: None }));
    kernels
}

impl Counts {
    fn of(profile: &Profile) -> Self {
        let all = || profile.statistics.iter().map(|entry| &entry.durations);
        let mut flagged = BTreeMap::new();
        for durations in all() {
            for (name, count) in named(&durations.flagged) {
                *flagged.entry(name).or_default() += count;
            }
        }
        Self {
            kept_runs: profile.runs.len(),
            dropped_runs: profile.dropped_runs,
            untimed_runs: profile.untimed_runs,
            dispatches: all().map(|durations| durations.dispatches).sum(),
            counted: all().map(|durations| durations.counted).sum(),
            flagged,
        }
    }
}

impl Kernel {
    fn of(summary: crate::profile::KernelSummary) -> Self {
        Self {
            dispatches: summary.durations.dispatches,
            mean_ns: summary.durations.mean_ns().map(rounded),
            share: summary.share,
            name: summary.kernel,
        }
    }
}

impl Row {
    fn of(KeyStatistics { key, durations }: &KeyStatistics, all_ns: f64, names: &mut Interner) -> Self {
        let counts = durations.counted > 0;
        Self {
            kernel: names.place(&key.kernel),
            route: key.route.map(|route| route.name()),
            shape: key.shape.clone(),
            context_bucket: key.context_bucket,
            dispatches: durations.dispatches,
            counted: durations.counted,
            flagged: named(&durations.flagged),
            min_ns: durations.min_ns.map(rounded),
            quantiles_ns: durations.quantiles_ns([0.5, 0.9, 0.99]).map(|quantile| quantile.map(rounded)),
            mean_ns: durations.mean_ns().map(rounded),
            total_ns: counts.then(|| rounded(durations.total_ns)),
            share: (counts && all_ns > 0.0).then(|| durations.total_ns / all_ns),
            // A kernel without floating-point operations has no rate of them.
            bandwidth_gbps: durations.bandwidth_gbps().filter(|_| durations.bytes > 0.0).map(rounded),
            gflops: durations.gflops().filter(|_| durations.flops > 0.0).map(rounded),
        }
    }
}

impl Steps {
    fn of(runs: &[RunProfile], names: &mut Interner) -> Self {
        let mut by_step: BTreeMap<u64, Vec<&RunProfile>> = BTreeMap::new();
        for run in runs {
            by_step.entry(run.step).or_default().push(run);
        }
        let steps: Vec<(u64, Vec<&RunProfile>)> = by_step.into_iter().collect();
        let steps_a_bar = steps.len().div_ceil(MOST_BARS).max(1);
        Self { steps_a_bar, bars: steps.chunks(steps_a_bar).map(|steps| Bar::of(steps, names)).collect() }
    }
}

impl Bar {
    /// The bar of some steps, of which there is at least one.
    fn of(steps: &[(u64, Vec<&RunProfile>)], names: &mut Interner) -> Self {
        let mut kernels: Vec<Durations> = Vec::new();
        let mut contexts = Vec::new();
        let mut runs = 0;
        for run in steps.iter().flat_map(|(_, runs)| runs) {
            runs += 1;
            contexts.extend(run.samples.iter().filter_map(|sample| sample.timed.context_len).max());
            for sample in &run.samples {
                let place = names.place(&sample.timed.kernel);
                kernels.resize_with(kernels.len().max(place + 1), Durations::default);
                kernels[place].add(sample);
            }
        }
        let a_run = |durations: Durations| {
            durations.mean_ns().map(|mean_ns| rounded(mean_ns * durations.dispatches as f64 / runs as f64))
        };
        let context = contexts.iter().min().copied().zip(contexts.iter().max().copied());
        let (first, last) = (steps[0].0, steps[steps.len() - 1].0);
        Self { first, last, context, runs, kernels_ns: kernels.into_iter().map(a_run).collect() }
    }
}

/// Strings, each once, and their places.
#[derive(Default)]
pub(super) struct Interner {
    places: HashMap<Arc<str>, usize>,
    strings: Vec<Arc<str>>,
}

impl Interner {
    /// The place of a string, which is added where it is new.
    pub(super) fn place(&mut self, string: &Arc<str>) -> usize {
        if let Some(&place) = self.places.get(string) {
            return place;
        }
        self.strings.push(string.clone());
        self.places.insert(string.clone(), self.strings.len() - 1);
        self.strings.len() - 1
    }

    pub(super) fn into_strings(self) -> Vec<Arc<str>> {
        self.strings
    }
}

fn named(flagged: &BTreeMap<Quality, u64>) -> BTreeMap<&'static str, u64> {
    flagged.iter().map(|(quality, &count)| (quality.name(), count)).collect()
}

/// Three digits behind the point are enough for ns and for rates.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
