//! The profile of a session: stamps under way, the latest samples, statistics of all. Its memory is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::error::Result;
use crate::gpu::{Stamps, passes};
use crate::graph::{Graph, Live};
use crate::kernels::Grid;
use crate::plan::{Described, DeviceFacts, Dispatch, Plan};
use crate::profile::{Adapter, DeviceClock, Durations, HostTimes, Key, KeyStatistics, Profile, Quantum};
use crate::profile::{RunProfile, TickPair, Timed, TimestampMode, samples};

/// What is known of a run when it is submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunFacts {
    pub(super) mode: TimestampMode,
    pub(super) start_ns: f64,
    pub(super) host: HostTimes,
}

/// When a run came how far, on the host's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    /// It was called.
    pub(super) begun_ns: f64,
    /// It was submitted, and began to wait.
    pub(super) waiting_ns: f64,
    /// The device was done.
    pub(super) arrived_ns: f64,
}

/// A timed run whose stamps are under way.
#[derive(Debug)]
struct UnderWay {
    run: u64,
    step: u64,
    facts: RunFacts,
    timed: Vec<Timed>,
    stamps: Stamps,
}

/// Collects the profile of a session.
#[derive(Debug)]
pub(super) struct Profiler {
    adapter: Adapter,
    period_ns: f64,
    quantum: Quantum,
    mode: TimestampMode,
    step: Option<u64>,
    runs: u64,
    under_way: VecDeque<UnderWay>,
    kept: VecDeque<RunProfile>,
    kept_samples: usize,
    capacity_samples: usize,
    dropped_runs: u64,
    untimed_runs: u64,
    statistics: BTreeMap<Key, Durations>,
}

impl Profiler {
    /// Keeps the samples of the latest runs, as long as these are at most `capacity_samples`.
    pub(super) fn new(facts: &DeviceFacts, capacity_samples: usize) -> Self {
        Self {
            adapter: Adapter::from(facts),
            period_ns: facts.timestamp_period_ns.unwrap_or(1.0),
            quantum: Quantum::default(),
            mode: TimestampMode::Off,
            step: None,
            runs: 0,
            under_way: VecDeque::new(),
            kept: VecDeque::new(),
            kept_samples: 0,
            capacity_samples,
            dropped_runs: 0,
            untimed_runs: 0,
            statistics: BTreeMap::new(),
        }
    }

    /// Numbers what the runs that follow belong to.
    pub(super) fn set_step(&mut self, step: u64) {
        self.step = Some(step);
    }

    /// Notes a run that was submitted. `describe` is asked only where it is timed.
    pub(super) fn submitted(&mut self, facts: RunFacts, stamps: Option<Stamps>, describe: impl FnOnce() -> Vec<Timed>) {
        match stamps {
            Some(stamps) => {
                self.under_way.push_back(UnderWay {
                    run: self.runs,
                    step: self.step.unwrap_or(self.runs),
                    facts,
                    timed: describe(),
                    stamps,
                });
            }
            None if facts.mode != TimestampMode::Off => self.untimed_runs += 1,
            None => {}
        }
        self.runs += 1;
    }

    /// Notes when the latest run's results were returned, and collects the stamps that are there.
    pub(super) fn returned(&mut self, moments: Moments, returned_ns: f64) -> Result<()> {
        if let Some(latest) = self.under_way.back_mut().filter(|latest| latest.run + 1 == self.runs) {
            let host = &mut latest.facts.host;
            host.wait_ns = moments.arrived_ns - moments.waiting_ns;
            host.readback_ns = returned_ns - moments.arrived_ns;
            host.wall_ns = returned_ns - moments.begun_ns;
        }
        self.collect()
    }

    /// The profile since the last take.
    pub(super) fn take(&mut self) -> Result<Profile> {
        self.collect()?;
        self.kept_samples = 0;
        let statistics = std::mem::take(&mut self.statistics);
        Ok(Profile {
            adapter: self.adapter.clone(),
            mode: std::mem::take(&mut self.mode),
            peaks: None,
            warmup: 0,
            runs: std::mem::take(&mut self.kept).into(),
            dropped_runs: std::mem::take(&mut self.dropped_runs),
            untimed_runs: std::mem::take(&mut self.untimed_runs),
            statistics: statistics.into_iter().map(|(key, durations)| KeyStatistics { key, durations }).collect(),
        })
    }

    /// Reads the stamps that have arrived, in the order of their runs.
    fn collect(&mut self) -> Result<()> {
        while let Some(first) = self.under_way.front_mut() {
            let Some(stamps) = first.stamps.take_ready() else { break };
            // Read or failed, it is under way no longer: its place of the ring is free.
            let Some(UnderWay { run, step, facts, timed, .. }) = self.under_way.pop_front() else { break };
            self.keep((run, step), facts, timed, &stamps?);
        }
        Ok(())
    }

    fn keep(&mut self, (run, step): (u64, u64), facts: RunFacts, timed: Vec<Timed>, stamps: &[TickPair]) {
        self.quantum.learn(stamps);
        let clock = DeviceClock { period_ns: self.period_ns, quantum_ticks: self.quantum.ticks() };
        let samples = samples(timed, stamps, clock);
        for sample in &samples {
            self.statistics.entry(Key::of(sample)).or_default().add(sample);
        }
        let RunFacts { mode, start_ns, host } = facts;
        self.mode = mode;
        self.kept_samples += samples.len();
        self.kept.push_back(RunProfile { run, step, mode, clock, start_ns, host, samples });
        while self.kept_samples > self.capacity_samples {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.kept_samples -= oldest.samples.len();
            self.dropped_runs += 1;
        }
    }
}

/// What the dispatches of a run are, by its live shapes.
pub(super) fn describe(plan: &Plan, graph: &Graph<'_>, live: &Live, grids: &[Option<Grid>]) -> Vec<Timed> {
    let timed = |(index, (dispatch, grid)): (usize, (&Dispatch, &Grid))| {
        let variant = plan.variant(dispatch.variant);
        let node = &graph.nodes[dispatch.node as usize];
        let described = dispatch.launch.describe(live);
        Timed {
            dispatch: index as u32,
            kernel: Arc::from(variant.label),
            route: dispatch.route(),
            operator: Arc::from(node.operator.name()),
            node: node.id,
            instruction: node.instruction,
            shape: Arc::from(described.shape),
            context_len: described.context_len,
            workgroups: [grid.x, grid.y],
            workgroup_size: variant.workgroup_size,
            bytes: described.work.bytes,
            flops: described.work.flops,
        }
    };
    let launched = plan.dispatches().zip(grids).filter_map(|(dispatch, grid)| Some((dispatch, grid.as_ref()?)));
    launched.enumerate().map(timed).collect()
}

/// What the passes of a run are, for [`TimestampMode::Run`]: all their dispatches as one.
pub(super) fn describe_passes(plan: &Plan, live: &Live, grids: &[Option<Grid>]) -> Vec<Timed> {
    let timed = |(index, pass): (usize, Vec<(&Dispatch, Grid)>)| {
        let described: Vec<Described> = pass.iter().map(|(dispatch, _)| dispatch.launch.describe(live)).collect();
        let workgroups: u64 = pass.iter().map(|(_, grid)| grid.workgroups()).sum();
        Timed {
            dispatch: index as u32,
            kernel: Arc::from("pass"),
            route: None,
            operator: Arc::from("pass"),
            node: 0,
            instruction: 0,
            shape: Arc::from(format!("{} dispatches", pass.len())),
            context_len: described.iter().filter_map(|described| described.context_len).max(),
            workgroups: [u32::try_from(workgroups).unwrap_or(u32::MAX), 1],
            workgroup_size: 0,
            bytes: described.iter().map(|described| described.work.bytes).sum(),
            flops: described.iter().map(|described| described.work.flops).sum(),
        }
    };
    passes(plan, grids).into_iter().enumerate().map(timed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::RESERVOIR_CAPACITY;
    use crate::profile::testing::timed;

    #[test]
    fn a_hundred_thousand_unread_runs_stay_bounded_and_counted() {
        let mut profiler = Profiler::new(&DeviceFacts::webgpu_defaults(), 1000);
        let facts = RunFacts { mode: TimestampMode::Pass, start_ns: 0.0, host: HostTimes::default() };
        for run in 0..100_000u64 {
            let begin = 1 + run * 1000;
            let stamps =
                [TickPair { begin, end: begin + 100 + run % 7 }, TickPair { begin: begin + 200, end: begin + 333 }];
            profiler.keep((run, run), facts, vec![timed("k"); 2], &stamps);
        }
        assert_eq!((profiler.kept.len(), profiler.kept_samples), (500, 1000));
        let profile = profiler.take().unwrap();
        assert_eq!((profile.runs.len(), profile.dropped_runs, profile.runs[0].run), (500, 99_500, 99_500));
        let durations = &profile.statistics[0].durations;
        assert_eq!((durations.dispatches, durations.reservoir.len()), (200_000, RESERVOIR_CAPACITY));
        assert!(profiler.take().unwrap().statistics.is_empty(), "taken twice");
    }
}
