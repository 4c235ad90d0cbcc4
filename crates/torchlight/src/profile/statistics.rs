//! Durations summed up as they come: exact counts, extremes and totals, and quantiles of a seeded sample.
//!
//! Memory is bounded: a key keeps at most [`RESERVOIR_CAPACITY`] durations, however many there were.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Quality, Sample};
use crate::plan::Route;

/// The most durations that a key keeps.
pub const RESERVOIR_CAPACITY: usize = 4096;

/// What durations are grouped by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The kernel's label.
    pub kernel: Arc<str>,
    /// The route of attention.
    pub route: Option<Route>,
    /// The live sizes that the kernel ran on, without the context.
    pub shape: Arc<str>,
    /// The largest power of two that is not above the context, for kernels that have one.
    pub context_bucket: Option<u32>,
}

impl Key {
    /// The key of a sample.
    pub fn of(sample: &Sample) -> Self {
        let timed = &sample.timed;
        Self {
            kernel: timed.kernel.clone(),
            route: timed.route,
            shape: timed.shape.clone(),
            context_bucket: timed.context_len.and_then(u32::checked_ilog2).map(|log| 1 << log),
        }
    }
}

/// The durations of one key, or of several together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Durations {
    /// Dispatches, those that do not count included.
    pub dispatches: u64,
    /// Dispatches whose duration counts.
    pub counted: u64,
    /// Dispatches of each quality but ok.
    pub flagged: BTreeMap<Quality, u64>,
    /// Nanoseconds of all that count.
    pub total_ns: f64,
    /// Nanoseconds of the shortest that counts.
    pub min_ns: Option<f64>,
    /// Nanoseconds of the longest that counts.
    pub max_ns: Option<f64>,
    /// Bytes that the kernel had to move in all that count.
    pub bytes: f64,
    /// Floating-point operations of all that count.
    pub flops: f64,
    /// A uniform sample of the durations that count, in ns: all of them, up to [`RESERVOIR_CAPACITY`].
    pub reservoir: Vec<f64>,
    /// State of the generator that chooses the sample: the same runs keep the same durations.
    random: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            dispatches: 0,
            counted: 0,
            flagged: BTreeMap::new(),
            total_ns: 0.0,
            min_ns: None,
            max_ns: None,
            bytes: 0.0,
            flops: 0.0,
            reservoir: Vec::new(),
            random: 1,
        }
    }
}

impl Durations {
    /// Counts a sample.
    pub fn add(&mut self, sample: &Sample) {
        self.dispatches += 1;
        if sample.quality != Quality::Ok {
            *self.flagged.entry(sample.quality).or_default() += 1;
        }
        let Some(duration) = sample.counted_ns() else { return };
        self.counted += 1;
        self.total_ns += duration;
        self.min_ns = smaller(self.min_ns, Some(duration));
        self.max_ns = larger(self.max_ns, Some(duration));
        self.bytes += sample.timed.bytes as f64;
        self.flops += sample.timed.flops as f64;
        self.keep(duration);
    }

    /// Adds the durations of another key, or of another session.
    pub fn merge(&mut self, other: &Self) {
        let (ours, theirs) = (self.counted, other.counted);
        self.dispatches += other.dispatches;
        self.counted += theirs;
        for (&quality, count) in &other.flagged {
            *self.flagged.entry(quality).or_default() += count;
        }
        self.total_ns += other.total_ns;
        self.min_ns = smaller(self.min_ns, other.min_ns);
        self.max_ns = larger(self.max_ns, other.max_ns);
        self.bytes += other.bytes;
        self.flops += other.flops;
        if self.reservoir.len() + other.reservoir.len() <= RESERVOIR_CAPACITY {
            self.reservoir.extend(&other.reservoir);
            return;
        }
        // Each side keeps its share of what it stands for.
        let share = |counted: u64| (RESERVOIR_CAPACITY as f64 * counted as f64 / (ours + theirs) as f64) as usize;
        let mut generator = fastrand::Rng::with_seed(self.random);
        let mut kept = generator.choose_multiple(self.reservoir.iter().copied(), share(ours));
        kept.extend(generator.choose_multiple(other.reservoir.iter().copied(), share(theirs)));
        self.random = generator.u64(..);
        self.reservoir = kept;
    }

    /// Algorithm R: the n-th duration takes a random place with probability capacity / n.
    fn keep(&mut self, duration: f64) {
        if self.reservoir.len() < RESERVOIR_CAPACITY {
            self.reservoir.push(duration);
            return;
        }
        let mut generator = fastrand::Rng::with_seed(self.random);
        let place = generator.u64(..self.counted);
        self.random = generator.u64(..);
        if let Some(kept) = usize::try_from(place).ok().and_then(|place| self.reservoir.get_mut(place)) {
            *kept = duration;
        }
    }

    /// Mean nanoseconds, where something counts.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.counted > 0).then(|| self.total_ns / self.counted as f64)
    }

    /// Quantiles of the kept durations in ns, by the nearest rank: 0.5 is the median.
    pub fn quantiles_ns<const N: usize>(&self, quantiles: [f64; N]) -> [Option<f64>; N] {
        let mut sorted = self.reservoir.clone();
        sorted.sort_by(f64::total_cmp);
        quantiles.map(|quantile| {
            let rank = (quantile * sorted.len() as f64).ceil().max(1.0) as usize;
            sorted.get(rank - 1).copied()
        })
    }

    /// Bytes a nanosecond, which is GB/s, where something counts and takes time.
    pub fn bandwidth_gbps(&self) -> Option<f64> {
        (self.total_ns > 0.0).then(|| self.bytes / self.total_ns)
    }

    /// Floating-point operations a nanosecond, which is GFLOP/s, where something counts and takes time.
    pub fn gflops(&self) -> Option<f64> {
        (self.total_ns > 0.0).then(|| self.flops / self.total_ns)
    }
}

fn smaller(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::min)
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::testing::sample;
    use super::*;

    fn durations(values: impl IntoIterator<Item = f64>) -> Durations {
        let mut durations = Durations::default();
        values.into_iter().for_each(|value| durations.add(&sample("k", Some(value))));
        durations
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let durations = durations((1..=100).map(f64::from));
        assert_eq!(durations.quantiles_ns([0.5, 0.9, 0.99, 1.0]), [50.0, 90.0, 99.0, 100.0].map(Some));
        assert_eq!((durations.min_ns, durations.max_ns, durations.mean_ns()), (Some(1.0), Some(100.0), Some(50.5)));
        assert_eq!(Durations::default().quantiles_ns([0.5]), [None]);
    }

    #[test]
    fn a_million_durations_keep_a_bounded_and_fair_sample() {
        let million = durations((0..1_000_000).map(f64::from));
        assert_eq!((million.counted, million.reservoir.len()), (1_000_000, RESERVOIR_CAPACITY));
        let [median] = million.quantiles_ns([0.5]);
        assert!((median.unwrap() - 500_000.0).abs() < 30_000.0, "{median:?}");
        assert_eq!(million, durations((0..1_000_000).map(f64::from)), "the sample is seeded");
    }

    #[test]
    fn merging_weighs_by_what_each_stands_for() {
        let mut many = durations((0..90_000).map(|_| 1.0));
        many.merge(&durations((0..10_000).map(|_| 2.0)));
        let twos = many.reservoir.iter().filter(|&&value| value == 2.0).count();
        assert!(twos.abs_diff(RESERVOIR_CAPACITY / 10) <= 1, "{twos}");
        assert_eq!((many.counted, many.total_ns), (100_000, 110_000.0));
    }

    #[test]
    fn what_does_not_count_is_counted_apart() {
        let mut durations = durations([10.0, 30.0]);
        durations.add(&sample("k", None));
        assert_eq!((durations.dispatches, durations.counted), (3, 2));
        assert_eq!(durations.flagged, BTreeMap::from([(Quality::NotMeasured, 1)]));
        assert_eq!(durations.mean_ns(), Some(20.0));
    }
}
