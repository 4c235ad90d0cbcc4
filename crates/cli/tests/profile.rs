//! `torchlight profile`: every step, kernel and dispatch is counted and timed, in tables, TSV and JSON.

mod harness;

use harness::{list, run};
use serde_json::json;

/// By a route of several kernels, the same ones on every device.
const CASE: &str = "sdpa_incache_decode --route materialised";
const STEPS: usize = 8;
const KERNELS: [&str; 4] = ["update_cache", "sdpa_compute_attn_weights", "sdpa_softmax", "sdpa_compute_out"];
/// Dispatches of a step, by kernel: keys and values each have their write.
const DISPATCHES: [usize; 4] = [2, 1, 1, 1];

/// The cells of the table that has this heading first.
fn rows<'t>(text: &'t str, heading: &str) -> Vec<Vec<&'t str>> {
    let table = text.lines().skip_while(|line| line.split_whitespace().next() != Some(heading));
    table.skip(1).take_while(|line| !line.is_empty()).map(|line| line.split_whitespace().collect()).collect()
}

#[track_caller]
fn microseconds(cell: &str) -> f64 {
    let value = cell.parse().unwrap_or_else(|_| panic!("wanted microseconds, got {cell:?}"));
    assert!((0.0..1e7).contains(&value), "{cell}");
    value
}

#[test]
fn tables_hold_every_step_and_kernel_in_order() {
    for (options, repeats) in [("", 1), ("--repeat 3", 3), ("--repeat 2 --warmup 0", 2)] {
        let text = run(&format!("profile {CASE} {options}")).passed();
        let steps = rows(&text, "step");
        assert_eq!(steps.len(), STEPS * KERNELS.len(), "{options}\n{text}");
        for (index, row) in steps.iter().enumerate() {
            let (step, kernel) = (index / KERNELS.len(), index % KERNELS.len());
            let cells = if kernel == 0 { &row[1..] } else { row };
            assert!(kernel > 0 || row[0] == step.to_string(), "{options}: {row:?}");
            // Dispatches are those of one repetition, however many there were.
            let wanted = [KERNELS[kernel], &DISPATCHES[kernel].to_string()];
            assert_eq!((cells.len(), &cells[..2]), (4, &wanted[..]), "{options}: {row:?}");
            microseconds(cells[3]);
        }

        let kernels = rows(&text, "kernel");
        assert_eq!(kernels.len(), KERNELS.len(), "{options}\n{text}");
        let mut shares = 0.0;
        for (row, (kernel, dispatches)) in kernels.iter().zip(KERNELS.iter().zip(DISPATCHES)) {
            let [name, count, mean, total, share, "%"] = row[..] else { panic!("{options}: {row:?}") };
            let count: usize = count.parse().unwrap();
            assert_eq!((name, count), (*kernel, dispatches * STEPS * repeats), "{options}");
            let (mean, total) = (microseconds(mean), microseconds(total));
            assert!((mean * count as f64 - total).abs() <= 0.01 * count as f64, "{options}: {row:?}");
            shares += share.parse::<f64>().unwrap();
        }
        assert!((shares - 100.0).abs() <= 0.2, "{options}: {shares} %\n{text}");
        assert!(text.contains("\ntimestamps pass: ") && text.contains("\nadapter "), "{text}");
        assert!(text.contains(&format!("\neach step ran {repeats}x, after ")), "{text}");
    }
}

#[test]
fn tsv_has_a_line_for_every_dispatch_and_every_field_on_it() {
    for repeats in [1, 3] {
        let text = run(&format!("profile {CASE} --tsv --repeat {repeats}")).passed();
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap().split('\t').collect();
        assert_eq!(header.len(), 20, "{header:?}");
        let field = |line: &[&str], name: &str| -> String {
            line[header.iter().position(|field| *field == name).unwrap_or_else(|| panic!("no {name}"))].to_owned()
        };
        let lines: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines.len(), STEPS * 5 * repeats);
        for (index, line) in lines.iter().enumerate() {
            assert_eq!(line.len(), header.len(), "{line:?}");
            let place = ["step", "run", "dispatch"].map(|name| field(line, name).parse::<usize>().unwrap());
            // Runs are numbered from the making of the session, and the first eight warmed up.
            assert_eq!(place, [index / 5 % STEPS, STEPS + index / 5, index % 5], "{line:?}");
            let kernel = ["update_cache", KERNELS[0], KERNELS[1], KERNELS[2], KERNELS[3]][index % 5];
            assert_eq!((field(line, "kernel"), field(line, "node")), (kernel.to_owned(), "1".to_owned()), "{line:?}");
            let number = |name| field(line, name).parse::<f64>().unwrap_or_else(|_| panic!("{name}: {line:?}"));
            let [begin, end, duration] = ["begin_ns", "end_ns", "duration_ns"].map(number);
            assert!(duration >= 0.0 && (end - begin - duration).abs() <= 1.0, "{line:?}");
            assert!(!field(line, "quality").is_empty(), "{line:?}");
        }
    }
}

#[test]
fn json_says_of_every_sample_how_good_it_is() {
    let report = run(&format!("profile {CASE} --json --repeat 3 --warmup 2")).json();
    assert_eq!((&report["mode"], &report["warmup"]), (&json!("pass"), &json!(2)));
    let runs = list(&report["runs"]);
    let steps: Vec<u64> = runs.iter().map(|run| run["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, (0..3).flat_map(|_| 0..STEPS as u64).collect::<Vec<_>>());
    for run in runs {
        let samples = list(&run["samples"]);
        assert_eq!(samples.len(), 5, "{run}");
        for sample in samples {
            assert!(sample["quality"].as_str().is_some_and(|quality| !quality.is_empty()), "{sample}");
            assert!(sample["duration_ns"].is_number(), "{sample}");
        }
        let host = |name: &str| run["host"][name].as_f64().unwrap();
        let named: f64 = ["prepare_ns", "encode_ns", "submit_ns", "wait_ns", "readback_ns"].map(host).iter().sum();
        assert!(0.0 < named && named <= host("wall_ns") * 1.001, "{run}");
    }
    let dispatches: u64 = list(&report["statistics"]).iter().map(|entry| entry["dispatches"].as_u64().unwrap()).sum();
    assert_eq!(dispatches, 3 * STEPS as u64 * 5);
    let buckets: Vec<_> =
        list(&report["statistics"]).iter().filter(|entry| entry["kernel"] == "sdpa_softmax").collect();
    let buckets: Vec<_> = buckets.iter().map(|entry| (&entry["context_bucket"], &entry["dispatches"])).collect();
    let wanted = [(1, 3), (2, 6), (4, 12), (8, 3)].map(|(bucket, count)| (json!(bucket), json!(count)));
    assert_eq!(buckets, wanted.iter().map(|(bucket, count)| (bucket, count)).collect::<Vec<_>>());
}

#[test]
fn the_table_says_how_it_was_measured() {
    let text = run(&format!("profile {CASE} --timestamps inside")).passed();
    assert!(text.contains("\ntimestamps inside: "), "{text}");
    assert_eq!(rows(&text, "step").len(), STEPS * KERNELS.len(), "{text}");

    let text = run(&format!("profile {CASE} --timestamps run")).passed();
    assert!(text.contains("\ntimestamps run: "), "{text}");
    // A step is one pass, and so one row.
    let steps = rows(&text, "step");
    assert!(steps.len() == STEPS && steps.iter().all(|row| row[1..3] == ["pass", "1"]), "{text}");

    let off = run(&format!("profile {CASE} --timestamps off")).passed();
    assert_eq!(off, "8 steps ran; no timestamps were taken\n");
    assert_eq!(run("profile add --timestamps off").passed(), "1 step ran; no timestamps were taken\n");
    let tsv = run(&format!("profile {CASE} --timestamps off --tsv")).passed();
    assert_eq!(tsv.lines().count(), 1, "{tsv}");
    let report = run(&format!("profile {CASE} --timestamps off --json")).json();
    assert_eq!((&report["mode"], &report["statistics"]), (&json!("off"), &json!([])), "{report}");

    // A program without a kernel has nothing to time.
    let text = run("profile tiny_llama_q4/model.pte --method get_n_layers").passed();
    assert_eq!(text, "no dispatch ran, so there is nothing to time\n");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    run("profile add --repeat 0").misused(&["--repeat"]);
    run("profile add --json --tsv").misused(&["--json", "--tsv"]);
    run("profile add --timestamps sometimes").misused(&["--timestamps", "off, pass, inside"]);
    run("profile").misused(&["<CASE_DIR|FILE>"]);
}
