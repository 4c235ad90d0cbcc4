//! `torchlight compare`: what changed is told from noise, and bad files are refused.

mod harness;

use std::path::PathBuf;
use std::sync::Arc;

use harness::{list, run, run_on};
use serde_json::{Value, json};
use tempfile::TempDir;
use torchlight::profile::export::write_json;
use torchlight::profile::{Adapter, Durations, Key, KeyStatistics, Quality, TickPair, Timed};
use torchlight::{Profile, Sample, TimestampMode};

/// A folder of profiles.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a profile into a file.
    fn profile(&self, name: &str, profile: &Profile) -> PathBuf {
        let mut bytes = Vec::new();
        write_json(profile, &mut bytes).unwrap();
        self.file(name, &bytes)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// A profile with the durations of some kernels.
fn profile(kernels: &[(&str, Vec<f64>)]) -> Profile {
    let adapter =
        Adapter { name: "Some GPU".into(), backend: "vulkan".into(), driver: "driver 1.0".into(), is_cpu: false };
    let statistics = kernels.iter().map(|(kernel, values)| {
        let mut durations = Durations::default();
        values.iter().for_each(|&value| durations.add(&sample(kernel, value)));
        KeyStatistics { key: Key::of(&sample(kernel, 0.0)), durations }
    });
    Profile { adapter, mode: TimestampMode::Pass, statistics: statistics.collect(), ..Profile::default() }
}

fn sample(kernel: &str, duration_ns: f64) -> Sample {
    let timed = Timed {
        dispatch: 0,
        kernel: Arc::from(kernel),
        route: None,
        operator: "op".into(),
        node: 0,
        instruction: 0,
        shape: "s1 h32 hk8 d128".into(),
        context_len: kernel.starts_with("sdpa").then_some(1500),
        workgroups: [1, 1],
        workgroup_size: 64,
        bytes: 0,
        flops: 0,
    };
    Sample {
        timed,
        ticks: TickPair { begin: 0, end: 0 },
        quality: Quality::Ok,
        begin_ns: None,
        end_ns: None,
        duration_ns: Some(duration_ns),
    }
}

/// Durations spread evenly over 2 % about a median, in an order that is not theirs.
fn about(median_ns: f64, count: usize) -> Vec<f64> {
    (0..count).map(|i| median_ns * (0.99 + 0.02 * ((i * 37 % count) as f64 + 0.5) / count as f64)).collect()
}

/// The profiles that most tests compare: a kernel is slower by 20 %, one faster, one the same.
fn before_and_after(folder: &Folder) -> [PathBuf; 2] {
    let before = profile(&[
        ("binary_add", about(2000.0, 101)),
        ("gone", about(2000.0, 101)),
        ("rare", about(2000.0, 5)),
        ("sdpa_compute_attn_weights", about(10_000.0, 101)),
        ("sdpa_softmax", about(5000.0, 101)),
    ]);
    let after = profile(&[
        ("binary_add", about(2002.0, 151)),
        ("new", about(2000.0, 101)),
        ("rare", about(9000.0, 50)),
        ("sdpa_compute_attn_weights", about(12_000.0, 151)),
        ("sdpa_softmax", about(4000.0, 151)),
    ]);
    [folder.profile("before.json", &before), folder.profile("after.json", &after)]
}

fn compare(options: &str, [before, after]: &[PathBuf; 2]) -> harness::Finished {
    run_on(&format!("compare {options}"), &[before, after])
}

#[test]
fn the_table_says_what_changed_and_by_how_much() {
    let folder = Folder::new();
    let text = compare("", &before_and_after(&folder)).passed();
    let rows: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    assert!(text.lines().all(|line| line.chars().count() <= 80 && line.trim_end() == line), "{text}");
    let row = |kernel: &str| -> (usize, Vec<&str>) {
        let place = rows.iter().position(|row| row.starts_with(kernel)).unwrap_or_else(|| panic!("{kernel}\n{text}"));
        (place, rows[place].split_whitespace().skip(1).collect())
    };
    let [weights, softmax, add, rare] = ["sdpa_compute_attn_weights", "sdpa_softmax", "binary_add", "rare"].map(row);
    assert!(weights.0 < softmax.0 && softmax.0 < add.0 && add.0 < rare.0, "slower, faster, noise, too few\n{text}");
    assert_eq!((&weights.1[..3], weights.1[4]), (&["10.00", "12.00", "1.200"][..], "slower"), "{text}");
    assert_eq!((&softmax.1[..3], softmax.1[4]), (&["5.00", "4.00", "0.800"][..], "faster"), "{text}");
    assert_eq!((add.1[2], add.1[4]), ("1.001", "noise"), "{text}");
    assert_eq!(rare.1, ["2.00", "9.00", "4.500", "-", "too", "few"], "{text}");
    // Shape and context would be wider than the column.
    assert_eq!(rows[weights.0 + 1..weights.0 + 3], ["  s1 h32 hk8 d128", "  context 1024+"], "{text}");
    assert_eq!(rows[add.0 + 1], "  s1 h32 hk8 d128", "{text}");
    for words in [
        "beyond noise 1 of 3 rows became slower and 1 faster; ",
        "changed by +5.9 % (",
        "1 row has fewer than 8 durations",
        "\nonly before:\n  gone s1 h32 hk8 d128\n",
        "\nonly after:\n  new s1 h32 hk8 d128\n",
    ] {
        assert!(text.contains(words), "{words:?}\n{text}");
    }
}

#[test]
fn a_profile_does_not_differ_from_itself() {
    let folder = Folder::new();
    let [before, _] = before_and_after(&folder);
    let text = compare("--fail-above 0", &[before.clone(), before]).passed();
    assert!(text.contains("none of 4 rows changed beyond noise; "), "{text}");
    assert!(text.contains("changed by +0.0 %") && text.contains("which is noise"), "{text}");
    assert!(text.contains("no row became slower by more than 0 % beyond noise"), "{text}");
    assert!(!text.contains("only before") && !text.contains("note:"), "{text}");
}

#[test]
fn a_regression_beyond_the_threshold_is_exit_code_1() {
    let folder = Folder::new();
    let paths = before_and_after(&folder);
    for threshold in ["5%", "0.05", "0", "19%", "5 %"] {
        let (option, value) = ("--fail-above", threshold);
        let mut command = harness::torchlight(["compare", option, value]);
        command.args(&paths);
        let text = harness::finish(command).missed();
        let regressed: Vec<&str> = text.lines().filter(|line| line.starts_with("REGRESSED ")).collect();
        assert_eq!(regressed.len(), 1, "{threshold}\n{text}");
        assert!(regressed[0].contains("sdpa_compute_attn_weights s1 h32 hk8 d128"), "{text}");
        assert!(text.contains("1 row is slower by more than "), "{text}");
    }
    for threshold in ["21%", "0.25", "200%"] {
        let text = compare(&format!("--fail-above {threshold}"), &paths).passed();
        assert!(text.contains("no row became slower by more than "), "{text}");
    }
    let [before, after] = paths;
    compare("--fail-above 30%", &[after, before]).passed();
    for bad in ["5", "-5%", "-0.05", "nan", "much"] {
        run(&format!("compare a b --fail-above {bad}")).misused(&["--fail-above", "such as 5% or 0.05"]);
    }
}

#[test]
fn json_holds_all_that_the_table_does() {
    let folder = Folder::new();
    let paths = before_and_after(&folder);
    let report = compare("--json", &paths).json();
    assert_eq!((&report["mode"], &report["regressions"]), (&json!("pass"), &json!([])));
    let verdicts: Vec<(&Value, &Value)> =
        list(&report["keys"]).iter().map(|key| (&key["kernel"], &key["verdict"])).collect();
    let wanted = [
        ("binary_add", "noise"),
        ("rare", "too_few"),
        ("sdpa_compute_attn_weights", "slower"),
        ("sdpa_softmax", "faster"),
    ];
    assert_eq!(
        verdicts,
        wanted.map(|(kernel, verdict)| (json!(kernel), json!(verdict))).each_ref().map(|(k, v)| (k, v))
    );
    assert_eq!(report["keys"][1]["interval"], json!(null));
    assert_eq!(
        (&report["only_before"][0]["kernel"], &report["only_after"][0]["kernel"]),
        (&json!("gone"), &json!("new"))
    );
    assert_eq!((&report["total"]["keys"], &report["total"]["verdict"]), (&json!(3), &json!("slower")));

    let text = compare("--json --fail-above 5%", &paths).missed();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["fail_above"], list(&report["regressions"]).len()), (&json!(0.05), 1));
    assert_eq!(report["regressions"][0]["kernel"], "sdpa_compute_attn_weights");
}

#[test]
fn different_devices_and_modes_are_not_compared_unasked() {
    let folder = Folder::new();
    let one = profile(&[("a", about(1000.0, 50))]);
    let with = |name: &str, change: fn(&mut Profile)| {
        let mut other = one.clone();
        change(&mut other);
        [folder.profile("one.json", &one), folder.profile(name, &other)]
    };
    let adapter = with("adapter.json", |profile| profile.adapter.name = "Other GPU".into());
    compare("", &adapter).refused(&["different adapters: Some GPU (vulkan), and Other GPU", "--different-adapters"]);
    let text = compare("--different-adapters", &adapter).passed();
    assert!(text.contains("note: different adapters: Some GPU (vulkan), and Other GPU (vulkan)"), "{text}");

    let backend = with("backend.json", |profile| profile.adapter.backend = "metal".into());
    compare("", &backend).refused(&["Some GPU (vulkan), and Some GPU (metal)"]);

    let driver = with("driver.json", |profile| profile.adapter.driver = "driver 1.1".into());
    let text = compare("", &driver).passed();
    assert!(text.contains("note: different drivers: driver 1.0, and driver 1.1"), "{text}");

    let cpu = with("cpu.json", |profile| profile.adapter.is_cpu = true);
    assert!(compare("", &cpu).passed().contains("its times say nothing about GPUs"));

    let mode = with("mode.json", |profile| profile.mode = TimestampMode::Inside);
    compare("", &mode).refused(&["different modes, pass and inside"]);
    compare("--different-adapters", &mode).refused(&["different modes"]);
}

#[test]
fn a_gate_with_nothing_to_judge_does_not_pass() {
    let folder = Folder::new();
    let a = folder.profile("a.json", &profile(&[("a", about(1000.0, 50)), ("few", about(1000.0, 3))]));
    let b = folder.profile("b.json", &profile(&[("b", about(1000.0, 50))]));
    let text = compare("", &[a.clone(), b.clone()]).passed();
    assert!(text.starts_with("the profiles have no kernel on the same shapes in common\n"), "{text}");
    compare("--fail-above 5%", &[a.clone(), b]).refused(&["nothing to judge"]);

    let few = folder.profile("few.json", &profile(&[("few", about(9000.0, 50))]));
    let text = compare("", &[a.clone(), few.clone()]).passed();
    assert!(text.contains("\nnothing can be judged\n") && text.contains("1 row has fewer than 8"), "{text}");
    compare("--fail-above 5% --json", &[a, few]).refused(&["nothing to judge", "8 times"]);
}

#[test]
fn bad_files_are_refused_by_name() {
    let folder = Folder::new();
    let good = folder.profile("good.json", &profile(&[("a", about(1000.0, 50))]));
    let bytes = std::fs::read(&good).unwrap();
    let mut other_version: Value = serde_json::from_slice(&bytes).unwrap();
    other_version["version"] = json!(999);
    let mut damaged: Value = serde_json::from_slice(&bytes).unwrap();
    damaged["statistics"][0]["reservoir"] = json!("none");
    let cases: &[(&str, &[u8], &str)] = &[
        ("truncated.json", &bytes[..bytes.len() / 2], "cut off"),
        ("empty.json", b"", "cut off"),
        ("version.json", &serde_json::to_vec(&other_version).unwrap(), "999"),
        ("other.json", b"{\"steps\": []}", "not a profile"),
        ("list.json", b"[1, 2]", "not a profile"),
        ("text.json", b"kernel\tduration", "not JSON"),
        ("bytes.json", b"\xff\xfe\x00", "not JSON"),
        ("damaged.json", &serde_json::to_vec(&damaged).unwrap(), "damaged"),
    ];
    for (name, bytes, word) in cases {
        let bad = folder.file(name, bytes);
        compare("", &[good.clone(), bad.clone()]).refused(&[name, word]);
        compare("--json", &[bad, good.clone()]).refused(&[name, word]);
    }
    compare("", &[good.clone(), folder.0.path().join("nowhere.json")]).refused(&["cannot read", "nowhere.json"]);
    compare("", &[good, folder.0.path().to_owned()]).refused(&["cannot read"]);
    run("compare one.json").misused(&["<AFTER>"]);
}
