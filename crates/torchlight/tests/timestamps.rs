//! Timestamps on the device: every dispatch measured, nothing left from run to run, and devices that have none.

mod harness;

use harness::{f32_tensor, gpu, modest_gpu, tensors};
use torchlight::{DType, Gpu, GraphBuilder, HostTensor, Input, Profile, Session, SessionOptions, TimestampMode};

/// `dispatches` sums: each adds 1 to the one before it, and the first to the input.
fn counter(gpu: &Gpu, dispatches: usize, options: SessionOptions) -> Session {
    let one = harness::bytes(&[1.0]);
    let mut graph = GraphBuilder::new("counter");
    let x = graph.input(DType::F32, &[4]).unwrap();
    let one = graph.constant(DType::F32, &[1], &one).unwrap();
    let last = (0..dispatches).fold(x, |last, _| graph.add(last, one, 1.0).unwrap());
    graph.output(last);
    Session::new(gpu, &graph.finish().unwrap(), options).unwrap()
}

/// Runs a counter from 0 and gives its outputs.
fn count(session: &mut Session) -> Vec<f32> {
    let zeros: HostTensor = f32_tensor(&[4], &[0.0; 4]);
    let outputs = session.run(&[Input::from(&zeros)]).unwrap();
    tensors(&outputs)[0].to_f32().unwrap()
}

fn options(timestamps: TimestampMode) -> SessionOptions {
    SessionOptions { timestamps, ..Default::default() }
}

/// The mode in which this device serves a mode: those without timestamps inside passes have pass timestamps.
fn offered(mode: TimestampMode) -> TimestampMode {
    assert!(gpu().facts().timestamps, "{} has no timestamps: they cannot be tested on it", gpu().facts().name);
    if gpu().facts().timestamps_inside_passes { mode } else { TimestampMode::Pass }
}

/// Every dispatch of every run must have a sample that is worth something.
#[track_caller]
fn assert_measured(case: &str, profile: &Profile, dispatches: usize) {
    for run in &profile.runs {
        let numbers: Vec<u32> = run.samples.iter().map(|sample| sample.timed.dispatch).collect();
        assert_eq!(numbers, (0..dispatches as u32).collect::<Vec<u32>>(), "{case}, run {}", run.run);
        for sample in &run.samples {
            let good = sample.quality.counts() && sample.duration_ns.is_some_and(|ns| ns >= 0.0);
            assert!(good, "{case}, run {}: {sample:?}", run.run);
            assert!(sample.begin_ns.zip(sample.end_ns).is_some_and(|(begin, end)| 0.0 <= begin && begin <= end));
        }
        assert_eq!(run.uncounted(), 0, "{case}");
    }
}

#[track_caller]
fn assert_empty(case: &str, profile: &Profile) {
    let counts = (profile.runs.len(), profile.statistics.len(), profile.dropped_runs, profile.untimed_runs);
    assert_eq!(counts, (0, 0, 0, 0), "{case}");
}

#[test]
fn every_dispatch_is_measured_however_many_there_are() {
    for dispatches in [1, 2047, 2048, 2049, 5000] {
        for mode in [TimestampMode::Pass, TimestampMode::Inside] {
            let case = format!("{dispatches} dispatches, {mode}");
            let mut session = counter(gpu(), dispatches, options(mode));
            let mode = offered(mode);
            assert_eq!(session.timestamps(), mode, "{case}");
            assert_eq!(count(&mut session), [dispatches as f32; 4], "{case}");
            let profile = session.take_profile().unwrap();
            assert_eq!((profile.runs.len(), profile.dropped_runs, profile.mode), (1, 0, mode), "{case}");
            assert_measured(&case, &profile, dispatches);
        }
    }
}

#[test]
fn the_second_run_contains_nothing_of_the_first() {
    for mode in [TimestampMode::Pass, TimestampMode::Inside] {
        let mut session = counter(gpu(), 3, options(mode));
        let profiles = [(); 2].map(|()| {
            count(&mut session);
            session.take_profile().unwrap()
        });
        for (number, profile) in profiles.iter().enumerate() {
            let case = format!("{mode}, run {number}");
            let runs: Vec<u64> = profile.runs.iter().map(|run| run.run).collect();
            assert_eq!(runs, [number as u64], "{case}");
            assert_measured(&case, profile, 3);
        }
        let ticks = |profile: &Profile| profile.runs[0].samples.iter().map(|sample| sample.ticks).collect::<Vec<_>>();
        let last = ticks(&profiles[0]).iter().map(|ticks| ticks.end).max().unwrap();
        let first = ticks(&profiles[1]).iter().map(|ticks| ticks.begin).min().unwrap();
        assert!(last <= first, "{mode}: the second run begins at {first}, before the first ends at {last}");
        assert!(session.take_profile().unwrap().runs.is_empty(), "{mode}: taken twice");
    }
}

#[test]
fn stamps_belong_to_their_dispatches() {
    // Each sum reads the one before it: none begins or ends before its forerunner does.
    let mut session = counter(gpu(), 20, options(TimestampMode::Pass));
    count(&mut session);
    let run = session.take_profile().unwrap().runs.remove(0);
    for pair in run.samples.windows(2) {
        let (before, after) = (pair[0].ticks, pair[1].ticks);
        assert!(before.begin <= after.begin && before.end <= after.end, "{before:?}, and after it {after:?}");
    }
    let (first, last) = (run.samples[0].ticks, run.samples[19].ticks);
    assert!(first.begin < last.end, "twenty dispatches took no time: {first:?} to {last:?}");
    assert_eq!(run.span_ns(), Some((last.end - first.begin) as f64 * run.clock.period_ns));
}

#[test]
fn runs_without_timestamps_leave_no_profile() {
    let mut session = counter(gpu(), 3, options(TimestampMode::Pass));
    session.set_timestamps(TimestampMode::Off);
    count(&mut session);
    assert_empty("off", &session.take_profile().unwrap());
    session.set_timestamps(TimestampMode::Pass);
    count(&mut session);
    // Runs are counted whether they are profiled or not.
    assert_eq!(session.take_profile().unwrap().runs[0].run, 1);
}

#[test]
fn a_device_without_timestamps_runs_and_says_so() {
    for mode in [TimestampMode::Pass, TimestampMode::Inside] {
        let mut session = counter(modest_gpu(), 5, options(mode));
        let wanted = format!("{} has no timestamps: GPU times are not available", modest_gpu().facts().name);
        assert_eq!((session.timestamps(), session.notice()), (TimestampMode::Off, Some(wanted.as_str())), "{mode}");
        assert_eq!(count(&mut session), count(&mut counter(gpu(), 5, options(mode))), "{mode}");
        assert_empty(mode.name(), &session.take_profile().unwrap());
        session.set_timestamps(TimestampMode::Off);
        assert_eq!(session.notice(), None, "nothing was asked for");
    }
}

/// A device of the caller's own making.
fn own_device(required_features: wgpu::Features) -> Gpu {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).unwrap();
    let descriptor = wgpu::DeviceDescriptor { required_features, ..Default::default() };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).unwrap();
    Gpu::from_device(device, queue)
}

#[test]
fn the_features_of_the_callers_device_decide() {
    let pass = wgpu::Features::TIMESTAMP_QUERY;
    let inside = pass | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS | wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES;
    let cases = [
        (wgpu::Features::empty(), TimestampMode::Off, "has no timestamps: GPU times are not available"),
        (pass, TimestampMode::Pass, "has no timestamps inside passes: using pass timestamps"),
        (inside, TimestampMode::Inside, ""),
    ];
    // The last one can be asked for only where the adapter has it.
    let available = if offered(TimestampMode::Inside) == TimestampMode::Inside { 3 } else { 2 };
    for (features, mode, notice) in cases.into_iter().take(available) {
        let mut session = counter(&own_device(features), 4, options(TimestampMode::Inside));
        assert_eq!(session.timestamps(), mode, "{features:?}");
        assert!(session.notice().unwrap_or("").ends_with(notice), "{features:?}: {:?}", session.notice());
        assert_eq!(session.notice().is_none(), notice.is_empty(), "{features:?}");
        assert_eq!(count(&mut session), [4.0; 4], "{features:?}");
        let profile = session.take_profile().unwrap();
        assert_eq!(profile.runs.len(), usize::from(mode != TimestampMode::Off), "{features:?}");
        assert_measured(&format!("{features:?}"), &profile, 4);
    }
}

#[test]
fn beyond_the_capacity_the_oldest_profiles_are_dropped_and_counted() {
    for (capacity, kept, dropped) in [(2, vec![3, 4], 3), (1, vec![4], 4), (5, vec![0, 1, 2, 3, 4], 0), (0, vec![], 5)]
    {
        let options =
            SessionOptions { timestamps: TimestampMode::Pass, profile_samples: capacity, ..Default::default() };
        let mut session = counter(gpu(), 1, options);
        for _ in 0..5 {
            count(&mut session);
        }
        let profile = session.take_profile().unwrap();
        let runs: Vec<u64> = profile.runs.iter().map(|run| run.run).collect();
        assert_eq!((runs, profile.dropped_runs), (kept, dropped), "capacity {capacity}");
        assert_empty("the count starts again", &session.take_profile().unwrap());
    }
}

/// What the child process below expects of its own environment.
const EXPECTED: &str = "TORCHLIGHT_TEST_EXPECTED";

/// Run by the test below in processes of their own: the environment of a test with threads must not change.
#[test]
#[ignore = "a child process of the_environment_turns_timestamps_on"]
fn child_reads_its_environment() {
    let outcome = match SessionOptions::from_env() {
        Ok(options) => format!("{} {}", options.timestamps, options.profile_samples),
        Err(error) => error.to_string(),
    };
    assert_eq!(outcome, std::env::var(EXPECTED).unwrap());
}

#[test]
fn the_environment_turns_timestamps_on() {
    let run = |value: Option<&str>, expected: &str| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "child_reads_its_environment"]).env(EXPECTED, expected);
        match value {
            Some(value) => child.env("WEBGPU_TIMESTAMP_QUERY", value),
            None => child.env_remove("WEBGPU_TIMESTAMP_QUERY"),
        };
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // A filter that names no test passes, too: one test must have run.
        (output.status.success() && text.contains("1 passed"), text)
    };
    let refused =
        |value: &str| format!("WEBGPU_TIMESTAMP_QUERY={value:?}: wanted 1, true or on, or 0, false, off or nothing");
    let off = "off 262144".to_owned();
    let on = "pass 262144".to_owned();
    let cases = [
        (None, off.clone()),
        (Some(""), off.clone()),
        (Some("0"), off.clone()),
        (Some("false"), off.clone()),
        (Some("off"), off),
        (Some("1"), on.clone()),
        (Some("true"), on.clone()),
        (Some("on"), on),
        (Some("2"), refused("2")),
        (Some("yes"), refused("yes")),
    ];
    for (value, expected) in &cases {
        let (passed, output) = run(*value, expected);
        assert!(passed, "{value:?}: wanted {expected:?}:\n{output}");
    }
    assert!(!run(Some("1"), "off 262144").0, "a child that expects the wrong thing passes");
}
