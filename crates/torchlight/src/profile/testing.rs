//! Samples made by hand, for the tests of this module.

use super::{DeviceClock, HostTimes, Quality, RunProfile, Sample, TickPair, Timed, TimestampMode};

pub(crate) fn timed(kernel: &str) -> Timed {
    Timed {
        dispatch: 0,
        kernel: kernel.into(),
        route: None,
        operator: "add".into(),
        node: 0,
        instruction: 0,
        shape: "[4]".into(),
        context_len: None,
        workgroups: [1, 1],
        workgroup_size: 64,
        bytes: 48,
        flops: 4,
    }
}

pub(crate) fn sample(kernel: &str, duration_ns: Option<f64>) -> Sample {
    Sample {
        timed: timed(kernel),
        ticks: TickPair { begin: 0, end: 0 },
        quality: if duration_ns.is_some() { Quality::Ok } else { Quality::NotMeasured },
        begin_ns: None,
        end_ns: None,
        duration_ns,
    }
}

pub(crate) fn run(samples: Vec<Sample>) -> RunProfile {
    RunProfile {
        run: 0,
        step: 0,
        mode: TimestampMode::Pass,
        clock: DeviceClock { period_ns: 1.0, quantum_ticks: 1 },
        start_ns: 0.0,
        host: HostTimes::default(),
        samples,
    }
}
