//! `torchlight run`: outputs as files and figures, inputs from the command line, the switch for timestamps.

mod harness;

use std::collections::BTreeSet;
use std::path::Path;

use harness::{CaseCopy, SUPPORTED, finish, fixtures, list, meta, run, run_on, torchlight};
use serde_json::json;

/// Both files as f32, close to each other element by element.
#[track_caller]
fn assert_close(got: &Path, golden: &Path) {
    let read = |path: &Path| -> Vec<f32> {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (elements, rest) = bytes.as_chunks::<4>();
        assert!(rest.is_empty(), "{}", path.display());
        elements.iter().map(|element| f32::from_le_bytes(*element)).collect()
    };
    let (numbers, goldens) = (read(got), read(golden));
    assert_eq!(numbers.len(), goldens.len(), "{}", got.display());
    for (index, (number, golden)) in numbers.iter().zip(&goldens).enumerate() {
        let close = (number - golden).abs() <= 1e-5 + 1e-4 * golden.abs();
        assert!(close, "{} [{index}]: {number}, wanted {golden}", got.display());
    }
}

#[test]
fn outputs_are_written_as_whole_files() {
    let folder = tempfile::tempdir().unwrap();
    for case in SUPPORTED {
        // Neither the folder nor the one above it is there yet.
        let out = folder.path().join("a folder").join(case);
        run_on(&format!("run {case} --out"), &[&out]).passed();
        let mut names = BTreeSet::new();
        for (step, outputs) in list(&meta(case)["steps"]).iter().map(|step| list(&step["outputs"])).enumerate() {
            for output in outputs {
                let name = format!("step{step}_out_{}.bin", output["name"].as_str().unwrap());
                if let Some(golden) = output["file"].as_str() {
                    assert_close(&out.join(&name), &fixtures().join(case).join(golden));
                }
                names.insert(name);
            }
        }
        let written: BTreeSet<String> =
            out.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(written, names, "{case}");
    }
}

#[test]
fn a_program_takes_its_inputs_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = "--input 1=@add/step0_in_y.bin --input 0=@add/step0_in_x.bin";
    run_on(&format!("run add/model.pte {inputs} --out"), &[folder.path()]).passed();
    assert_close(&folder.path().join("step0_out_output0.bin"), &fixtures().join("add/step0_out_out.bin"));

    let report = run("run mul/model.pte --input 0=zeros --json").json();
    assert_eq!((&report["outputs"][0]["min"], &report["outputs"][0]["max"]), (&json!(0.0), &json!(0.0)), "{report}");

    let shapes = "--shape 0=1x3x4x16 --shape 1=1x3x2x16 --shape 2=1x3x2x16";
    let report = run(&format!("run sdpa_incache_replay/model.pte {shapes} --input 3=2 --json")).json();
    assert_eq!(report["outputs"][0]["shape"], json!([1, 3, 4, 16]), "{report}");
    assert_eq!(report["outputs"][0]["non_finite"], 0, "{report}");

    let constant = run("run tiny_llama_q4/model.pte --method get_n_layers --json").json();
    assert_eq!(constant["outputs"][0]["first"], json!([2.0]), "{constant}");
}

#[test]
fn made_inputs_are_the_same_in_every_run_and_differ_between_inputs() {
    let outputs = |options: &str| run(&format!("run add/model.pte --json {options}")).json()["outputs"].clone();
    assert_eq!(outputs(""), outputs("--input 0=random --input 1=random"));
    assert_ne!(outputs(""), outputs("--input 0=zeros"));
    assert_ne!(outputs(""), outputs("--input 1=zeros"));
}

#[test]
fn wrong_inputs_are_named_with_what_was_wanted_and_got() {
    let add = "add/model.pte";
    let decode = "sdpa_incache_decode/model.pte";
    let rows = "exceeds the cache's 16 rows";
    let cases: &[(&str, &str, &[&str])] = &[
        (decode, "--input 3=16", &["sdpa_with_kv_cache (node 1): position 16 + 1", rows]),
        (decode, "--input 3=99", &["position 99 + 1", rows]),
        (decode, "--input 3=-1", &["position -1 is negative"]),
        (decode, "--input 3=9223372036854774784", &["9223372036854774784"]),
        (decode, "--input 3=1.5", &["input 3", "whole numbers", "i64", "1.5"]),
        (decode, "--input 3=nan", &["input 3", "whole numbers", "NaN"]),
        (decode, "--input 3=1e30", &["input 3", "whole numbers", "i64"]),
        (decode, "--input 3=random", &["input 3", "random is for f32", "i64"]),
        ("sdpa_incache_replay/model.pte", "--input 3=9", &["position 9 + 8", rows]),
        (add, "--shape 0=2x4", &["input 0: wanted f32[2, 3, 8], got f32[2, 4]"]),
        (add, "--shape 0=8x3x2", &["input 0: wanted f32[2, 3, 8], got f32[8, 3, 2]"]),
        (add, "--shape 0=2x3x9", &["input 0: wanted f32[2, 3, 8]", "got [2, 3, 9]"]),
        (add, "--shape 0=", &["input 0: wanted f32[2, 3, 8], got f32[]"]),
        (add, "--shape 1=0x8", &["input 1: wanted f32[1, 8], got f32[0, 8]"]),
        // 1.6 TB and more: refused before any of it is made.
        (add, "--shape 0=4000000000x100", &["input 0", "[2, 3, 8]", "[4000000000, 100]"]),
        (add, "--shape 0=4294967295x4294967295x4294967295", &["input 0", "[2, 3, 8]", "4294967295"]),
        (add, "--input 0=1,2", &["input 0: wanted 48 numbers", "got 2"]),
        (add, "--input 1=@add/step0_in_x.bin", &["input 1", "32 bytes", "f32[1, 8]", "192 bytes"]),
        (add, "--input 1=@nowhere", &["input 1: cannot read nowhere"]),
        (add, "--input 2=zeros", &["there is no input 2: the method has 2"]),
        (add, "--shape 7=1", &["there is no input 7: the method has 2"]),
        (add, "--input 0=zeros --input 0=random", &["input 0 is given twice"]),
        (add, "--method backward", &["add/model.pte", "\"backward\"", "forward"]),
        ("add", "--input 0=zeros", &["--input", "add is a case folder"]),
        ("add", "--shape 0=2x3x8", &["--shape", "add is a case folder"]),
        ("sdpa_single/graph.json", "", &["sdpa_single/graph.json: not a .pte file"]),
    ];
    for (index, (path, options, words)) in cases.iter().enumerate() {
        // Both commands read their inputs in one way: every fifth case shows it.
        let commands: &[&str] = if index % 5 == 0 { &["run", "profile"] } else { &["run"] };
        for command in commands {
            run(&format!("{command} {path} {options}")).refused(words);
        }
    }
    let misuses: &[(&str, &[&str])] = &[
        ("--input zeros", &["--input", "INDEX=", "zeros"]),
        ("--input x=zeros", &["--input", "index of an input", "x"]),
        ("--input -1=zeros", &["-1"]),
        ("--input 0=a,b", &["--input", "numbers", "a,b"]),
        ("--input 0=", &["--input", "numbers"]),
        ("--shape 0=2x", &["--shape", "'x'", "2x"]),
        ("--shape 0=-1x2", &["--shape", "-1x2"]),
        ("--shape 0=2,3,8", &["--shape", "'x'", "2,3,8"]),
        ("--timestamps never", &["--timestamps", "never", "off, pass, inside"]),
    ];
    for (options, words) in misuses {
        run(&format!("run {add} {options}")).misused(words);
    }
}

#[test]
fn the_switch_takes_three_words_for_on_and_four_for_off() {
    let with = |value: Option<&str>, line: &str| {
        let mut command = torchlight(line.split(' '));
        command.envs(value.map(|value| ("WEBGPU_TIMESTAMP_QUERY", value)));
        finish(command)
    };
    let has_kernels = |text: &str| {
        let mut after = text.lines().skip_while(|line| !line.starts_with("kernel "));
        after.any(|line| line.starts_with("binary_add "))
    };
    for value in [None, Some(""), Some("0"), Some("false"), Some("off")] {
        let text = with(value, "run add").passed();
        assert!(!has_kernels(&text) && !text.contains("timestamps"), "{value:?}\n{text}");
        assert_eq!(with(value, "run add --json").json().get("profile"), None, "{value:?}");
    }
    for value in ["1", "true", "on"] {
        let text = with(Some(value), "run add").passed();
        assert!(has_kernels(&text) && text.contains("timestamps pass: "), "{value:?}\n{text}");
        let samples = with(Some(value), "run add --json").json()["profile"]["runs"][0]["samples"].clone();
        assert_eq!(list(&samples).len(), 2, "{value:?}");
    }
    for value in ["2", "yes", "no", "on,off", "é"] {
        let quoted = format!("WEBGPU_TIMESTAMP_QUERY={value:?}");
        let words = [quoted.as_str(), "1, true or on", "0, false, off"];
        with(Some(value), "run add").refused(&words);
        // The command line decides, and the variable is not read.
        assert!(!has_kernels(&with(Some(value), "run add --timestamps off").passed()), "{value:?}");
    }
    with(Some("2"), "verify add").refused(&["WEBGPU_TIMESTAMP_QUERY=\"2\""]);
    for line in ["profile add", "inspect add/model.pte", "devices"] {
        with(Some("2"), line).passed();
    }
    let text = with(Some("0"), "run add --timestamps inside").passed();
    assert!(has_kernels(&text) && text.contains("timestamps inside: "), "{text}");
    assert!(!has_kernels(&with(Some("1"), "run add --timestamps off").passed()));
    with(Some("1"), "verify add").passed();
}

#[test]
fn outputs_that_cannot_be_written_are_an_error_that_names_the_path() {
    let copy = CaseCopy::new("add");
    let file = copy.beside("file");
    std::fs::write(&file, "not a folder").unwrap();
    for out in [file.clone(), file.join("below")] {
        let path = out.display().to_string();
        run_on("run add --out", &[&out]).refused(&["cannot make the folder", &path]);
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"not a folder");
    // A folder stands where the output's file belongs.
    let out = copy.beside("out");
    std::fs::create_dir_all(out.join("step0_out_out.bin").join("full")).unwrap();
    run_on("run add --out", &[&out]).refused(&["cannot write", "step0_out_out.bin"]);
}

#[test]
fn numbers_stay_narrow_and_what_is_not_finite_is_counted() {
    let line = "run add/model.pte --input 1=1e30,-1e20,nan,inf,1e6,1e5,1e4,1e-30";
    let text = run(line).passed();
    let row = text.lines().nth(1).unwrap();
    assert!(row.contains("2.0000e30") && row.ends_with(" 12"), "{text}");
    let report = run(&format!("{line} --json")).json();
    assert_eq!(report["outputs"][0]["non_finite"], 12, "{report}");
}
