//! `torchlight bench`: steps are verified and timed by every route, what cannot run is refused with its reason, and files
//! hold what the table shows.

mod harness;

use std::path::Path;

use harness::{finish, list, torchlight};
use serde_json::{Value, json};

/// Runs a line of arguments, with what devices were measured to do in a folder of the test's own.
fn bench(folder: &Path, line: &str) -> harness::Finished {
    let mut command = torchlight(line.split_whitespace());
    command.env("XDG_CACHE_HOME", folder);
    finish(command)
}

fn misused(line: &str, words: &[&str]) {
    finish(torchlight(line.split_whitespace())).misused(words);
}

fn refused(line: &str, words: &[&str]) {
    finish(torchlight(line.split_whitespace())).refused(words);
}

#[test]
fn smoke_verifies_and_times_every_route() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["rows.csv", "table.md", "plot.svg"].map(|name| folder.path().join(name));
    let [csv, markdown, svg] = files.each_ref().map(|path| path.display());
    let line = format!("bench sdpa --smoke --json --csv {csv} --markdown {markdown} --svg {svg}");
    let report = bench(folder.path(), &line).json();
    let rows = list(&report["rows"]);
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        let (p50, p90) = (number("amortised_us_p50"), number("amortised_us_p90"));
        assert!(0.0 < p50 && p50 <= p90, "{row}");
        assert!(number("gbps") > 0.0 && number("tflops") > 0.0 && number("of_limit") > 0.0, "{row}");
        assert!((number("limit_us") / p50 - number("of_limit")).abs() < 1e-9, "{row}");
        let verified = &row["verified"];
        assert!(verified["rel_l2"].as_f64() <= verified["tolerance"].as_f64(), "{row}");
        // Steps so small are verified in full.
        let wanted = row["q_heads"].as_u64().unwrap() * row["new_tokens"].as_u64().unwrap();
        assert_eq!(verified["rows"], json!(wanted), "{row}");
        let stages = list(&row["own_pass_us"]).iter().map(|stage| stage["us_p50"].as_f64().unwrap());
        let sum = stages.sum::<f64>();
        assert!(row["own_pass_us_sum"].is_null() || (number("own_pass_us_sum") - sum).abs() < 1e-6, "{row}");
    }
    // Four steps by four routes: each has a time, or a reason for none.
    let refused = list(&report["refused"]);
    assert_eq!((rows.len() + refused.len(), list(&report["failed"]).len()), (16, 0), "{report}");
    assert!(refused.iter().all(|entry| !entry["reason"].as_str().unwrap().is_empty()), "{report}");
    let times = |route: &str| rows.iter().filter(|row| row["route"] == route).count();
    assert_eq!((times("materialised"), times("split"), times("streaming")), (4, 2, 4), "{report}");
    assert!(report["adapter"].is_string() && report["driver"].is_string() && report["probe"]["best_us"].is_f64());

    let [csv, markdown, svg] = files.map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(csv.lines().count(), rows.len() + 1, "{csv}");
    assert_eq!(markdown.lines().filter(|line| line.starts_with("| 1 |") || line.starts_with("| 4 |")).count(), 6);
    assert!(svg.contains("decode on ") && svg.trim_end().ends_with("</svg>"));
}

#[test]
fn tables_fit_80_columns_and_say_what_ran_where() {
    let folder = tempfile::tempdir().unwrap();
    let shapes = "--heads 4 --kv-heads 2 --head-dim 20 --seq 1,9 --context 8,40 --repeats 2";
    let text = bench(folder.path(), &format!("bench sdpa {shapes} --route all --kv f32")).passed();
    for line in text.lines() {
        assert!(line.chars().count() <= 80 && line.trim_end() == line, "{line:?}\n{text}");
    }
    assert!(text.starts_with("4 heads, 2 KV heads, head_dim 20, f32 KV\n"), "{text}");
    assert!(text.contains("\nadapter ") && text.contains("held against f64"), "{text}");
    // 9 tokens do not fit into 8 keys.
    assert!(text.contains(" 9/40  streaming") && !text.contains("9/8 "), "{text}");
    assert!(text.contains("refused split, 4 heads, 2 KV heads, head_dim 20, 9/40: 9 new tokens are more"), "{text}");
    let matrix = "refused matrix, 4 heads, 2 KV heads, head_dim 20, 1/8, 1/40, 9/40:";
    assert!(text.contains(matrix), "{text}");
}

#[test]
fn one_route_is_timed_alone_and_auto_names_what_it_took() {
    let folder = tempfile::tempdir().unwrap();
    let shapes = "--heads 2 --kv-heads 1 --head-dim 16 --seq 1 --context 32 --repeats 1";
    for (route, wanted) in [("auto", "split"), ("materialised", "materialised"), ("streaming", "streaming")] {
        let report = bench(folder.path(), &format!("bench sdpa {shapes} --route {route} --json")).json();
        let routes: Vec<&Value> = list(&report["rows"]).iter().map(|row| &row["route"]).collect();
        assert_eq!(routes, [&json!(wanted)], "{report}");
    }
}

#[test]
fn what_cannot_be_timed_is_refused_with_the_reason() {
    let names = ["llama-1b", "llama-8b", "qwen3", "smollm2", "sweep"];
    misused("bench sdpa --preset llama-2t", &names);
    misused("bench sdpa --route fast", &["auto", "all", "materialised", "split", "streaming", "matrix"]);
    misused("bench sdpa --kv f8", &["f16", "f32"]);
    for zero in ["--seq 0 --context 8", "--seq 1 --context 0", "--heads 0 --kv-heads 1 --head-dim 1", "--repeats 0"] {
        misused(&format!("bench sdpa {zero}"), &["'0'"]);
    }
    misused("bench sdpa --seq 4", &["--context"]);
    misused("bench sdpa --heads 4", &["--kv-heads", "--head-dim"]);
    misused("bench sdpa --preset qwen3 --heads 4 --kv-heads 4 --head-dim 4", &["--preset", "--heads"]);
    misused("bench sdpa --smoke --repeats 9", &["--smoke", "--repeats"]);
    misused("bench linear --weights q8:32", &["q4:32", "f32"]);
    misused("bench linear --k 8", &["--n"]);
    misused("bench linear --preset llama-1b --k 8 --n 8", &["--preset"]);
    misused("bench linear --preset llama-2t", &["smollm2-135m", "llama-1b", "llama-8b"]);
    misused("bench linear --rows 0", &["'0'"]);
    misused("bench dispatch --dispatches 0", &["'0'"]);
    misused("bench everything", &["everything"]);
    refused("bench sdpa --seq 2,9 --context 4,8", &["--seq 9", "--context 8"]);
    refused("bench sdpa --heads 5 --kv-heads 2 --head-dim 8", &["--heads 5", "--kv-heads 2"]);
    refused("bench sdpa --smoke --csv nowhere/rows.csv", &["cannot write nowhere/rows.csv", "no folder"]);
    refused("bench sdpa --smoke --svg .", &["it is a folder"]);
    let folder = tempfile::tempdir().unwrap();
    let large = "--heads 1 --kv-heads 1 --head-dim 64 --seq 1";
    // More than any device binds: no memory is asked for.
    bench(folder.path(), &format!("bench sdpa {large} --context 1000000000 --kv f32")).refused(&[
        "nothing could be timed",
        "input 1 of shape [1, 1000000000, 1, 64]",
        "bytes",
    ]);
    refused("bench linear --k 30 --n 8 --weights q4:32", &["30 columns", "groups of 32"]);
    bench(folder.path(), "bench linear --k 100000 --n 1000000 --weights f32").refused(&["nothing could be timed"]);
    bench(folder.path(), "bench sdpa --heads 1 --kv-heads 1 --head-dim 3 --seq 1 --context 9 --route split")
        .refused(&["head_dim 3 is no multiple of 4"]);
}

#[test]
fn linear_layers_are_verified_and_timed() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(folder.path(), "bench linear --smoke --json").json();
    let rows = list(&report["rows"]);
    // Three layers of 1, 3 and 9 rows over two types of weights.
    assert_eq!((rows.len(), list(&report["refused"]).len(), list(&report["failed"]).len()), (18, 0, 0), "{report}");
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        let (p50, p90) = (number("amortised_us_p50"), number("amortised_us_p90"));
        assert!(0.0 < p50 && p50 <= p90 && number("gbps") > 0.0 && number("tflops") > 0.0, "{row}");
        assert!((number("bytes") / p50 / 1e3 - number("gbps")).abs() < 1e-9 * number("gbps"), "{row}");
        assert!(row["verified"]["rel_l2"].as_f64() <= row["verified"]["tolerance"].as_f64(), "{row}");
        let route = if row["rows"].as_u64() <= Some(4) { "vector" } else { "tile" };
        assert_eq!(row["route"], json!(route), "{row}");
    }
    let ways = |name: &str| rows.iter().filter(|row| row["ending"] == name).count();
    assert_eq!(["plain", "add", "swiglu"].map(ways), [6; 3]);
}

#[test]
fn one_linear_layer_is_timed_by_the_route_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let layer = "--k 40 --n 24 --rows 2,6 --weights q4:8 --repeats 1";
    let text = bench(folder.path(), &format!("bench linear {layer} --route tile")).passed();
    assert!(text.starts_with("2 rows, weights of 4 bits in groups of 8\nlayer "), "{text}");
    assert!(
        text.contains("\n6 rows, weights of 4 bits in groups of 8\n") && text.contains("held against f64"),
        "{text}"
    );
    assert_eq!(text.lines().filter(|line| line.starts_with("linear  40  24  tile ")).count(), 2, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80 && line.trim_end() == line), "{text}");
    let text = bench(folder.path(), &format!("bench linear {layer} --route vector")).passed();
    assert!(text.contains("refused linear of 40 to 24, 4 bits in groups of 8, 6 rows: "), "{text}");
}

#[test]
fn dispatches_are_measured_in_every_mode() {
    let report = finish(torchlight("bench dispatch --dispatches 20 --repeats 3 --json".split(' '))).json();
    let rows = list(&report["rows"]);
    assert_eq!(rows[0]["timestamps"], json!("off"));
    assert!(rows[0]["gpu_us"].is_null(), "{report}");
    for row in rows {
        let (host, wall) = (row["host_us"].as_f64().unwrap(), row["wall_us"].as_f64().unwrap());
        assert!(0.0 < host && host <= wall, "{row}");
    }
    for row in rows.iter().filter(|row| row["timestamps"] != "off") {
        assert!(row["gpu_us"].as_f64().unwrap() > 0.0 && row["encode_us"].as_f64().unwrap() > 0.0, "{row}");
    }
    let text = finish(torchlight("bench dispatch --dispatches 20 --repeats 3".split(' '))).passed();
    assert!(text.starts_with("timestamps  passes") && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
