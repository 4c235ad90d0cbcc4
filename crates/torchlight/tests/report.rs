//! The HTML report: what it holds, how large it is, and that names and missing numbers cannot spoil it.
//!
//! With `REPORT_DIR=DIR`, a report of a decode is written there, for a look with `tools/report_check.py`.

mod report_cases;

use std::path::Path;
use std::sync::Arc;

use report_cases::*;
use serde_json::{Value, json};
use torchlight::Profile;
use torchlight::profile::export::report::write_report;
use torchlight::profile::{Quality, TickPair};

fn report(profile: &Profile, title: &str) -> String {
    let mut page = Vec::new();
    write_report(profile, title, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

/// Holds every run on a timeline, and the first dispatches of it that are there, against the profile, in which numbers of
/// runs are places.
fn assert_shown(data: &Value, profile: &Profile) {
    for run in shown_runs(data) {
        assert_eq!(run, shown(&profile.runs[run.run as usize], run.start, run.dispatches.len()));
    }
}

/// Whether runs or dispatches are left out of the timeline, and lines of the table.
fn is_thinned(data: &Value) -> [bool; 2] {
    let (timeline, table) = (&data["timeline"], &data["table"]);
    let runs = shown_runs(data);
    let dispatches: usize = runs.iter().map(|run| run.dispatches.len()).sum();
    let lines = table["rows"]["kernel"].as_array().map_or(0, Vec::len);
    [timeline["all_runs"] != runs.len() || timeline["all_dispatches"] != dispatches, table["all_rows"] != lines]
}

#[test]
fn a_decode_is_shown_whole() {
    let page = report(&decode(), "Decode");
    let data = data(&page);
    assert_eq!(data["adapter"]["name"], "NVIDIA H200");
    assert_eq!(data["modes"], json!(["pass"]));
    assert_eq!((&data["counts"]["kept_runs"], &data["counts"]["dropped_runs"]), (&160.into(), &12.into()));
    let flags = json!({
        "below_quantum": 1, "negative": 1, "not_measured": 1, "out_of_order": 1, "overlap_removed": 1,
    });
    assert_eq!(data["counts"]["flagged"], flags);
    let bars = data["steps"]["bars"].as_array().unwrap();
    assert_eq!((bars.len(), &bars[7]["context"], &bars[7]["runs"]), (8, &json!([8192, 8192]), &20.into()));
    assert_eq!(data["table"]["rows"]["kernel"].as_array().unwrap().len(), 4 * 8);
    assert_eq!(is_thinned(&data), [false; 2]);
    assert_shown(&data, &decode());
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
    let rows = &data["table"]["rows"];
    let numbers = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "mean_ns", "total_ns", "share", "bandwidth_gbps", "gflops"];
    for number in numbers {
        assert_eq!(rows[number], json!([null, null, null, null]), "{number}");
    }
    assert_eq!(rows["counted"], json!([0, 0, 0, 0]));
    assert!(
        data["kernels"]
            .as_array()
            .unwrap()
            .iter()
            .all(|kernel| kernel["mean_ns"].is_null() && kernel["share"].is_null())
    );
    assert!(data["steps"]["bars"][0]["kernels_ns"].as_array().unwrap().iter().all(Value::is_null));
    for dispatch in &shown_runs(&data)[0].dispatches {
        assert_eq!((dispatch.begin, dispatch.length, dispatch.duration), (None, None, None));
    }
    assert!(
        page.contains("const DASH = '–'") && page.contains("if (value === null || value === undefined) return DASH")
    );
}

#[test]
fn ten_thousand_dispatches_are_all_shown_within_500_kb() {
    let cases = [
        ("decode", long_decode(2_000), false),
        ("overlapping", overlapping(2_000), false),
        ("crowded", crowded(2_000), true),
        ("one run", vec![one_run(10_000)], false),
        ("one dispatch a run", one_dispatch(10_000), false),
    ];
    for (name, runs, thins_table) in cases {
        let profile = profile(&runs);
        let page = report(&profile, name);
        assert!(page.len() <= 500_000, "{name}: {} bytes", page.len());
        let data = data(&page);
        assert_eq!(is_thinned(&data), [false, thins_table], "{name}");
        assert_shown(&data, &profile);
    }
}

#[test]
fn what_cannot_fit_is_left_out_and_the_page_says_so() {
    let mut empty = long_decode(40_000);
    empty.iter_mut().for_each(|run| run.samples.clear());
    let cases = [
        ("1 of 10,000", unlike(1, 10_000), true, true),
        ("10,000 of 1", unlike(10_000, 1), false, true),
        ("40,000 of 0", empty, false, false),
        ("1 of 100,000", vec![one_run(100_000)], true, false),
    ];
    for (name, runs, is_cut, thins_table) in cases {
        let profile = profile(&runs);
        let page = report(&profile, &"<".repeat(1_000));
        assert!(page.len() <= 500_000, "{name}: {} bytes", page.len());
        // What is left out is what is too much.
        assert!(page.len() > 200_000, "{name}: {} bytes", page.len());
        let data = data(&page);
        assert_eq!(data["timeline"]["is_cut"], is_cut, "{name}");
        assert_eq!(is_thinned(&data), [true, thins_table], "{name}");
        assert!(shown_runs(&data).len() >= runs.len().min(2), "{name}");
    }
    for (script, says) in [
        (include_str!("../src/profile/export/report/timeline.js"), "`Thinned: ${"),
        (include_str!("../src/profile/export/report/timeline.js"), "is_cut ? 'of a run the first.'"),
        (include_str!("../src/profile/export/report/table.js"), "` Thinned: the ${"),
    ] {
        assert!(script.contains(says), "{says}");
    }
}

#[test]
fn kernels_beyond_the_most_are_one() {
    let mut run = long_decode(1).remove(0);
    run.samples = run.samples.iter().cycle().take(200).cloned().collect();
    for (place, sample) in run.samples.iter_mut().enumerate() {
        sample.timed.kernel = format!("kernel {place}").into();
        sample.duration_ns = Some(1_000.0 + place as f64);
        sample.quality = Quality::Ok;
    }
    let data = data(&report(&profile(&[run]), "Many"));
    let kernels = data["kernels"].as_array().unwrap();
    let named = |place: usize| (kernels[place]["name"].as_str().unwrap(), kernels[place]["mean_ns"].as_f64().unwrap());
    assert_eq!(kernels.len(), 65);
    assert_eq!([named(0), named(63)], [("kernel 199", 1_199.0), ("kernel 136", 1_136.0)]);
    assert_eq!((named(64), &kernels[64]["dispatches"]), (("136 other kernels", 1_067.5), &136.into()));
    let bar = data["steps"]["bars"][0]["kernels_ns"].as_array().unwrap();
    assert_eq!((bar.len(), bar[64].as_f64()), (65, Some(136.0 * 1_067.5)));
    assert_eq!(shown_runs(&data)[0].dispatches[0].kernel, "136 other kernels");
    let share: f64 = kernels.iter().map(|kernel| kernel["share"].as_f64().unwrap()).sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
}

#[test]
fn more_dispatches_are_thinned_to_whole_runs_and_the_page_says_so() {
    let profile = profile(&long_decode(9_000));
    let data = data(&report(&profile, "Longer"));
    let timeline = &data["timeline"];
    assert_eq!((&timeline["all_runs"], &timeline["all_dispatches"]), (&9_000.into(), &45_000.into()));
    assert_eq!(timeline["is_cut"], false);
    let runs = shown_runs(&data);
    assert_eq!((runs.len(), runs[0].run, runs[1_999].run), (2_000, 0, 8_999));
    assert!(runs.windows(2).all(|pair| (4..=5).contains(&(pair[1].run - pair[0].run))));
    assert!(runs.iter().all(|run| run.dispatches.len() == 5));
    assert_shown(&data, &profile);
    let steps = &data["steps"];
    assert_eq!((&steps["steps_a_bar"], steps["bars"].as_array().unwrap().len()), (&94.into(), 96));
    assert_eq!((&steps["bars"][95]["first"], &steps["bars"][95]["last"]), (&8930.into(), &8999.into()));
}

#[test]
fn two_runs_are_shown_as_far_as_they_fit() {
    let mut long = long_decode(1).remove(0);
    for (dispatches, fits) in [(14_000, true), (40_000, false)] {
        long.samples = long.samples.iter().cycle().take(dispatches).cloned().collect();
        let page = report(&profile(&[long.clone(), long.clone(), long.clone()]), "Few and long");
        assert!(page.len() <= 500_000, "{} bytes", page.len());
        let data = data(&page);
        let shown: Vec<usize> = shown_runs(&data).iter().map(|run| run.dispatches.len()).collect();
        assert_eq!(shown, [shown[0]; 2]);
        assert!(if fits { shown[0] == dispatches } else { shown[0] > 14_000 }, "{shown:?} of {dispatches}");
        assert_eq!(data["timeline"]["is_cut"], !fits);
    }
}

#[test]
fn sessions_follow_each_other_on_the_timeline() {
    let runs = long_decode(2);
    let both = [runs[0].clone(), runs[1].clone(), runs[0].clone()];
    let data = data(&report(&profile(&both), "Two sessions"));
    let (first_ns, second_ns) = (runs[0].host.wall_ns + PAUSE_NS, runs[1].host.wall_ns);
    let wanted = [0.0, first_ns, first_ns + second_ns].map(|ns| ns.round() as i64);
    assert_eq!(shown_runs(&data).iter().map(|run| run.start).collect::<Vec<_>>(), wanted);
}

#[test]
fn a_profile_without_runs_is_a_page() {
    let data = data(&report(&Profile::default(), "Nothing"));
    assert_eq!((&data["clock"], &data["modes"]), (&Value::Null, &json!([])));
    assert_eq!(data["table"], json!({ "all_rows": 0, "shapes": [], "rows": {} }));
    assert_eq!(is_thinned(&data), [false; 2]);
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
        ("overlapping", profile(&overlapping(2_000)), "Overlapping decode"),
        ("empty", Profile::default(), "Nothing"),
    ];
    for (name, profile, title) in pages {
        std::fs::write(Path::new(&folder).join(format!("{name}.html")), report(&profile, title)).unwrap();
    }
}
