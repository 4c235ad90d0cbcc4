//! A profile: samples of the latest runs, and statistics of all.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Durations, Key, RunProfile, TimestampMode};
use crate::plan::DeviceFacts;

/// The device that a profile is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapter {
    /// The adapter's name.
    pub name: String,
    /// The wgpu back end.
    pub backend: String,
    /// Driver and its version.
    pub driver: String,
    /// Whether it is a CPU that plays GPU.
    pub is_cpu: bool,
}

impl From<&DeviceFacts> for Adapter {
    fn from(facts: &DeviceFacts) -> Self {
        let DeviceFacts { name, backend, driver, is_cpu, .. } = facts.clone();
        Self { name, backend, driver, is_cpu }
    }
}

/// What a device was measured to do: the ceilings that kernels are held against.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Bytes read and written by a large copy, in GB/s.
    pub copy_gbps: f64,
    /// Multiply-adds on registers, in GFLOP/s; a multiply-add is two operations.
    pub f32_gflops: f64,
    /// The same in f16, where shaders may use it.
    #[serde(default)]
    pub f16_gflops: Option<f64>,
    /// Products of 16 x 16 matrices of f16 with f32 sums, in GFLOP/s, where the device has cooperative matrices.
    #[serde(default)]
    pub matrix_gflops: Option<f64>,
}

/// The statistics of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyStatistics {
    /// What they are of.
    #[serde(flatten)]
    pub key: Key,
    /// The statistics.
    #[serde(flatten)]
    pub durations: Durations,
}

/// What runs cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The device.
    pub adapter: Adapter,
    /// What the device was measured to do, where that is known.
    pub peaks: Option<Peaks>,
    /// Where the timestamps of the latest timed run were taken; off where none was.
    pub mode: TimestampMode,
    /// How often the caller ran each step before, without timestamps.
    pub warmup: u32,
    /// The latest runs, in order, as many as were kept.
    pub runs: Vec<RunProfile>,
    /// Runs whose samples were not kept. They are in the statistics, unless their stamps were never read.
    pub dropped_runs: u64,
    /// Runs that were not timed, since the results of too many earlier ones were still under way.
    pub untimed_runs: u64,
    /// Statistics of all timed runs, in the order of keys.
    pub statistics: Vec<KeyStatistics>,
}

/// What one kernel cost in all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSummary {
    /// The kernel's label.
    pub kernel: Arc<str>,
    /// Its durations, over all routes, shapes and contexts.
    pub durations: Durations,
    /// Share of all kernels' total, from 0 to 1, where something counts.
    pub share: Option<f64>,
}

impl Profile {
    /// Adds the runs and statistics of another session on the same device.
    pub fn merge(&mut self, other: Self) {
        self.adapter = other.adapter;
        if other.mode != TimestampMode::Off {
            self.mode = other.mode;
        }
        self.runs.extend(other.runs);
        self.dropped_runs += other.dropped_runs;
        self.untimed_runs += other.untimed_runs;
        let mut by_key: BTreeMap<Key, Durations> =
            self.statistics.drain(..).map(|entry| (entry.key, entry.durations)).collect();
        for entry in other.statistics {
            by_key.entry(entry.key).or_default().merge(&entry.durations);
        }
        self.statistics = by_key.into_iter().map(|(key, durations)| KeyStatistics { key, durations }).collect();
    }

    /// One summary a kernel: in the order of the latest runs, then the others.
    pub fn kernels(&self) -> Vec<KernelSummary> {
        let mut kernels: Vec<KernelSummary> = Vec::new();
        let first_runs = self.runs.iter().take(64).flat_map(|run| &run.samples).map(|sample| &sample.timed.kernel);
        for kernel in first_runs.chain(self.statistics.iter().map(|entry| &entry.key.kernel)) {
            if !kernels.iter().any(|known| known.kernel == *kernel) {
                kernels.push(KernelSummary { kernel: kernel.clone(), durations: Durations::default(), share: None });
            }
        }
        for entry in &self.statistics {
            if let Some(kernel) = kernels.iter_mut().find(|kernel| kernel.kernel == entry.key.kernel) {
                kernel.durations.merge(&entry.durations);
            }
        }
        let all = self.total_ns();
        for kernel in &mut kernels {
            let counts = kernel.durations.counted > 0 && all > 0.0;
            kernel.share = counts.then(|| kernel.durations.total_ns / all);
        }
        kernels
    }

    /// Nanoseconds of all dispatches that count.
    pub fn total_ns(&self) -> f64 {
        self.statistics.iter().map(|entry| entry.durations.total_ns).sum()
    }

    /// Statistics of some runs alone, as of one step of a case.
    pub fn of_runs<'r>(&self, runs: impl IntoIterator<Item = &'r RunProfile>) -> Self {
        let mut by_key: BTreeMap<Key, Durations> = BTreeMap::new();
        let mut kept = Vec::new();
        let mut mode = self.mode;
        for run in runs {
            mode = run.mode;
            for sample in &run.samples {
                by_key.entry(Key::of(sample)).or_default().add(sample);
            }
            kept.push(run.clone());
        }
        let statistics = by_key.into_iter().map(|(key, durations)| KeyStatistics { key, durations }).collect();
        Self {
            adapter: self.adapter.clone(),
            mode,
            peaks: self.peaks,
            warmup: self.warmup,
            runs: kept,
            statistics,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, sample};
    use super::*;

    #[test]
    fn kernels_keep_their_order_and_what_does_not_count_has_no_share() {
        let samples = vec![sample("z", Some(10.0)), sample("b", None), sample("z", None), sample("z", Some(30.0))];
        let profile = Profile::default().of_runs([&run(samples)]);
        let kernels = profile.kernels();
        let names: Vec<&str> = kernels.iter().map(|kernel| &*kernel.kernel).collect();
        assert_eq!(names, ["z", "b"]);
        assert_eq!((kernels[0].durations.dispatches, kernels[0].durations.counted), (3, 2));
        assert_eq!((kernels[0].durations.mean_ns(), kernels[0].share), (Some(20.0), Some(1.0)));
        assert_eq!((kernels[1].durations.mean_ns(), kernels[1].share), (None, None));
    }

    #[test]
    fn merging_profiles_adds_their_statistics() {
        let one = |duration| Profile::default().of_runs([&run(vec![sample("k", Some(duration))])]);
        let mut both = one(10.0);
        both.merge(one(30.0));
        assert_eq!((both.runs.len(), both.statistics.len()), (2, 1));
        assert_eq!(both.kernels()[0].durations.mean_ns(), Some(20.0));
    }
}
