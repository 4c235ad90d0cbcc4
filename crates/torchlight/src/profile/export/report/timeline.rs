//! The dispatches of the runs, as columns: a number costs its digits and a comma.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use super::data::Interner;
use crate::profile::{Quality, RunProfile, Sample, TimestampMode};

/// The most dispatches that are shown, as long as two runs hold no more. The page then stays below 500 KB, or below 600 KB
/// where every duration differs from its length, as where all dispatches overlap.
const MOST_SAMPLES: usize = 10_000;

/// Times are whole ns, null where there are none.
#[derive(Default, Serialize)]
pub(super) struct Timeline {
    /// Before thinning.
    all_runs: usize,
    all_dispatches: usize,
    /// The names of qualities by the digits of [`Columns::quality`].
    qualities: Vec<&'static str>,
    /// Shapes and operators.
    strings: Vec<Arc<str>>,
    /// What dispatches have in common: kernel, route, operator, node, shape.
    variants: Vec<(usize, Option<&'static str>, usize, u32, usize)>,
    runs: RunColumns,
    samples: Columns,
}

/// A number a run.
#[derive(Default, Serialize)]
struct RunColumns {
    run: Vec<u64>,
    step: Vec<u64>,
    mode: Vec<TimestampMode>,
    dispatches: Vec<usize>,
    /// From the first run that is shown.
    start: Vec<i64>,
    /// Prepare, encode, submit, wait, readback, wall.
    host: Vec<[i64; 6]>,
}

/// A number a dispatch, run by run.
#[derive(Default, Serialize)]
struct Columns {
    variant: Vec<usize>,
    /// A digit a dispatch.
    quality: String,
    context: Vec<Option<u32>>,
    bytes: Vec<u64>,
    /// From the earliest stamp of the run.
    begin: Vec<Option<i64>>,
    /// From begin to end.
    length: Vec<Option<i64>>,
    /// The durations that are not the length, with the number of the dispatch.
    durations: Vec<(usize, Option<i64>)>,
}

impl Timeline {
    pub(super) fn of(runs: &[RunProfile], kernels: &mut Interner) -> Self {
        let mut timeline = Self {
            all_runs: runs.len(),
            all_dispatches: runs.iter().map(|run| run.samples.len()).sum(),
            qualities: Quality::ALL.map(Quality::name).to_vec(),
            ..Self::default()
        };
        let mut strings = Interner::default();
        let mut variants = HashMap::new();
        let mut clock = Clock::default();
        for run in thinned(runs) {
            timeline.runs.add(run, clock.place(run));
            for sample in &run.samples {
                let timed = &sample.timed;
                let (operator, shape) = (strings.place(&timed.operator), strings.place(&timed.shape));
                let kernel = kernels.place(&timed.kernel);
                let variant = (kernel, timed.route.map(|route| route.name()), operator, timed.node, shape);
                let variant = *variants.entry(variant).or_insert_with(|| {
                    timeline.variants.push(variant);
                    timeline.variants.len() - 1
                });
                timeline.samples.add(sample, variant);
            }
        }
        timeline.strings = strings.into_strings();
        timeline
    }
}

impl RunColumns {
    fn add(&mut self, run: &RunProfile, start_ns: f64) {
        let host = run.host;
        let host = [host.prepare_ns, host.encode_ns, host.submit_ns, host.wait_ns, host.readback_ns, host.wall_ns];
        self.run.push(run.run);
        self.step.push(run.step);
        self.mode.push(run.mode);
        self.dispatches.push(run.samples.len());
        self.start.push(whole(start_ns));
        self.host.push(host.map(whole));
    }
}

impl Columns {
    fn add(&mut self, sample: &Sample, variant: usize) {
        let length = sample.begin_ns.zip(sample.end_ns).map(|(begin, end)| whole(end - begin));
        let duration = sample.duration_ns.map(whole);
        if duration != length {
            self.durations.push((self.variant.len(), duration));
        }
        let quality = Quality::ALL.iter().position(|&quality| quality == sample.quality).unwrap_or_default();
        self.variant.push(variant);
        self.quality.extend(char::from_digit(quality as u32, 10));
        self.context.push(sample.timed.context_len);
        self.bytes.push(sample.timed.bytes);
        self.begin.push(sample.begin_ns.map(whole));
        self.length.push(length);
    }
}

/// Puts the runs on one axis. A run that begins before the one before it has ended is of another session, and follows it.
#[derive(Default)]
struct Clock {
    offset_ns: f64,
    end_ns: Option<f64>,
}

impl Clock {
    fn place(&mut self, run: &RunProfile) -> f64 {
        let end_ns = self.end_ns.unwrap_or(0.0);
        if self.end_ns.is_none() || run.start_ns + self.offset_ns < end_ns {
            self.offset_ns = end_ns - run.start_ns;
        }
        let start_ns = run.start_ns + self.offset_ns;
        self.end_ns = Some(start_ns + run.host.wall_ns);
        start_ns
    }
}

/// Whole runs, evenly from the first to the last, as many as stay within the limit; at least two where there are two.
fn thinned(runs: &[RunProfile]) -> Vec<&RunProfile> {
    let samples = |kept: &[&RunProfile]| kept.iter().map(|run| run.samples.len()).sum::<usize>();
    let mut kept: Vec<&RunProfile> = runs.iter().collect();
    while samples(&kept) > MOST_SAMPLES && kept.len() > 2 {
        let fits = kept.len() * MOST_SAMPLES / samples(&kept);
        kept = evenly(runs.len(), fits.clamp(2, kept.len() - 1)).map(|place| &runs[place]).collect();
    }
    kept
}

/// `wanted` of `count` places, first and last among them: at least two are wanted, and there are more.
fn evenly(count: usize, wanted: usize) -> impl Iterator<Item = usize> {
    (0..wanted).map(move |place| place * (count - 1) / (wanted - 1))
}

fn whole(value: f64) -> i64 {
    value.round() as i64
}
