//! The trace: it follows the trace event format, tracks are well nested, and nothing is drawn that was not measured.

mod export_cases;

use export_cases::{AWKWARD, FLAGGED, awkward_profile, long_profile, profile_of, random_profile, run, written};
use serde_json::{Value, json};
use torchlight::Profile;
use torchlight::profile::DeviceClock;
use torchlight::profile::export::write_trace;

const HOST: u64 = 1;
const DEVICE: u64 = 2;

fn trace(profile: &Profile) -> Value {
    serde_json::from_slice(&written(|out| write_trace(profile, out))).unwrap()
}

/// The events of a track, without those that name it.
fn events(trace: &Value, pid: u64) -> Vec<&Value> {
    let events = trace["traceEvents"].as_array().unwrap().iter();
    events.filter(|event| event["pid"] == pid && event["ph"] != "M").collect()
}

/// Begin and end of an event in whole ns; an instant has one place.
fn span(event: &Value) -> (i64, i64) {
    let ns = |field: &str| (event[field].as_f64().unwrap() * 1000.0).round() as i64;
    let begin = ns("ts");
    (begin, if event["ph"] == "X" { begin + ns("dur") } else { begin })
}

/// Fails unless every event has what the format wants of it, and no more.
fn assert_well_formed(trace: &Value) {
    let keys = |event: &Value| -> Vec<String> { event.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(trace), ["displayTimeUnit", "otherData", "traceEvents"]);
    assert_eq!(trace["displayTimeUnit"], "ns");
    for event in trace["traceEvents"].as_array().unwrap() {
        assert!(event["name"].is_string() && event["args"].is_object(), "{event}");
        assert!([HOST, DEVICE].iter().any(|pid| event["pid"] == *pid) && event["tid"] == 1, "{event}");
        let wanted: &[&str] = match event["ph"].as_str().unwrap() {
            "M" => &["args", "name", "ph", "pid", "tid"],
            "X" => &["args", "dur", "name", "ph", "pid", "tid", "ts"],
            "i" => &["args", "name", "ph", "pid", "s", "tid", "ts"],
            other => panic!("phase {other}"),
        };
        assert_eq!(keys(event), wanted);
        let (begin, end) = if event["ph"] == "M" { (0, 0) } else { span(event) };
        assert!(0 <= begin && begin <= end, "{event}");
        assert!(event["ph"] != "i" || event["s"] == "t", "{event}");
    }
}

/// Fails unless runs follow each other on the host's track, each with its phases inside and in order.
fn assert_nested(trace: &Value) {
    let host = events(trace, HOST);
    let mut last_end = 0;
    for run in host.chunks(6) {
        let names: Vec<&str> = run[1..].iter().map(|phase| phase["name"].as_str().unwrap()).collect();
        assert_eq!(run[0]["name"], format!("run {}", run[0]["args"]["run"]));
        assert_eq!(names, ["prepare", "encode", "submit", "wait", "readback"]);
        let (begin, end) = span(run[0]);
        assert!(last_end <= begin, "{} begins before the run before it ends", run[0]);
        let mut inner = begin;
        for phase in &run[1..] {
            let (phase_begin, phase_end) = span(phase);
            assert!(inner == phase_begin && phase_end <= end, "{phase} is not inside {}", run[0]);
            inner = phase_end;
        }
        last_end = end;
    }
}

/// Fails unless dispatches follow each other on the device's track, none before the end of its run's submit.
fn assert_in_order(trace: &Value) {
    let submits: Vec<i64> =
        events(trace, HOST).iter().filter(|event| event["name"] == "submit").map(|submit| span(submit).1).collect();
    let runs: Vec<&Value> = events(trace, HOST).into_iter().filter(|event| event["args"]["wall_ns"].is_f64()).collect();
    let (mut last_end, mut last_run) = (0, 0);
    for event in events(trace, DEVICE) {
        let (begin, end) = span(event);
        assert!(last_end <= begin, "{event} begins before the one before it ends");
        let index = runs[last_run..].iter().position(|run| run["args"]["run"] == event["args"]["run"]);
        last_run += index.expect("runs in order");
        assert!(submits[last_run] <= begin, "{event} begins before it was submitted");
        last_end = end;
    }
}

#[test]
fn traces_follow_the_format() {
    let mut rng = fastrand::Rng::with_seed(3);
    let random = std::iter::repeat_with(|| random_profile(&mut rng)).take(100);
    for profile in random.chain([awkward_profile(), Profile::default()]) {
        let trace = trace(&profile);
        assert_well_formed(&trace);
        let dispatches: usize = profile.runs.iter().map(|run| run.samples.len()).sum();
        assert_eq!(events(&trace, HOST).len(), 6 * profile.runs.len());
        assert_eq!(events(&trace, DEVICE).len(), dispatches);
    }
}

#[test]
fn tracks_are_nested_and_in_order() {
    let mut rng = fastrand::Rng::with_seed(5);
    let random = std::iter::repeat_with(|| random_profile(&mut rng)).take(100);
    for profile in random.chain([awkward_profile(), long_profile(3000)]) {
        let trace = trace(&profile);
        assert_nested(&trace);
        assert_in_order(&trace);
    }
}

#[test]
fn tracks_and_the_trace_are_described() {
    let trace = trace(&awkward_profile());
    let names: Vec<(&Value, &Value, &Value)> = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .take_while(|event| event["ph"] == "M")
        .map(|event| (&event["name"], &event["pid"], &event["args"]["name"]))
        .collect();
    let wanted = [
        ("process_name", HOST, "host"),
        ("thread_name", HOST, "runs"),
        ("process_name", DEVICE, "A \"GPU\"\tof λ\\"),
        ("thread_name", DEVICE, "dispatches"),
    ]
    .map(|(name, pid, called)| (json!(name), json!(pid), json!(called)));
    assert_eq!(names, wanted.each_ref().map(|(name, pid, called)| (name, pid, called)));
    let other = &trace["otherData"];
    let facts = (&other["driver"], &other["is_cpu"], &other["mode"], &other["dropped_runs"], &other["untimed_runs"]);
    assert_eq!(facts, (&json!("driver\n1.2"), &json!(true), &json!("pass"), &json!(7), &json!(2)));
    assert!(other["clocks"].as_str().unwrap().contains("drawn at the end of the run's submit"));
}

#[test]
fn a_dispatch_says_all_that_is_known_of_it() {
    let profile = awkward_profile();
    let trace = trace(&profile);
    let device = events(&trace, DEVICE);
    for (index, name) in AWKWARD.into_iter().enumerate() {
        let sample = &profile.runs[0].samples[index];
        assert_eq!(device[index]["name"], name);
        let mut args = serde_json::to_value(sample).unwrap();
        args["run"] = json!(0);
        args["step"] = json!(0);
        assert_eq!(device[index]["args"], args);
        let (begin, end) = span(device[index]);
        assert!(((end - begin) as f64 - sample.duration_ns.unwrap()).abs() <= 1.0);
    }
}

#[test]
fn the_first_stamp_stands_at_the_end_of_the_submit() {
    let trace = trace(&awkward_profile());
    // 1 ms, and the phases up to submit.
    assert_eq!(span(events(&trace, DEVICE)[0]).0, 1_005_161);
}

#[test]
fn what_has_no_time_is_drawn_without_one() {
    let clock = DeviceClock { period_ns: 1.0, quantum_ticks: 8 };
    let trace = trace(&profile_of(&[run(0, &["k"; FLAGGED.len()], &FLAGGED, clock)]));
    let device = events(&trace, DEVICE);
    let (origin, _) = span(device[0]);
    let found: Vec<(&str, &str, i64, i64)> = device
        .iter()
        .map(|event| {
            let (begin, end) = span(event);
            let texts = (event["args"]["quality"].as_str().unwrap(), event["ph"].as_str().unwrap());
            (texts.0, texts.1, begin - origin, end - origin)
        })
        .collect();
    let wanted = [
        ("ok", "X", 0, 100),
        ("overlap_removed", "X", 100, 200),
        ("out_of_order", "X", 200, 200),
        ("not_measured", "i", 200, 200),
        ("negative", "i", 200, 200),
        ("ok", "X", 400, 500),
        ("below_quantum", "X", 600, 604),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn sessions_and_slow_devices_do_not_overlap() {
    let clock = DeviceClock { period_ns: 1.0, quantum_ticks: 1 };
    let mut slow = run(0, &["slow"], &[(0, 5_000_000)], clock);
    slow.host.wait_ns = 0.0;
    slow.host.wall_ns = 6000.0;
    let runs = [slow.clone(), run(1, &["behind it"], &[(9, 19)], clock), slow, run(1, &["last"], &[(9, 19)], clock)];
    let trace = trace(&profile_of(&runs));
    assert_well_formed(&trace);
    assert_nested(&trace);
    let spans: Vec<(i64, i64)> = events(&trace, DEVICE).into_iter().map(span).collect();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
    assert_eq!(spans[1], (spans[0].1, spans[0].1 + 10));
}

#[test]
fn a_trace_grows_with_its_dispatches_alone() {
    let [some, many] = [10_000, 100_000].map(|dispatches| written(|out| write_trace(&long_profile(dispatches), out)));
    assert!(many.len() < 11 * some.len(), "{} and {} bytes", some.len(), many.len());
    let events = many.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"{\"name\""));
    assert_eq!(events.count(), 100_000 + 100 * 6 + 4, "a line each");
}

#[test]
fn errors_of_the_writer_come_back() {
    let mut full: &mut [u8] = &mut [0; 100];
    assert!(write_trace(&awkward_profile(), &mut full).is_err());
}
