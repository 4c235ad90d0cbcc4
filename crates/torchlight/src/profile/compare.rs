//! Two profiles side by side: which kernels became faster or slower, and whether that is more than noise.
//!
//! A key's time is the median of its durations. How well the ratio of two medians is known is found by bootstrap: both
//! sides are resampled with replacement many times, and the interval holds the middle 95 % of the ratios of their medians
//! (the percentile interval). A key changed where the interval does not hold 1, and where the change is more than the
//! clock and the method can tell. The random numbers are seeded: the same profiles compare the same.
//!
//! Three things the interval does not know.
//!
//! - It sees the noise within the two profiles, as if each duration were independent of the one before, and not what
//!   became of the machine between them: its clocks, its heat, other work on it. The least change that counts,
//!   [`CompareOptions::resolution`], is a floor and no measure of that: two profiles of the same program are.
//! - It is each key's own: of many keys that did not change, about one in 20 seems to.
//! - It asks what the kernels took, not why: within a context bucket, profiles of different workloads differ in what their
//!   kernels had to do.

mod bootstrap;

use std::collections::BTreeMap;
use std::fmt;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use self::bootstrap::Resampler;
use super::{Adapter, Durations, Key, Profile, TimestampMode};

/// How to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareOptions {
    /// Resamples of each key.
    pub resamples: usize,
    /// The share of resampled ratios that the interval holds, between 0 and 1.
    pub confidence: f64,
    /// The fewest durations of a key, on either side, from which an interval is made.
    pub min_durations: usize,
    /// The least relative change that counts, whatever the interval: 0.01 is 1 %.
    ///
    /// The default is 5 %. Profiles of one program, taken one after the other on an NVIDIA H200, differed by up to 6 %
    /// in kernels of 5 µs.
    pub resolution: f64,
    /// Where the random numbers start.
    pub seed: u64,
    /// Whether profiles of different adapters or back ends are compared at all.
    pub allow_different_adapters: bool,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            resamples: 2000,
            confidence: 0.95,
            min_durations: 8,
            resolution: 0.05,
            seed: 1,
            allow_different_adapters: false,
        }
    }
}

/// Why two profiles cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// They are of different devices.
    #[error("the profiles are of different adapters: {before}, and {after}")]
    Adapters {
        /// Name and back end of the first.
        before: String,
        /// Name and back end of the second.
        after: String,
    },
    /// Their timestamps mean different things.
    #[error("timestamps were taken in different modes, {before} and {after}: their durations are not comparable")]
    Modes {
        /// The mode of the first.
        before: TimestampMode,
        /// The mode of the second, or of a run in between.
        after: TimestampMode,
    },
}

/// Something to know about a comparison that was made all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Note {
    /// The profiles are of different adapters or back ends, which was allowed.
    DifferentAdapters {
        /// Name and back end of the first.
        before: String,
        /// Name and back end of the second.
        after: String,
    },
    /// The drivers differ.
    DifferentDrivers {
        /// Driver of the first.
        before: String,
        /// Driver of the second.
        after: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DifferentAdapters { before, after } => write!(f, "different adapters: {before}, and {after}"),
            Self::DifferentDrivers { before, after } => write!(f, "different drivers: {before}, and {after}"),
        }
    }
}

/// What became of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It takes longer.
    Slower,
    /// It takes less time.
    Faster,
    /// No change can be told from noise.
    Noise,
    /// Too few durations were measured to tell.
    TooFew,
}

impl Verdict {
    /// The name used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Noise => "noise",
            Self::TooFew => "too few",
        }
    }
}

/// Where a ratio lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// A key on one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Dispatches whose duration counts.
    pub counted: u64,
    /// Durations of them that the profile keeps: the median and the interval are made of these.
    pub durations: usize,
    /// The median in ns, where there is one: the mean of the two in the middle of an even number.
    pub median_ns: Option<f64>,
}

/// A key that both profiles have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyComparison {
    /// What is compared.
    #[serde(flatten)]
    pub key: Key,
    /// In the first profile.
    pub before: Side,
    /// In the second.
    pub after: Side,
    /// The median after over the median before, where both are known.
    pub ratio: Option<f64>,
    /// Where that ratio lies, unless there are too few durations.
    pub interval: Option<Interval>,
    /// What became of it.
    pub verdict: Verdict,
}

impl KeyComparison {
    /// Nanoseconds that the first profile's dispatches take at the median before.
    pub fn before_ns(&self) -> Option<f64> {
        Some(self.before.counted as f64 * self.before.median_ns?)
    }

    /// Nanoseconds that the first profile's dispatches would take at the median after.
    pub fn after_ns(&self) -> Option<f64> {
        Some(self.before.counted as f64 * self.after.median_ns?)
    }

    /// Nanoseconds that the change costs, over as many dispatches as the first profile has: less than 0 where it saves.
    pub fn cost_ns(&self) -> Option<f64> {
        Some(self.after_ns()? - self.before_ns()?)
    }
}

/// All keys that have an interval, together. Each weighs as many dispatches as the first profile has of it, so that it does
/// not matter which of the profiles is of more runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// How many keys they are.
    pub keys: usize,
    /// Nanoseconds at the medians before.
    pub before_ns: f64,
    /// Nanoseconds at the medians after.
    pub after_ns: f64,
    /// The one over the other.
    pub ratio: f64,
    /// Where that ratio lies.
    pub interval: Interval,
    /// What became of it.
    pub verdict: Verdict,
}

/// Two profiles side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The device of the first profile.
    pub before: Adapter,
    /// The device of the second.
    pub after: Adapter,
    /// Where timestamps were taken.
    pub mode: TimestampMode,
    /// What to know before believing it.
    pub notes: Vec<Note>,
    /// The share of resampled ratios that every interval holds.
    pub confidence: f64,
    /// The least relative change that counts.
    pub resolution: f64,
    /// The coarser clock's step in ns, where the profiles say: a change of one step does not count.
    pub clock_step_ns: Option<f64>,
    /// Keys of both, in their order.
    pub keys: Vec<KeyComparison>,
    /// Keys of the first alone.
    pub only_before: Vec<Key>,
    /// Keys of the second alone.
    pub only_after: Vec<Key>,
    /// All keys together, where one has an interval.
    pub total: Option<Total>,
}

impl Comparison {
    /// Keys that became slower by more than a share of their time, 0.05 for 5 %: all of the interval lies above.
    pub fn regressions(&self, threshold: f64) -> impl Iterator<Item = &KeyComparison> {
        self.keys.iter().filter(move |key| {
            key.verdict == Verdict::Slower && key.interval.is_some_and(|interval| interval.low > 1.0 + threshold)
        })
    }
}

/// Compares two profiles, key by key.
///
/// # Errors
/// [`CompareError::Adapters`] for different adapters or back ends, unless the options allow them. A different driver is
/// noted. [`CompareError::Modes`] for timestamps of different modes.
pub fn compare(before: &Profile, after: &Profile, options: &CompareOptions) -> Result<Comparison, CompareError> {
    let mode = common_mode(before, after)?;
    let notes = adapter_notes(&before.adapter, &after.adapter, options)?;
    let clock_step_ns = clock_step_ns(before, after);
    let mut comparer = Comparer {
        options,
        clock_step_ns: clock_step_ns.unwrap_or(0.0),
        random: Rng::with_seed(options.seed),
        totals: Totals { resamples: vec![(0.0, 0.0); options.resamples], ..Totals::default() },
    };
    let (befores, mut afters) = (by_key(before), by_key(after));
    let (mut keys, mut only_before) = (Vec::new(), Vec::new());
    for (key, durations) in befores {
        match afters.remove(key) {
            Some(after) => keys.push(comparer.compare(key, durations, after)),
            None => only_before.push(key.clone()),
        }
    }
    Ok(Comparison {
        before: before.adapter.clone(),
        after: after.adapter.clone(),
        mode,
        notes,
        confidence: options.confidence,
        resolution: options.resolution,
        clock_step_ns,
        keys,
        only_before,
        only_after: afters.into_keys().cloned().collect(),
        total: comparer.total(),
    })
}

/// The one mode of both profiles, and of each run.
fn common_mode(before: &Profile, after: &Profile) -> Result<TimestampMode, CompareError> {
    let runs = before.runs.iter().chain(&after.runs).map(|run| run.mode);
    match [after.mode].into_iter().chain(runs).find(|&mode| mode != before.mode) {
        Some(after) => Err(CompareError::Modes { before: before.mode, after }),
        None => Ok(before.mode),
    }
}

fn adapter_notes(before: &Adapter, after: &Adapter, options: &CompareOptions) -> Result<Vec<Note>, CompareError> {
    let name = |adapter: &Adapter| format!("{} ({})", adapter.name, adapter.backend);
    if name(before) != name(after) {
        let (before, after) = (name(before), name(after));
        if !options.allow_different_adapters {
            return Err(CompareError::Adapters { before, after });
        }
        return Ok(vec![Note::DifferentAdapters { before, after }]);
    }
    if before.driver != after.driver {
        let (before, after) = (before.driver.clone(), after.driver.clone());
        return Ok(vec![Note::DifferentDrivers { before, after }]);
    }
    Ok(Vec::new())
}

fn clock_step_ns(before: &Profile, after: &Profile) -> Option<f64> {
    let clocks = before.runs.iter().chain(&after.runs).map(|run| run.clock);
    clocks.map(|clock| clock.period_ns * clock.quantum_ticks as f64).reduce(f64::max)
}

fn by_key(profile: &Profile) -> BTreeMap<&Key, &Durations> {
    profile.statistics.iter().map(|entry| (&entry.key, &entry.durations)).collect()
}

/// Compares one key after the other, and adds them up.
struct Comparer<'o> {
    options: &'o CompareOptions,
    clock_step_ns: f64,
    random: Rng,
    totals: Totals,
}

/// Sums over keys, in ns: of medians, and of every resample's medians.
#[derive(Default)]
struct Totals {
    keys: usize,
    before_ns: f64,
    after_ns: f64,
    /// Squares of what one step of the clock is worth: medians of different keys are rounded independently.
    step_squares: f64,
    resamples: Vec<(f64, f64)>,
}

impl Comparer<'_> {
    fn compare(&mut self, key: &Key, before: &Durations, after: &Durations) -> KeyComparison {
        let resamplers = [before, after].map(|durations| Resampler::new(&durations.reservoir));
        let side = |durations: &Durations, resampler: &Resampler| Side {
            counted: durations.counted,
            durations: resampler.len(),
            median_ns: resampler.median(),
        };
        let (before, after) = (side(before, &resamplers[0]), side(after, &resamplers[1]));
        let mut comparison =
            KeyComparison { key: key.clone(), before, after, ratio: None, interval: None, verdict: Verdict::TooFew };
        let (Some(before_ns), Some(after_ns)) = (before.median_ns, after.median_ns) else { return comparison };
        comparison.ratio = Some(after_ns / before_ns);
        if before.durations.min(after.durations) < self.options.min_durations {
            return comparison;
        }
        let weight = before.counted as f64;
        if let Some(interval) = self.resample(&resamplers, weight) {
            comparison.interval = Some(interval);
            comparison.verdict = self.verdict((before_ns, after_ns), interval, self.clock_step_ns);
            self.totals.keys += 1;
            self.totals.before_ns += weight * before_ns;
            self.totals.after_ns += weight * after_ns;
            self.totals.step_squares += (weight * self.clock_step_ns).powi(2);
        }
        comparison
    }

    /// The interval of a key's ratio. What each resample gives is added to the totals.
    fn resample(&mut self, [before, after]: &[Resampler; 2], weight: f64) -> Option<Interval> {
        let mut ratios = Vec::with_capacity(self.totals.resamples.len());
        for (before_total, after_total) in &mut self.totals.resamples {
            let before_ns = before.resampled_median(&mut self.random)?;
            let after_ns = after.resampled_median(&mut self.random)?;
            ratios.push(after_ns / before_ns);
            *before_total += weight * before_ns;
            *after_total += weight * after_ns;
        }
        percentile_interval(ratios, self.options.confidence)
    }

    fn verdict(&self, (before_ns, after_ns): (f64, f64), interval: Interval, step_ns: f64) -> Verdict {
        let change_ns = (after_ns - before_ns).abs();
        // A step is a sum of products: allow for their rounding.
        let within_step = change_ns <= step_ns * (1.0 + 1e-9);
        let within_resolution = change_ns < self.options.resolution * before_ns;
        let held = interval.low <= 1.0 && 1.0 <= interval.high;
        match () {
            () if within_step || within_resolution || held => Verdict::Noise,
            () if after_ns > before_ns => Verdict::Slower,
            () => Verdict::Faster,
        }
    }

    fn total(self) -> Option<Total> {
        let Totals { keys, before_ns, after_ns, step_squares, resamples } = &self.totals;
        let (keys, before_ns, after_ns) = (*keys, *before_ns, *after_ns);
        if keys == 0 || before_ns <= 0.0 {
            return None;
        }
        let ratios = resamples.iter().map(|(before, after)| after / before).collect();
        let interval = percentile_interval(ratios, self.options.confidence)?;
        let verdict = self.verdict((before_ns, after_ns), interval, step_squares.sqrt());
        Some(Total { keys, before_ns, after_ns, ratio: after_ns / before_ns, interval, verdict })
    }
}

/// The middle of the ratios, where there are any.
fn percentile_interval(mut ratios: Vec<f64>, confidence: f64) -> Option<Interval> {
    ratios.sort_by(f64::total_cmp);
    let last = ratios.len().checked_sub(1)?;
    let outside = ((1.0 - confidence) / 2.0 * ratios.len() as f64) as usize;
    let outside = outside.min(last / 2);
    Some(Interval { low: *ratios.get(outside)?, high: *ratios.get(last - outside)? })
}

#[cfg(test)]
mod tests;
