//! `torchlight verify`: right results pass, wrong ones miss by name, and broken cases are errors.

mod harness;

use harness::{CaseCopy, SUPPORTED, list, meta, run, run_on};
use serde_json::{Value, json};

/// What `verify --json` says of a case that misses.
#[track_caller]
fn missed_rows(case: &CaseCopy) -> Vec<(u64, Value)> {
    let text = run_on("verify --json", &[case.path()]).missed();
    let rows: Value = serde_json::from_str(&text).unwrap();
    let missed = list(&rows).iter().filter(|row| row["passed"] == false);
    missed.map(|row| (row["step"].as_u64().unwrap(), row["missed"].clone())).collect()
}

#[test]
fn every_supported_case_passes_step_by_step() {
    let steps: Vec<usize> = SUPPORTED.iter().map(|case| list(&meta(case)["steps"]).len()).collect();
    let all = SUPPORTED.join(" ");
    let rows = run(&format!("verify --json {all}")).json();
    let mut rows = list(&rows).iter();
    for (case, &count) in SUPPORTED.iter().zip(&steps) {
        for step in 0..count {
            let row = rows.next().unwrap_or_else(|| panic!("{case}: no row for step {step}"));
            assert_eq!((&row["case"], &row["step"]), (&json!(case), &json!(step)));
            assert_eq!(
                (&row["passed"], &row["failed"], &row["missed"]),
                (&json!(true), &json!(0), &json!([])),
                "{row}"
            );
            let goldens = |key: &str| {
                let goldens = meta(case)["steps"][step][key].as_array().cloned().unwrap_or_default();
                goldens.iter().filter(|golden| !golden["file"].is_null()).count()
            };
            assert_eq!(row["tensors"], json!(goldens("outputs") + goldens("state_after")), "{row}");
        }
    }
    assert_eq!(rows.next(), None);

    let text = run(&format!("verify {all}")).passed();
    let total: usize = steps.iter().sum();
    assert!(text.contains(&format!("\nall {total} steps pass: ")), "{text}");
    assert_eq!(text.lines().filter(|line| line.ends_with("  ok")).count(), total, "{text}");
}

#[test]
fn one_wrong_element_misses_and_its_step_and_tensor_are_named() {
    // (case, golden, element, step, tensor): no golden that a later step reads as its input.
    let cases = [
        ("add", "step0_out_out.bin", 47, 0, "out"),
        ("sdpa_incache_decode", "step5_state_v_cache.bin", 0, 5, "v_cache"),
        ("sdpa_incache_replay", "step2_out_out.bin", 63, 2, "out"),
        ("sdpa_replay_static", "step4_out_k_cache.bin", 511, 4, "k_cache"),
        ("update_cache_static", "step0_out_cache.bin", 255, 0, "cache"),
    ];
    for (case, file, element, step, tensor) in cases {
        type Wrong = (&'static str, fn(f32) -> f32);
        let wrongs: [Wrong; 4] = [
            ("NaN", |_| f32::NAN),
            ("infinite", |_| f32::INFINITY),
            ("negated", |value| -value - 1.0),
            ("off by 1 %", |value| value * 1.01 + 0.01),
        ];
        let wrong_copy = |wrong: fn(f32) -> f32| {
            let copy = CaseCopy::new(case);
            copy.edit_f32(file, element, wrong);
            copy
        };
        for (what, wrong) in wrongs {
            assert_eq!(missed_rows(&wrong_copy(wrong)), [(step, json!([tensor]))], "{case}: {file} {what}");
        }

        let text = run_on("verify", &[wrong_copy(wrongs[0].1).path()]).missed();
        let steps = list(&meta(case)["steps"]).len();
        let rows: Vec<&str> = text.lines().filter(|line| line.ends_with("  MISSED")).collect();
        let [row] = rows[..] else { panic!("{case}: {file}\n{text}") };
        assert_eq!(row.split_whitespace().take(2).collect::<Vec<_>>(), [case, &step.to_string()], "{text}");
        let (named, ending) = (format!("MISSED {case} step {step}: 1 of "), format!(" elements, in {tensor}"));
        let named = |line: &&str| line.starts_with(&named) && line.ends_with(&ending);
        assert_eq!(text.lines().filter(named).count(), 1, "{case}: {file}\n{text}");
        let plural = if steps == 1 { "" } else { "s" };
        assert!(text.contains(&format!("\n1 of {steps} step{plural} MISSED: ")), "{text}");
    }
}

#[test]
fn nan_never_passes_and_equal_infinities_do() {
    // The sum x + 2 y + constant: an x that is not finite makes one output so.
    let with = |input: f32, golden: f32| {
        let copy = CaseCopy::new("add");
        copy.edit_f32("step0_in_x.bin", 3, |_| input);
        copy.edit_f32("step0_out_out.bin", 3, |_| golden);
        copy
    };
    for (input, golden) in [(f32::NAN, f32::NAN), (f32::NAN, 0.0), (f32::INFINITY, f32::NEG_INFINITY)] {
        assert_eq!(missed_rows(&with(input, golden)), [(0, json!(["out"]))], "{input} and {golden}");
    }
    let copy = with(f32::NEG_INFINITY, f32::NEG_INFINITY);
    run_on("verify", &[copy.path()]).passed();
}

#[test]
fn an_element_passes_within_either_tolerance() {
    let copy = CaseCopy::new("mul");
    let mut golden = 0.0;
    copy.edit_f32("step0_out_out.bin", 7, |value| {
        golden = value + 0.01;
        golden
    });
    let relative = f64::from(0.01 / golden.abs());
    let tolerances = [
        ("--atol 0.011".to_owned(), true),
        ("--atol 0.011 --rtol 0".to_owned(), true),
        ("--atol 0.009".to_owned(), false),
        ("--atol 0.009 --rtol 0".to_owned(), false),
        (format!("--rtol {}", relative * 1.1), true),
        (format!("--atol 0 --rtol {}", relative * 1.1), true),
        (format!("--rtol {}", relative * 0.9), false),
        ("--atol 1e-2 --rtol inf".to_owned(), true),
        (String::new(), false),
    ];
    for (options, passes) in tolerances {
        let finished = run_on(&format!("verify {options}"), &[copy.path()]);
        if passes {
            finished.passed()
        } else {
            finished.missed()
        };
    }
    // A product has one rounding: it is exact.
    run("verify mul --atol 0 --rtol 0").passed();
    for options in ["--atol -1", "--rtol -1e-5", "--atol nan", "--rtol NaN", "--atol x"] {
        run(&format!("verify add {options}"))
            .misused(&[options.split(' ').next().unwrap(), "wanted a number, 0 or more"]);
    }
}

#[test]
fn one_missed_case_among_others_is_a_miss_and_all_are_shown() {
    let copy = CaseCopy::new("mul");
    copy.edit_f32("step0_out_out.bin", 0, |value| value + 1.0);
    let text = run_on("verify add sdpa_single", &[copy.path()]).missed();
    assert!(text.contains("1 of 3 steps MISSED"), "{text}");
    for case in ["add", "sdpa_single", "mul"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("{case} "))), "{case}\n{text}");
    }
}

#[test]
fn broken_cases_are_errors_that_name_the_thing() {
    type Damage = fn(&CaseCopy);
    // (case, damage, words of the error, the commands that must see it)
    const ALL: &[&str] = &["verify", "run"];
    const VERIFY: &[&str] = &["verify"];
    let cases: &[(&str, Damage, &[&str], &[&str])] = &[
        ("add", |copy| copy.remove("model.pte"), &["cannot open", "model.pte"], ALL),
        ("add", |copy| copy.remove("step0_in_y.bin"), &["cannot read", "step0_in_y.bin"], ALL),
        ("add", |copy| copy.remove("step0_out_out.bin"), &["step 0", "cannot read", "step0_out_out.bin"], VERIFY),
        ("add", |copy| copy.remove("meta.json"), &["is not a case folder", "meta.json"], VERIFY),
        ("add", |copy| copy.remove("meta.json"), &["is a folder", "no meta.json"], &["run", "profile"]),
        ("sdpa_single", |copy| copy.cut("step0_in_q.bin", 1), &["step0_in_q.bin", "2048 bytes", "2047"], ALL),
        ("sdpa_single", |copy| copy.cut("step0_in_q.bin", 2048), &["step0_in_q.bin", "2048 bytes", "got 0"], ALL),
        ("add", |copy| copy.edit("step0_out_out.bin", |bytes| bytes.push(0)), &["step0_out_out.bin", "193"], VERIFY),
        ("add", |copy| copy.cut("meta.json", 300), &["meta.json", "line"], ALL),
        ("add", |copy| copy.cut("meta.json", 2702), &["meta.json", "line 1"], ALL),
        ("add", |copy| copy.edit("meta.json", |bytes| bytes[10] = 0xff), &["meta.json", "UTF-8"], ALL),
        ("add", |copy| copy.edit_meta(|meta| meta["steps"] = json!([])), &["meta.json has no steps"], ALL),
        ("add", |copy| copy.edit_meta(|meta| *meta = json!({})), &["meta.json has no steps"], ALL),
        ("add", |copy| copy.input("dtype", json!("f65")), &["meta.json", "f65", "f32"], ALL),
        ("add", |copy| copy.input("shape", json!([2, -3, 8])), &["meta.json", "-3"], ALL),
        ("add", |copy| copy.input("shape", json!([2, 8, 3])), &["step 0: input 0", "[2, 3, 8]", "[2, 8, 3]"], ALL),
        ("add", |copy| copy.input("shape", json!([2, 3, 1, 1, 1, 1, 1, 1, 1, 8])), &["step0_in_x.bin"], ALL),
        ("add", |copy| copy.input("shape", json!([4294967295u32, 4294967295u32, 4294967295u32])), &["in_x.bin"], ALL),
        ("add", |copy| copy.input("file", json!(null)), &["input x has no file"], ALL),
        ("add", |copy| copy.input("file", json!(".")), &["cannot read"], ALL),
        ("add", |copy| copy.step("model", json!("step0_in_x.bin")), &["step0_in_x.bin", "not a .pte file"], ALL),
        ("add", |copy| copy.step("model", json!("")), &["is a folder"], ALL),
        ("add", |copy| copy.step("inputs", json!([])), &["step 0: inputs", "2", "0"], ALL),
        ("add", |copy| copy.step("inputs", json!(null)), &["meta.json"], ALL),
        ("add", |copy| copy.step("outputs", json!([])), &["step 0: the case has 0 outputs", "gives 1"], VERIFY),
        (
            "add",
            |copy| copy.edit_meta(|meta| meta["steps"][0]["outputs"][0]["shape"] = json!([48])),
            &["step 0: out: the golden is f32[48]", "f32[2, 3, 8]"],
            VERIFY,
        ),
        (
            "sdpa_incache_decode",
            |copy| copy.edit_meta(|meta| drop(meta["steps"][6]["state_after"].as_array_mut().unwrap().pop())),
            &["step 6: the case has 1 caches", "keeps 2"],
            VERIFY,
        ),
        (
            "sdpa_incache_decode",
            |copy| copy.edit("step3_in_input_pos.bin", |bytes| bytes[0] = 16),
            &["step 3: sdpa_with_kv_cache (node 1): position 16 + 1 exceeds the cache's 16 rows"],
            ALL,
        ),
    ];
    for (case, damage, words, commands) in cases {
        let copy = CaseCopy::new(case);
        damage(&copy);
        for command in *commands {
            run_on(command, &[copy.path()]).refused(words);
        }
    }
}

/// The damages that recur.
trait Damaged {
    fn remove(&self, file: &str);
    fn cut(&self, file: &str, bytes: usize);
    fn step(&self, key: &str, value: Value);
    fn input(&self, key: &str, value: Value);
}

impl Damaged for CaseCopy {
    fn remove(&self, file: &str) {
        std::fs::remove_file(self.path().join(file)).unwrap();
    }

    /// Cuts so many bytes off the end.
    fn cut(&self, file: &str, count: usize) {
        self.edit(file, |bytes| bytes.truncate(bytes.len() - count));
    }

    /// Sets a key of the first step.
    fn step(&self, key: &str, value: Value) {
        self.edit_meta(|meta| meta["steps"][0][key] = value);
    }

    /// Sets a key of the first step's first input.
    fn input(&self, key: &str, value: Value) {
        self.edit_meta(|meta| meta["steps"][0]["inputs"][0][key] = value);
    }
}

#[test]
fn what_is_no_case_is_an_error() {
    let lines: &[(&str, &[&str])] = &[
        ("verify nowhere", &["cannot open nowhere"]),
        ("verify add/model.pte", &["add/model.pte is not a case folder", "meta.json"]),
        ("verify .", &[". is not a case folder"]),
        ("verify ptd_linear", &["ptd_linear is not a case folder"]),
        // A broken case at the end is found before any is run.
        ("verify add nowhere", &["cannot open nowhere"]),
        ("verify add --method backward", &["add/model.pte", "\"backward\"", "forward"]),
    ];
    for (line, words) in lines {
        run(line).refused(words);
    }
    let unknown = CaseCopy::with_an_unknown_operator();
    for command in ["verify", "run", "profile"] {
        let words = ["aten.sum.Tensor", "node 1", "supported:", "sdpa_with_kv_cache.default"];
        run_on(command, &[unknown.path()]).refused(&words);
    }
    run("verify").misused(&["<CASE_DIR>"]);
}

#[test]
fn f16_caches_pass_within_what_rounding_explains_and_say_so() {
    let text = run("verify sdpa_single sdpa_incache_replay sdpa_replay_dynamic --kv f16").passed();
    assert!(text.contains("within 2e-3 absolute or 1e-2 relative\ncaches are kept in f16, "), "{text}");
    // Rounding shows, so that the caches were f16 indeed.
    let text = run("verify sdpa_single --kv f16 --atol 1e-5 --rtol 1e-4").missed();
    assert!(text.contains("within 1e-5 absolute or 1e-4 relative"), "{text}");
    let text = run("verify sdpa_single --kv f32").passed();
    assert!(text.contains("within 1e-5 absolute or 1e-4 relative") && !text.contains("f16"), "{text}");
}

#[test]
fn every_route_gives_the_same_or_says_why_it_cannot() {
    for route in ["auto", "materialised", "streaming"] {
        run(&format!("verify sdpa_incache_replay sdpa_decode_dynamic --route {route}")).passed();
        run(&format!("verify sdpa_incache_replay --route {route} --kv f16")).passed();
    }
    run("verify sdpa_decode_dynamic --route split").passed();
    run("verify sdpa_single --route matrix").refused(&["by route matrix", "--kv f16", "materialised"]);
    for command in ["run", "profile", "verify", "inspect"] {
        run(&format!("{command} sdpa_single --route fast")).misused(&["auto", "split", "streaming", "matrix"]);
        run(&format!("{command} sdpa_single --kv f8")).misused(&["f16", "f32"]);
    }
    run("run sdpa_single --scores f64").misused(&["--scores", "f16", "f32"]);
}
