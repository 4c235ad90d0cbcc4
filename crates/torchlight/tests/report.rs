//! The HTML report: what it holds, how large it is, and that names and missing numbers cannot spoil it.
//!
//! With `REPORT_DIR=DIR`, a report of a decode is written there, for a look with `tools/report_check.py`.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use torchlight::profile::export::report::write_report;
use torchlight::profile::{Adapter, DeviceClock, HostTimes, RunProfile, TickPair, Timed, TimestampMode, samples};
use torchlight::{Profile, Route};

/// Kernels of attention, with the ns of a dispatch and what each key of the context adds.
const ATTENTION: [(&str, f64, f64); 5] = [
    ("update_cache", 4_750.0, 0.0),
    ("update_cache", 4_810.0, 0.0),
    ("sdpa_compute_attn_weights", 5_200.0, 9.0),
    ("sdpa_softmax", 5_560.0, 2.5),
    ("sdpa_compute_out", 5_310.0, 7.0),
];

/// From the return of a run to the next call.
const PAUSE_NS: f64 = 12_000.0;

const CLOCK: DeviceClock = DeviceClock { period_ns: 1.0, quantum_ticks: 32 };

fn timed(dispatch: u32, kernel: &str, context_len: u32) -> Timed {
    let is_update = kernel == "update_cache";
    let keys = if is_update { 1 } else { u64::from(context_len) };
    Timed {
        dispatch,
        kernel: kernel.into(),
        route: Some(Route::Materialised),
        operator: if is_update { "update_cache" } else { "sdpa" }.into(),
        node: 3 + dispatch / 2,
        instruction: 0,
        shape: "s1 h32 hk8 d128".into(),
        context_len: Some(context_len),
        workgroups: [32, 1],
        workgroup_size: 64,
        bytes: keys * 8 * 128 * 4,
        flops: if is_update { 0 } else { keys * 32 * 128 * 2 },
    }
}

/// A run of attention at some context.
fn attention_run(run: u64, step: u64, context_len: u32, noise: &mut fastrand::Rng) -> RunProfile {
    let mut now = 0;
    let mut stamps = Vec::new();
    for (_, base_ns, key_ns) in ATTENTION {
        let mut jitter = || 1.0 + noise.f64().powi(4) * 0.25;
        let ticks = ((base_ns + key_ns * f64::from(context_len)) * jitter() / 32.0) as u64 * 32;
        stamps.push(TickPair { begin: (1 << 40) + now, end: (1 << 40) + now + ticks });
        now += ticks + 1_600;
    }
    let timed = ATTENTION.iter().zip(0..).map(|(&(kernel, ..), index)| timed(index, kernel, context_len)).collect();
    let (prepare_ns, encode_ns, submit_ns, readback_ns) = (8_200.0, 21_400.0, 17_900.0, 2_600.0);
    let wait_ns = now as f64 + 24_000.0;
    let wall_ns = prepare_ns + encode_ns + submit_ns + wait_ns + readback_ns + 900.0;
    RunProfile {
        run,
        step,
        mode: TimestampMode::Pass,
        clock: CLOCK,
        start_ns: 0.0,
        host: HostTimes { prepare_ns, encode_ns, submit_ns, wait_ns, readback_ns, wall_ns },
        samples: samples(timed, &stamps, CLOCK),
    }
}

/// Starts each run a while after the one before it has returned.
fn one_after_another(mut runs: Vec<RunProfile>) -> Vec<RunProfile> {
    let mut now_ns = 5e6;
    for run in &mut runs {
        run.start_ns = now_ns;
        now_ns += run.host.wall_ns + PAUSE_NS;
    }
    runs
}

/// Judges a run's samples anew, with other stamps at one place.
fn restamp(run: &mut RunProfile, place: usize, ticks: TickPair) {
    let mut pairs: Vec<TickPair> = run.samples.iter().map(|sample| sample.ticks).collect();
    pairs[place] = ticks;
    run.samples = samples(run.samples.drain(..).map(|sample| sample.timed).collect(), &pairs, CLOCK);
}

fn profile(runs: &[RunProfile]) -> Profile {
    let adapter = Adapter {
        name: "NVIDIA H200".to_owned(),
        backend: "Vulkan".to_owned(),
        driver: "NVIDIA 580.159.04".to_owned(),
        is_cpu: false,
    };
    Profile { adapter, ..Profile::default() }.of_runs(runs)
}

/// Eight steps of a decode, twenty runs each, with a dispatch of each flag.
fn decode() -> Profile {
    let mut noise = fastrand::Rng::with_seed(7);
    let runs = (0..160).map(|run| attention_run(run, run / 20, 64 << (run / 20), &mut noise)).collect();
    let mut runs = one_after_another(runs);
    let [update, scores] = [1, 2].map(|place| runs[0].samples[place].ticks);
    let begin = runs[2].samples[4].ticks.begin;
    restamp(&mut runs[0], 2, TickPair { begin: update.begin, ..scores });
    let scores = runs[1].samples[2].ticks;
    restamp(&mut runs[1], 3, TickPair { begin: scores.begin, end: scores.begin + 640 });
    restamp(&mut runs[2], 4, TickPair { begin, end: begin + 16 });
    restamp(&mut runs[44], 3, TickPair { begin: 0, end: 0 });
    restamp(&mut runs[90], 4, TickPair { begin: 900, end: 100 });
    Profile { dropped_runs: 12, untimed_runs: 3, ..profile(&runs) }
}

fn report(profile: &Profile, title: &str) -> String {
    let mut page = Vec::new();
    write_report(profile, title, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

/// The profile in a page.
fn data(page: &str) -> Value {
    let (_, after) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

/// As many runs of attention, each at a context of its own.
fn long_decode(runs: u64) -> Vec<RunProfile> {
    let mut noise = fastrand::Rng::with_seed(11);
    one_after_another((0..runs).map(|run| attention_run(run, run, 30_000 + run as u32, &mut noise)).collect())
}

#[test]
fn a_decode_is_shown_whole() {
    let page = report(&decode(), "Decode");
    let data = data(&page);
    assert_eq!(data["adapter"]["name"], "NVIDIA H200");
    assert_eq!(data["modes"], serde_json::json!(["pass"]));
    assert_eq!((&data["counts"]["kept_runs"], &data["counts"]["dropped_runs"]), (&160.into(), &12.into()));
    let flags = serde_json::json!({
        "below_quantum": 1, "negative": 1, "not_measured": 1, "out_of_order": 1, "overlap_removed": 1,
    });
    assert_eq!(data["counts"]["flagged"], flags);
    let bars = data["steps"]["bars"].as_array().unwrap();
    assert_eq!((bars.len(), &bars[7]["context"], &bars[7]["runs"]), (8, &serde_json::json!([8192, 8192]), &20.into()));
    assert_eq!(
        (&data["timeline"]["all_runs"], data["timeline"]["samples"]["quality"].as_str().unwrap().len()),
        (&160.into(), 800)
    );
    assert_eq!(data["table"].as_array().unwrap().len(), 4 * 8);
}

#[test]
fn a_bar_is_what_a_run_takes_whatever_could_not_be_measured() {
    let mut noise = fastrand::Rng::with_seed(3);
    let mut runs = [0, 1].map(|run| attention_run(run, 5, 128, &mut noise));
    let softmax = runs[1].samples[3].duration_ns.unwrap();
    restamp(&mut runs[0], 3, TickPair { begin: 0, end: 0 });
    let data = data(&report(&profile(&runs), "One lost"));
    let kernels = data["steps"]["bars"][0]["kernels_ns"].as_array().unwrap();
    assert_eq!(kernels[2].as_f64(), Some(softmax), "the mean of what counts");
    let updates: f64 = runs.iter().flat_map(|run| &run.samples[..2]).filter_map(|sample| sample.duration_ns).sum();
    assert_eq!(kernels[0].as_f64(), Some(updates / 2.0), "two dispatches a run");
}

#[test]
fn names_are_data_and_never_markup() {
    let names = [
        "</script><script>alert(1)</script>",
        "<!-- <script",
        "a \"quoted\" & 'quoted' <name>",
        "two\nlines\tand\u{2028}\u{2029}\0",
        "注意 {{data}} {{script}}",
    ];
    let mut runs = long_decode(1);
    for (sample, name) in runs[0].samples.iter_mut().zip(names) {
        let text: Arc<str> = name.into();
        (sample.timed.kernel, sample.timed.operator, sample.timed.shape) = (text.clone(), text.clone(), text);
    }
    let mut profile = profile(&runs);
    (profile.adapter.name, profile.adapter.driver) = (names[0].to_owned(), names[1].to_owned());
    let page = report(&profile, names[0]);
    let plain = report(&self::profile(&long_decode(1)), "");
    for markup in ["<script", "</script", "<!--", "<title>"] {
        assert_eq!(page.matches(markup).count(), plain.matches(markup).count(), "{markup}");
    }
    assert!(!page.contains(['\u{2028}', '\u{2029}', '\0']));
    let data = data(&page);
    let kernels: Vec<&str> =
        data["kernels"].as_array().unwrap().iter().map(|kernel| kernel["name"].as_str().unwrap()).collect();
    assert_eq!(kernels, names);
    assert_eq!((&data["adapter"]["name"], &data["adapter"]["driver"]), (&names[0].into(), &names[1].into()));
}

#[test]
fn what_was_not_measured_is_null_and_shown_as_a_dash() {
    let mut run = long_decode(1).remove(0);
    for place in 0..run.samples.len() {
        restamp(&mut run, place, TickPair { begin: 0, end: 0 });
    }
    let page = report(&profile(&[run]), "Nothing measured");
    let data = data(&page);
    for row in data["table"].as_array().unwrap() {
        for number in ["min_ns", "mean_ns", "total_ns", "share", "bandwidth_gbps", "gflops"] {
            assert_eq!(row[number], Value::Null, "{number}");
        }
        assert_eq!(row["quantiles_ns"], serde_json::json!([null, null, null]));
        assert_eq!(row["counted"], 0);
    }
    assert!(
        data["kernels"]
            .as_array()
            .unwrap()
            .iter()
            .all(|kernel| kernel["mean_ns"].is_null() && kernel["share"].is_null())
    );
    assert!(data["steps"]["bars"][0]["kernels_ns"].as_array().unwrap().iter().all(Value::is_null));
    let samples = &data["timeline"]["samples"];
    assert_eq!(
        (&samples["begin"], &samples["length"]),
        (&serde_json::json!([null, null, null, null, null]), &samples["begin"])
    );
    assert!(
        page.contains("const DASH = '–'") && page.contains("if (value === null || value === undefined) return DASH")
    );
}

#[test]
fn ten_thousand_dispatches_stay_below_500_kb() {
    let mut runs = long_decode(2_000);
    let page = report(&profile(&runs), "Long");
    assert!(page.len() < 500_000, "{} bytes", page.len());
    assert_eq!(data(&page)["timeline"]["variants"].as_array().unwrap().len(), 4);

    // The least that can be said shortly: each begins within the one before it.
    for run in &mut runs {
        for place in 1..run.samples.len() {
            let before = run.samples[place - 1].ticks;
            let end = run.samples[place].ticks.end;
            restamp(run, place, TickPair { begin: before.begin, end });
        }
    }
    let page = report(&profile(&runs), "Long and overlapping");
    assert!(page.len() < 600_000, "{} bytes", page.len());
}

#[test]
fn more_dispatches_are_thinned_to_whole_runs_and_the_page_says_so() {
    let data = data(&report(&profile(&long_decode(9_000)), "Longer"));
    let timeline = &data["timeline"];
    assert_eq!((&timeline["all_runs"], &timeline["all_dispatches"]), (&9_000.into(), &45_000.into()));
    let runs: Vec<u64> = timeline["runs"]["run"].as_array().unwrap().iter().map(|run| run.as_u64().unwrap()).collect();
    assert_eq!((runs.len(), runs[0], runs[1_999]), (2_000, 0, 8_999));
    assert!(runs.windows(2).all(|pair| (4..=5).contains(&(pair[1] - pair[0]))));
    assert_eq!(timeline["samples"]["variant"].as_array().unwrap().len(), 10_000);
    assert!(include_str!("../src/profile/export/report/timeline.js").contains("`Thinned: ${"));
    let steps = &data["steps"];
    assert_eq!((&steps["steps_a_bar"], steps["bars"].as_array().unwrap().len()), (&94.into(), 96));
    assert_eq!((&steps["bars"][95]["first"], &steps["bars"][95]["last"]), (&8930.into(), &8999.into()));
}

#[test]
fn two_runs_are_shown_however_long_they_are() {
    let mut long = long_decode(1).remove(0);
    long.samples = long.samples.iter().cycle().take(20_000).cloned().collect();
    let data = data(&report(&profile(&[long.clone(), long.clone(), long]), "Few and long"));
    assert_eq!(data["timeline"]["runs"]["dispatches"], serde_json::json!([20_000, 20_000]));
}

#[test]
fn sessions_follow_each_other_on_the_timeline() {
    let runs = long_decode(2);
    let both = [runs[0].clone(), runs[1].clone(), runs[0].clone()];
    let data = data(&report(&profile(&both), "Two sessions"));
    let (first_ns, second_ns) = (runs[0].host.wall_ns + PAUSE_NS, runs[1].host.wall_ns);
    let wanted = [0.0, first_ns, first_ns + second_ns].map(|ns| ns.round() as i64);
    assert_eq!(data["timeline"]["runs"]["start"], serde_json::json!(wanted));
}

#[test]
fn a_profile_without_runs_is_a_page() {
    let data = data(&report(&Profile::default(), "Nothing"));
    assert_eq!(
        (&data["clock"], &data["modes"], &data["table"]),
        (&Value::Null, &serde_json::json!([]), &serde_json::json!([]))
    );
}

#[test]
fn the_page_loads_nothing() {
    let page = report(&decode(), "Alone");
    for load in ["http:", "https:", "src=", "href=", "url(//", "@import", "fetch(", "XMLHttpRequest", "innerHTML"] {
        assert!(!page.contains(load), "{load}");
    }
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\""));
}

#[test]
fn reports_to_look_at() {
    let Some(folder) = std::env::var_os("REPORT_DIR") else { return };
    let mut cpu = profile(&long_decode(9_000));
    cpu.adapter.is_cpu = true;
    let pages = [
        ("decode", decode(), "Decode, one token a step"),
        ("long", cpu, "Long decode"),
        ("empty", Profile::default(), "Nothing"),
    ];
    for (name, profile, title) in pages {
        std::fs::write(Path::new(&folder).join(format!("{name}.html")), report(&profile, title)).unwrap();
    }
}
