//! One timed dispatch, and all of a run's.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Quality, judge};
use crate::plan::Route;

/// Where timestamps are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimestampMode {
    /// Nowhere: the command stream is the plan's own.
    #[default]
    Off,
    /// At begin and end of a pass a dispatch. Every device with timestamps offers it; the passes themselves cost time
    /// between the dispatches.
    Pass,
    /// Inside a shared pass, before and after each dispatch, where the device offers it.
    Inside,
    /// At begin and end of each pass that the plan has by itself: the time that a run takes the device, undisturbed. A sample
    /// is a pass.
    Run,
}

impl TimestampMode {
    /// The name used in tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Pass => "pass",
            Self::Inside => "inside",
            Self::Run => "run",
        }
    }
}

impl std::fmt::Display for TimestampMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The raw stamps of a dispatch, in ticks of the device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickPair {
    /// Before the dispatch.
    pub begin: u64,
    /// After it.
    pub end: u64,
}

/// What is known of a dispatch before it is timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Number of the dispatch in its run.
    pub dispatch: u32,
    /// The kernel's label.
    pub kernel: Arc<str>,
    /// The route of attention it belongs to.
    pub route: Option<Route>,
    /// The operator it serves.
    pub operator: Arc<str>,
    /// The operator's node id in the delegate's graph.
    pub node: u32,
    /// The program's instruction that the operator comes from.
    pub instruction: u32,
    /// The live sizes that the kernel ran on, without the context.
    pub shape: Arc<str>,
    /// Keys in the cache after the step, for the kernels of attention.
    pub context_len: Option<u32>,
    /// Workgroups along x and y.
    pub workgroups: [u32; 2],
    /// Invocations of a workgroup.
    pub workgroup_size: u32,
    /// Bytes that it must move: each input read once, each output written once.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: u64,
}

/// One timed dispatch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What ran.
    #[serde(flatten)]
    pub timed: Timed,
    /// Raw stamps.
    pub ticks: TickPair,
    /// What the duration is worth.
    pub quality: Quality,
    /// Nanoseconds from the earliest stamp of the run to this dispatch's begin, where the stamps are in order.
    pub begin_ns: Option<f64>,
    /// Nanoseconds from the earliest stamp of the run to this dispatch's end, where the stamps are in order.
    pub end_ns: Option<f64>,
    /// Nanoseconds the dispatch took after what came before, where the stamps say. It counts in statistics only where
    /// the quality does.
    pub duration_ns: Option<f64>,
}

impl Sample {
    /// The duration, where it counts.
    pub fn counted_ns(&self) -> Option<f64> {
        self.duration_ns.filter(|_| self.quality.counts())
    }
}

/// Where the host's time of a run went, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostTimes {
    /// Checking inputs, inferring shapes, filling params, uploading inputs.
    pub prepare_ns: f64,
    /// Recording the commands.
    pub encode_ns: f64,
    /// Handing them to the queue.
    pub submit_ns: f64,
    /// Waiting for the device.
    pub wait_ns: f64,
    /// Copying results out of mapped memory.
    pub readback_ns: f64,
    /// From the call to its return.
    pub wall_ns: f64,
}

impl HostTimes {
    /// What of the wall time has no name.
    pub fn unattributed_ns(&self) -> f64 {
        let named = self.prepare_ns + self.encode_ns + self.submit_ns + self.wait_ns + self.readback_ns;
        self.wall_ns - named
    }
}

/// The clock of a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceClock {
    /// Nanoseconds a tick.
    pub period_ns: f64,
    /// The step of its stamps in ticks, found from the data: 1 where none was found.
    pub quantum_ticks: u64,
}

/// The samples of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunProfile {
    /// Number of the run in its session, from 0.
    pub run: u64,
    /// The caller's number for what ran, such as the step of a case; the run's number unless it was set.
    pub step: u64,
    /// Where the timestamps were taken.
    pub mode: TimestampMode,
    /// The clock that they were taken with.
    pub clock: DeviceClock,
    /// Nanoseconds of the host's clock from the making of the session to the call.
    pub start_ns: f64,
    /// Where the host's time went.
    pub host: HostTimes,
    /// One sample a dispatch, in order.
    pub samples: Vec<Sample>,
}

impl RunProfile {
    /// Nanoseconds of all dispatches that count, where at least one does.
    pub fn sum_ns(&self) -> Option<f64> {
        let mut durations = self.samples.iter().filter_map(Sample::counted_ns).peekable();
        durations.peek()?;
        Some(durations.sum())
    }

    /// Nanoseconds from the first begin to the last end, where at least one dispatch has both.
    pub fn span_ns(&self) -> Option<f64> {
        let first = self.samples.iter().filter_map(|sample| sample.begin_ns).reduce(f64::min)?;
        let last = self.samples.iter().filter_map(|sample| sample.end_ns).reduce(f64::max)?;
        Some(last - first)
    }

    /// Samples whose duration does not count.
    pub fn uncounted(&self) -> usize {
        self.samples.iter().filter(|sample| sample.counted_ns().is_none()).count()
    }
}

/// Puts dispatches and their stamps together. There is a pair of stamps a dispatch.
pub fn samples(timed: Vec<Timed>, stamps: &[TickPair], clock: DeviceClock) -> Vec<Sample> {
    let in_order = |ticks: &TickPair| (*ticks != TickPair { begin: 0, end: 0 }) && ticks.begin <= ticks.end;
    let origin = stamps.iter().filter(|ticks| in_order(ticks)).map(|ticks| ticks.begin).min().unwrap_or(0);
    let ns = |ticks: u64| ticks as f64 * clock.period_ns;
    let judged = judge(stamps, clock.quantum_ticks);
    let sample = |(timed, (&ticks, judged)): (Timed, (&TickPair, super::Judged))| {
        let placed = in_order(&ticks);
        Sample {
            timed,
            ticks,
            quality: judged.quality,
            begin_ns: placed.then(|| ns(ticks.begin - origin)),
            end_ns: placed.then(|| ns(ticks.end - origin)),
            duration_ns: judged.ticks.map(ns),
        }
    };
    timed.into_iter().zip(stamps.iter().zip(judged)).map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::timed;
    use super::*;

    fn profile(pairs: &[(u64, u64)], period_ns: f64) -> RunProfile {
        let stamps: Vec<TickPair> = pairs.iter().map(|&(begin, end)| TickPair { begin, end }).collect();
        let clock = DeviceClock { period_ns, quantum_ticks: 1 };
        let samples = samples(vec![timed("k"); pairs.len()], &stamps, clock);
        let host = HostTimes::default();
        RunProfile { run: 0, step: 0, mode: TimestampMode::Pass, clock, start_ns: 0.0, host, samples }
    }

    #[test]
    fn overlapping_kernels_are_not_counted_twice() {
        let run = profile(&[(100, 200), (150, 300), (400, 450)], 1.0);
        assert_eq!((run.sum_ns(), run.span_ns()), (Some(250.0), Some(350.0)));
        assert_eq!(run.samples[1].quality, Quality::OverlapRemoved);
        assert_eq!((run.samples[1].begin_ns, run.samples[1].duration_ns), (Some(50.0), Some(100.0)));
    }

    #[test]
    fn what_was_not_measured_has_no_numbers() {
        let run = profile(&[(0, 0), (9, 5)], 1.0);
        assert_eq!((run.sum_ns(), run.span_ns(), run.uncounted()), (None, None, 2));
        assert!(run.samples.iter().all(|sample| sample.duration_ns.is_none() && sample.begin_ns.is_none()));
    }

    #[test]
    fn periods_are_not_rounded_and_large_stamps_lose_nothing() {
        let base = u64::MAX - 1000;
        for period in [1.0, 0.4, 10.0, 52.083, 83.333] {
            assert_eq!(profile(&[(base, base + 3)], period).samples[0].duration_ns, Some(3.0 * period));
        }
    }

    #[test]
    fn what_has_no_name_is_reported() {
        let host = HostTimes {
            prepare_ns: 1.0,
            encode_ns: 2.0,
            submit_ns: 3.0,
            wait_ns: 4.0,
            readback_ns: 5.0,
            wall_ns: 20.0,
        };
        assert_eq!(host.unattributed_ns(), 5.0);
    }
}
