//! Samples of many runs, summed up a kernel.

use serde::{Deserialize, Serialize};

use super::{RunProfile, TimestampMode};

/// The profiles of a session's runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// One entry a run, in order.
    pub runs: Vec<RunProfile>,
    /// Runs that were not kept, since nobody took the profiles of earlier ones.
    pub dropped_runs: u64,
}

/// What one kernel cost in all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelSummary {
    /// The kernel's label.
    pub kernel: String,
    /// Dispatches, the unmeasured ones included.
    pub dispatches: u64,
    /// Dispatches without a duration: they are in no figure.
    pub unmeasured: u64,
    /// Mean nanoseconds of a measured dispatch, where there is one.
    pub mean_ns: Option<f64>,
    /// Nanoseconds of all measured dispatches, where there is one.
    pub total_ns: Option<f64>,
    /// Share of all kernels' total, from 0 to 1, where there is one.
    pub share: Option<f64>,
}

impl Profile {
    /// The mode of the runs, where there is a run.
    pub fn mode(&self) -> Option<TimestampMode> {
        self.runs.first().map(|run| run.mode)
    }

    /// One summary a kernel, in the order in which kernels first ran.
    pub fn kernels(&self) -> Vec<KernelSummary> {
        let mut kernels: Vec<KernelSummary> = Vec::new();
        for sample in self.runs.iter().flat_map(|run| &run.samples) {
            let position = kernels.iter().position(|kernel| kernel.kernel == sample.kernel).unwrap_or_else(|| {
                kernels.push(KernelSummary {
                    kernel: sample.kernel.clone(),
                    dispatches: 0,
                    unmeasured: 0,
                    mean_ns: None,
                    total_ns: None,
                    share: None,
                });
                kernels.len() - 1
            });
            let kernel = &mut kernels[position];
            kernel.dispatches += 1;
            match sample.duration_ns {
                Some(duration) => *kernel.total_ns.get_or_insert(0.0) += duration,
                None => kernel.unmeasured += 1,
            }
        }
        let all: f64 = kernels.iter().filter_map(|kernel| kernel.total_ns).sum();
        for kernel in &mut kernels {
            let measured = (kernel.dispatches - kernel.unmeasured) as f64;
            kernel.mean_ns = kernel.total_ns.map(|total| total / measured);
            kernel.share = kernel.total_ns.filter(|_| all > 0.0).map(|total| total / all);
        }
        kernels
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Quality, Sample, TickPair};
    use super::*;

    fn sample(kernel: &str, duration_ns: Option<f64>) -> Sample {
        Sample {
            dispatch: 0,
            kernel: kernel.into(),
            route: None,
            operator: "add".into(),
            node: 0,
            workgroups: [1, 1],
            workgroup_size: 64,
            ticks: TickPair { begin: 0, end: 0 },
            quality: if duration_ns.is_some() { Quality::Ok } else { Quality::NotMeasured },
            begin_ns: None,
            end_ns: None,
            duration_ns,
        }
    }

    #[test]
    fn unmeasured_samples_are_counted_and_left_out() {
        let samples = vec![sample("a", Some(10.0)), sample("b", None), sample("a", None), sample("a", Some(30.0))];
        let run = RunProfile { run: 0, mode: TimestampMode::Pass, period_ns: 1.0, samples };
        let kernels = Profile { runs: vec![run], dropped_runs: 0 }.kernels();
        assert_eq!((kernels[0].dispatches, kernels[0].unmeasured), (3, 1));
        assert_eq!((kernels[0].mean_ns, kernels[0].total_ns, kernels[0].share), (Some(20.0), Some(40.0), Some(1.0)));
        assert_eq!((kernels[1].mean_ns, kernels[1].total_ns, kernels[1].share), (None, None, None));
    }
}
