//! Profiles as files, what looking costs, and what a device was measured to do.

mod harness;

use std::path::Path;

use harness::{finish, run, run_on, torchlight};

const CASE: &str = "sdpa_incache_replay";

/// Runs with a cache folder of its own.
fn run_with_cache(folder: &Path, line: &str) -> harness::Finished {
    let mut command = torchlight(line.split(' '));
    command.env("XDG_CACHE_HOME", folder);
    finish(command)
}

#[test]
fn every_format_is_written_by_its_ending() {
    let folder = tempfile::tempdir().unwrap();
    let starts: [(&str, &[u8]); 7] = [
        ("p.txt", b"step"),
        ("p.tsv", b"step\trun\t"),
        ("p.csv", b"step,run,"),
        ("p.json", b"{\"schema\":\"torchlight-profile\""),
        ("p.trace.json", b"{"),
        ("p.etdp", b""),
        ("p.html", b"<!"),
    ];
    for (name, start) in starts {
        let path = folder.path().join(name);
        let text = run_on(&format!("profile {CASE} --out"), &[&path]).passed();
        assert!(text.contains("\nkernel "), "{name}: the tables are printed as well\n{text}");
        let bytes = std::fs::read(&path).unwrap();
        let compact: Vec<u8> = bytes.iter().copied().filter(|byte| !matches!(byte, b' ' | b'\n')).collect();
        assert!(bytes.starts_with(start) || compact.starts_with(start), "{name}: {:?}", &bytes[..80.min(bytes.len())]);
        assert!(bytes.len() > 500, "{name}: {} bytes", bytes.len());
    }
    assert_eq!(&std::fs::read(folder.path().join("p.etdp")).unwrap()[8..12], b"ED00");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 7, "nothing else is left");
}

#[test]
fn a_format_can_be_named_and_printed() {
    let printed = run(&format!("profile {CASE} --format csv")).passed();
    assert!(printed.starts_with("step,run,dispatch,kernel,"), "{printed}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.dat");
    run_on(&format!("profile {CASE} --format tsv --out"), &[&path]).passed();
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("step\trun"));
}

#[test]
fn what_cannot_be_written_is_refused_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    run_on(&format!("profile {CASE} --out"), &[&folder.path().join("p.xml")]).refused(&[
        "p.xml",
        ".trace.json",
        "--format",
    ]);
    run_on(&format!("profile {CASE} --out"), &[folder.path()]).refused(&["it is a folder"]);
    run_on(&format!("profile {CASE} --out"), &[&folder.path().join("no/p.json")])
        .refused(&["no/p.json", "No such file"]);
    run("profile add --format xml").misused(&["xml", "csv"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    if Path::new("/dev/full").exists() {
        // A disk that is full: the file beside cannot be written there, and the device itself is left alone.
        run(&format!("profile {CASE} --format json --out /dev/full/p.json")).refused(&["/dev/full/p.json"]);
    }
}

#[test]
fn overhead_compares_the_modes() {
    let text = run(&format!("profile {CASE} --overhead --repeat 3")).passed();
    let rows: Vec<Vec<&str>> = text.lines().take(5).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1][0], "off");
    assert_eq!(rows[1][2..], ["-", "-", "-"], "{text}");
    assert_eq!([rows[2][0], rows[3][0]], ["run", "pass"]);
    for row in &rows[2..4] {
        assert!(row[1..4].iter().all(|number| number.parse::<f64>().is_ok_and(|number| number > 0.0)), "{text}");
    }
    let costs = run(&format!("profile {CASE} --overhead --repeat 3 --json")).json();
    assert_eq!((&costs[0]["mode"], &costs[0]["sum_ns"]), (&"off".into(), &serde_json::Value::Null), "{costs}");
    run("profile add --overhead --tsv").misused(&["--overhead", "--tsv"]);
}

#[test]
fn explain_names_the_route_of_every_attention() {
    let text = run(&format!("profile {CASE} --explain")).passed();
    assert!(
        text.starts_with("attention of 4 heads, 2 KV heads, head_dim 16: node 2\n  1 token over 16 keys: "),
        "{text}"
    );
    assert!(text.contains("\n  8 tokens over 16 keys: "), "{text}");
    // Each step names its route and every other with a reason.
    assert_eq!(text.matches("\n    not ").count(), 6, "{text}");
    assert!(text.contains("    not matrix: the cache is f32, and it wants f16 (--kv f16)\n"), "{text}");
    let asked = run(&format!("profile {CASE} --explain --route materialised --kv f16")).passed();
    assert!(asked.contains(" over 16 keys: materialised\n    not split: materialised was asked for\n"), "{asked}");
    // A program whose steps all have one token has no other.
    let text = run("profile sdpa_single --explain").passed();
    assert_eq!(text.matches(" over ").count(), 1, "{text}");
    // Text before what programs read would spoil it.
    for format in ["--json", "--tsv", "--format csv"] {
        run(&format!("profile {CASE} --explain {format}")).misused(&["--explain", format.split(' ').next().unwrap()]);
    }
}

#[test]
fn a_measured_device_shows_in_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("profile {CASE} --detail");
    let before = run_with_cache(folder.path(), &line).passed();
    assert!(before.contains("of peak: unknown until `torchlight devices --measure`"), "{before}");
    assert!(before.contains("s5 h4 hk2 d16") && before.contains("4..7"), "{before}");
    let devices = run_with_cache(folder.path(), "devices --measure").passed();
    assert!(devices.contains("   measured    copy: "), "{devices}");
    // Kept for other commands, until the driver changes.
    assert!(run_with_cache(folder.path(), "devices").passed().contains("   measured    copy: "));
    let after = run_with_cache(folder.path(), &line).passed();
    assert!(after.contains("of peak: the larger of GB/s and GFLOP/s over "), "{after}");
    let profile = run_with_cache(folder.path(), &format!("profile {CASE} --json")).json();
    assert!(profile["peaks"]["copy_gbps"].as_f64().is_some_and(|rate| rate > 0.0), "{}", profile["peaks"]);
    // A store that is no store is as good as none.
    std::fs::write(folder.path().join("torchlight/peaks.json"), "half").unwrap();
    assert!(run_with_cache(folder.path(), &line).passed().contains("of peak: unknown"));
}
