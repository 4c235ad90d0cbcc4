//! What the page shows, as the JSON that its scripts read. Numbers that were not measured are null.
//!
//! Each part is bounded, and the timeline gets what the others leave of the page.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;

use super::escape_json;
use super::table::Table;
use super::timeline::Timeline;
use crate::profile::{Adapter, DeviceClock, Durations, KernelSummary, Profile, Quality, RunProfile};

/// The most kernels that are told apart, by the most time. Twelve have a look of their own.
const MOST_KERNELS: usize = 64;

/// The most bars that can be told apart: of more steps, neighbours share one.
const MOST_BARS: usize = 96;

/// The most characters of a name.
const MOST_CHARACTERS: usize = 200;

/// Everything.
#[derive(Serialize)]
pub(super) struct Data {
    adapter: Adapter,
    modes: Vec<&'static str>,
    clock: Option<DeviceClock>,
    counts: Counts,
    kernels: Vec<Kernel>,
    steps: Steps,
    table: Table,
    timeline: Timeline,
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
    name: String,
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

impl Data {
    /// As much as fits into so many bytes of the page.
    pub(super) fn of(profile: &Profile, most_bytes: usize) -> Self {
        let mut summaries = profile.kernels();
        if summaries.len() > MOST_KERNELS {
            summaries.sort_by(|a, b| b.durations.total_ns.total_cmp(&a.durations.total_ns));
        }
        let mut names = Interner::new(MOST_KERNELS);
        for summary in &summaries {
            names.place(&summary.kernel);
        }
        let mut modes = Vec::new();
        for run in &profile.runs {
            if !modes.contains(&run.mode.name()) {
                modes.push(run.mode.name());
            }
        }
        let steps = Steps::of(&profile.runs, &mut names);
        let table = Table::of(profile, &mut names);
        let mut data = Self {
            adapter: Adapter {
                name: short(&profile.adapter.name),
                backend: short(&profile.adapter.backend),
                driver: short(&profile.adapter.driver),
                is_cpu: profile.adapter.is_cpu,
            },
            modes,
            clock: profile.runs.last().map(|run| run.clock),
            counts: Counts::of(profile),
            kernels: kernels(summaries, &names),
            steps,
            table,
            timeline: Timeline::of(&[], &mut names, usize::MAX),
        };
        data.timeline = Timeline::of(&profile.runs, &mut names, most_bytes.saturating_sub(json_bytes(&data)));
        data
    }
}

/// The kernels in the order of their places. A kernel that is in a run and in no statistic, as in a profile put together
/// by hand, was not summed up; those that have no place of their own are summed up behind the others.
fn kernels(mut summaries: Vec<KernelSummary>, names: &Interner) -> Vec<Kernel> {
    let others = summaries.split_off(summaries.len().min(MOST_KERNELS));
    let mut kernels: Vec<Kernel> = summaries.into_iter().map(Kernel::of).collect();
    let unsummed = names.strings.iter().skip(kernels.len());
    kernels.extend(unsummed.map(|name| Kernel { name: short(name), dispatches: 0, mean_ns: None, share: None }));
    if names.others() > 0 {
        let mut together = KernelSummary {
            kernel: format!("{} other kernels", names.others()).into(),
            durations: Durations::default(),
            share: others.iter().filter_map(|other| other.share).reduce(|sum, share| sum + share),
        };
        others.iter().for_each(|other| together.durations.merge(&other.durations));
        kernels.push(Kernel::of(together));
    }
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
    fn of(summary: KernelSummary) -> Self {
        Self {
            name: short(&summary.kernel),
            dispatches: summary.durations.dispatches,
            mean_ns: summary.durations.mean_ns().map(rounded),
            share: summary.share,
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

/// Strings, each once, and their places. Those beyond the limit share the place behind the others.
pub(super) struct Interner {
    most: usize,
    places: HashMap<Arc<str>, usize>,
    strings: Vec<Arc<str>>,
}

impl Interner {
    pub(super) fn new(most: usize) -> Self {
        Self { most, places: HashMap::new(), strings: Vec::new() }
    }

    /// The place of a string, which is added where it is new.
    pub(super) fn place(&mut self, string: &Arc<str>) -> usize {
        if let Some(&place) = self.places.get(string) {
            return place;
        }
        let place = self.strings.len();
        if place < self.most {
            self.strings.push(string.clone());
        }
        self.places.insert(string.clone(), place);
        place
    }

    pub(super) fn holds(&self, string: &Arc<str>) -> bool {
        self.places.contains_key(string)
    }

    /// Strings without a place of their own.
    fn others(&self) -> usize {
        self.places.len() - self.strings.len()
    }

    /// The strings in the order of their places.
    pub(super) fn into_strings(self) -> Vec<String> {
        self.strings.iter().map(|string| short(string)).collect()
    }
}

/// A name, or the begin of one that is too long.
pub(super) fn short(name: &str) -> String {
    match name.char_indices().nth(MOST_CHARACTERS) {
        Some(_) => name.chars().take(MOST_CHARACTERS - 1).chain(['…']).collect(),
        None => name.to_owned(),
    }
}

/// What a value takes in the page. One that is no JSON takes nothing: writing the page fails then.
pub(super) fn json_bytes(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |json| escape_json(&json).len())
}

pub(super) fn named(flagged: &BTreeMap<Quality, u64>) -> BTreeMap<&'static str, u64> {
    flagged.iter().map(|(quality, &count)| (quality.name(), count)).collect()
}

/// Three digits behind the point are enough for ns and for rates.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
