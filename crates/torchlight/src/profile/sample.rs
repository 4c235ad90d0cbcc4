//! One timed dispatch, and all of a run's.

use serde::{Deserialize, Serialize};

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
}

impl TimestampMode {
    /// The name used in tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Pass => "pass",
            Self::Inside => "inside",
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

/// What a duration is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quality {
    /// Two stamps, in order.
    Ok,
    /// The stamps were not written.
    NotMeasured,
    /// The end comes before the begin.
    Negative,
}

impl TickPair {
    /// What these stamps are worth.
    pub fn quality(self) -> Quality {
        match (self.begin, self.end) {
            (0, 0) => Quality::NotMeasured,
            (begin, end) if end < begin => Quality::Negative,
            _ => Quality::Ok,
        }
    }

    /// Nanoseconds between the stamps, or `None` where they do not measure anything: never 0 for want of a number.
    pub fn duration_ns(self, period_ns: f64) -> Option<f64> {
        (self.quality() == Quality::Ok).then(|| (self.end - self.begin) as f64 * period_ns)
    }
}

/// One timed dispatch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Number of the dispatch in its run.
    pub dispatch: u32,
    /// The kernel's label.
    pub kernel: String,
    /// The route of attention it belongs to.
    pub route: Option<Route>,
    /// The operator it serves.
    pub operator: String,
    /// The operator's node id in the delegate's graph.
    pub node: u32,
    /// Workgroups along x and y.
    pub workgroups: [u32; 2],
    /// Invocations of a workgroup.
    pub workgroup_size: u32,
    /// Raw stamps.
    pub ticks: TickPair,
    /// What the duration is worth.
    pub quality: Quality,
    /// Nanoseconds from the earliest stamp of the run to this dispatch's begin.
    pub begin_ns: Option<f64>,
    /// Nanoseconds from the earliest stamp of the run to this dispatch's end.
    pub end_ns: Option<f64>,
    /// Nanoseconds the dispatch took, where the stamps say.
    pub duration_ns: Option<f64>,
}

/// The samples of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunProfile {
    /// Number of the run in its session, from 0.
    pub run: u64,
    /// Where the timestamps were taken.
    pub mode: TimestampMode,
    /// Nanoseconds a tick.
    pub period_ns: f64,
    /// One sample a dispatch, in order.
    pub samples: Vec<Sample>,
}

impl RunProfile {
    /// Nanoseconds of all dispatches together, where at least one was measured.
    pub fn sum_ns(&self) -> Option<f64> {
        let mut durations = self.samples.iter().filter_map(|sample| sample.duration_ns).peekable();
        durations.peek()?;
        Some(durations.sum())
    }

    /// Nanoseconds from the first begin to the last end, where at least one dispatch was measured.
    pub fn span_ns(&self) -> Option<f64> {
        let good = || self.samples.iter().filter(|sample| sample.quality == Quality::Ok).map(|sample| sample.ticks);
        let first = good().map(|ticks| ticks.begin).min()?;
        let last = good().map(|ticks| ticks.end).max()?;
        Some((last - first) as f64 * self.period_ns)
    }

    /// Samples without a duration.
    pub fn unmeasured(&self) -> usize {
        self.samples.iter().filter(|sample| sample.duration_ns.is_none()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_that_measure_nothing_have_no_duration() {
        let pair = |begin, end| TickPair { begin, end };
        assert_eq!(pair(0, 0).quality(), Quality::NotMeasured);
        assert_eq!(pair(0, 0).duration_ns(1.0), None);
        assert_eq!(pair(9, 5).quality(), Quality::Negative);
        assert_eq!(pair(9, 5).duration_ns(1.0), None);
        assert_eq!(pair(5, 5).duration_ns(1.0), Some(0.0));
        assert_eq!(pair(0, 7).duration_ns(10.0), Some(70.0));
    }

    #[test]
    fn periods_are_not_rounded_and_large_stamps_lose_nothing() {
        let base = u64::MAX - 1000;
        for period in [1.0, 0.4, 10.0, 52.083, 83.333] {
            let ticks = TickPair { begin: base, end: base + 3 };
            assert_eq!(ticks.duration_ns(period), Some(3.0 * period));
        }
    }
}
