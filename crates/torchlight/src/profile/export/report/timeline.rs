//! The dispatches of the runs, as columns.

use std::collections::HashMap;

use serde::Serialize;

use super::columns::{Columns, LARGEST};
use super::data::{Interner, json_bytes};
use crate::profile::{Quality, RunProfile, Sample, TimestampMode};

/// The most dispatches that are shown, as long as two runs hold no more: browsers draw these without a wait.
const MOST_SAMPLES: usize = 10_000;

/// A dispatch has a character a column at the least.
const LEAST_BYTES_A_SAMPLE: usize = 7;

/// Times are whole ns, null where there are none.
#[derive(Serialize)]
pub(super) struct Timeline {
    /// Before thinning.
    all_runs: usize,
    all_dispatches: usize,
    /// Whether of some runs only the first dispatches are shown.
    is_cut: bool,
    // Names that columns tell by their places.
    qualities: Vec<&'static str>,
    modes: Vec<TimestampMode>,
    routes: Vec<&'static str>,
    /// Shapes and operators.
    strings: Vec<String>,
    /// What dispatches have in common.
    variants: Columns<5>,
    /// A row a run. The pause is from the return of the run before it to its call.
    runs: Columns<11>,
    /// A row a dispatch, run by run: its variant.
    sequence: Columns<1>,
    /// The numbers of the same dispatches, grouped by variant. The gap reaches from the latest end before it in its run to
    /// its begin, the length from begin to end. From both follows the time that it had for itself, and the correction is
    /// what its duration is more: mostly what was rounded.
    samples: Columns<6>,
}

impl Timeline {
    /// As much as fits into so many bytes of the page.
    pub(super) fn of(runs: &[RunProfile], kernels: &mut Interner, most_bytes: usize) -> Self {
        let mut most = most_bytes / LEAST_BYTES_A_SAMPLE;
        loop {
            let shown = Shown::of(runs, most);
            let timeline = Self::of_shown(&shown, runs, kernels);
            let bytes = json_bytes(&timeline);
            if bytes <= most_bytes || most == 0 {
                return timeline;
            }
            // A little less than would fit if all dispatches were alike: most are.
            let fits = shown.size() as f64 * most_bytes as f64 / bytes as f64 * 0.98;
            most = (fits as usize).min(most - 1);
        }
    }

    fn of_shown(shown: &Shown<'_>, runs: &[RunProfile], kernels: &mut Interner) -> Self {
        let mut timeline = Self {
            all_runs: runs.len(),
            all_dispatches: runs.iter().map(|run| run.samples.len()).sum(),
            is_cut: shown.runs.iter().any(|run| run.samples.len() > shown.most_a_run),
            qualities: Quality::ALL.map(Quality::name).to_vec(),
            modes: Vec::new(),
            routes: Vec::new(),
            strings: Vec::new(),
            variants: Columns::new(["kernel", "route", "operator", "node", "shape"]),
            runs: Columns::new([
                "run",
                "step",
                "mode",
                "dispatches",
                "pause",
                "prepare",
                "encode",
                "submit",
                "wait",
                "readback",
                "unattributed",
            ]),
            sequence: Columns::new(["variant"]),
            samples: Columns::new(["quality", "context", "bytes", "gap", "length", "correction"]),
        };
        let mut strings = Interner::new(usize::MAX);
        let mut variants = HashMap::new();
        let mut clock = Clock::default();
        for run in &shown.runs {
            let samples = shown.samples(run);
            timeline.add_run(run, samples.len(), clock.pause(run));
            let mut latest_end = 0;
            for sample in samples {
                let timed = &sample.timed;
                let route = timed.route.map(|route| position(&mut timeline.routes, route.name()));
                let (kernel, operator) = (kernels.place(&timed.kernel), strings.place(&timed.operator));
                let variant = [
                    Some(number(kernel)),
                    route,
                    Some(number(operator)),
                    Some(timed.node.into()),
                    Some(number(strings.place(&timed.shape))),
                ];
                let next = variants.len();
                let place = *variants.entry(variant).or_insert(next);
                if place == next {
                    timeline.variants.push(0, variant);
                }
                timeline.sequence.push(0, [Some(number(place))]);
                timeline.samples.push(place, numbers(sample, &mut latest_end));
            }
        }
        timeline.strings = strings.into_strings();
        timeline
    }

    fn add_run(&mut self, run: &RunProfile, dispatches: usize, pause: i64) {
        let host = run.host;
        let [prepare, encode, submit, wait, readback, wall] =
            [host.prepare_ns, host.encode_ns, host.submit_ns, host.wait_ns, host.readback_ns, host.wall_ns].map(whole);
        let row = [
            number(run.run),
            number(run.step),
            position(&mut self.modes, run.mode),
            number(dispatches),
            pause,
            prepare,
            encode,
            submit,
            wait,
            readback,
            wall - (prepare + encode + submit + wait + readback),
        ];
        self.runs.push(0, row.map(Some));
    }
}

/// A sample's row. The latest end is that of its run, and grows.
fn numbers(sample: &Sample, latest_end: &mut i64) -> [Option<i64>; 6] {
    let quality = Quality::ALL.iter().position(|&quality| quality == sample.quality).unwrap_or_default();
    let placed = sample.begin_ns.zip(sample.end_ns).map(|(begin, end)| (whole(begin), whole(end - begin)));
    let mut gap = None;
    let mut own = 0;
    if let Some((begin, length)) = placed {
        gap = Some(begin - *latest_end);
        own = (begin + length - begin.max(*latest_end)).max(0);
        *latest_end = (begin + length).max(*latest_end);
    }
    [
        Some(number(quality)),
        sample.timed.context_len.map(i64::from),
        Some(number(sample.timed.bytes)),
        gap,
        placed.map(|(_, length)| length),
        sample.duration_ns.map(|duration| whole(duration) - own),
    ]
}

/// The runs that are shown, and how many dispatches of each.
struct Shown<'p> {
    runs: Vec<&'p RunProfile>,
    most_a_run: usize,
}

impl<'p> Shown<'p> {
    /// Whole runs, evenly from the first to the last, as many as stay within the limits. Of two runs, which are shown
    /// where there are two, no more is left out than needs to be for `most` dispatches.
    fn of(runs: &'p [RunProfile], most: usize) -> Self {
        let mut shown = Self { runs: runs.iter().collect(), most_a_run: usize::MAX };
        let limit = most.min(MOST_SAMPLES);
        while shown.size() > limit && shown.runs.len() > 2 {
            let fits = shown.runs.len() * limit / shown.size();
            let wanted = fits.clamp(2, shown.runs.len() - 1);
            shown.runs = evenly(runs.len(), wanted).map(|place| &runs[place]).collect();
        }
        if shown.size() > most {
            shown.most_a_run = most / shown.runs.len();
        }
        shown
    }

    fn samples(&self, run: &'p RunProfile) -> &'p [Sample] {
        &run.samples[..run.samples.len().min(self.most_a_run)]
    }

    /// Dispatches, where a run without any counts as one.
    fn size(&self) -> usize {
        self.runs.iter().map(|run| self.samples(run).len().max(1)).sum()
    }
}

/// `wanted` of `count` places, first and last among them: at least two are wanted, and there are more.
fn evenly(count: usize, wanted: usize) -> impl Iterator<Item = usize> {
    (0..wanted).map(move |place| place * (count - 1) / (wanted - 1))
}

/// Puts the runs on one axis. A run that begins before the one before it has ended is of another session, and follows it.
#[derive(Default)]
struct Clock {
    offset_ns: f64,
    end_ns: Option<f64>,
    /// The end in whole ns.
    end: i64,
}

impl Clock {
    /// Whole ns from the end of the run before to the start of this one: 0 for the first.
    fn pause(&mut self, run: &RunProfile) -> i64 {
        let end_ns = self.end_ns.unwrap_or(0.0);
        if self.end_ns.is_none() || run.start_ns + self.offset_ns < end_ns {
            self.offset_ns = end_ns - run.start_ns;
        }
        let start_ns = run.start_ns + self.offset_ns;
        let pause = whole(start_ns) - self.end;
        self.end_ns = Some(start_ns + run.host.wall_ns);
        self.end = whole(start_ns) + whole(run.host.wall_ns);
        pause
    }
}

/// The place of a value, which is added where it is new.
fn position<T: PartialEq>(values: &mut Vec<T>, value: T) -> i64 {
    let place = values.iter().position(|known| *known == value).unwrap_or_else(|| {
        values.push(value);
        values.len() - 1
    });
    number(place)
}

/// Numbers that a column cannot hold become its largest.
fn number(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(LARGEST)
}

fn whole(value: f64) -> i64 {
    value.round().clamp(-LARGEST as f64, LARGEST as f64) as i64
}
