//! `torchlight inspect`: every program can be shown, and says what of it would not run.

mod harness;

use harness::{CaseCopy, list, meta, programs, run, run_on};
use serde_json::{Value, json};

#[test]
fn every_program_can_be_shown() {
    for program in programs() {
        let text = run(&format!("inspect {program}")).passed();
        assert!(text.starts_with(&format!("{program}: ")), "{text}");
        assert!(text.contains("\nmethod forward\n"), "{text}");

        let report = run(&format!("inspect {program} --json --graph")).json();
        let size = harness::fixtures().join(&program).metadata().unwrap().len();
        assert_eq!((&report["file"], &report["size_bytes"]), (&json!(program), &json!(size)));
        let forward = &report["methods"][0];
        let delegate = &forward["delegates"][0];
        let counts = delegate["operators"].as_object().unwrap().values().map(|count| count.as_u64().unwrap());
        assert_eq!(counts.sum::<u64>(), list(&delegate["calls"]).len() as u64, "{program}");
        // It either has a plan or a reason for none.
        let runs = list(&delegate["unsupported"]).is_empty();
        assert_eq!((forward["plan"].is_object(), forward["refused"].is_null()), (runs, runs), "{program}: {forward}");
        assert_eq!(text.contains("\n  does not run: "), !runs, "{text}");
        assert_eq!(text.contains("\n  plan for "), runs, "{text}");
    }
}

#[test]
fn what_is_not_supported_is_named_with_its_node() {
    let unknown = CaseCopy::with_an_unknown_operator();
    let program = unknown.path().join("model.pte");
    let report = run_on("inspect --json", &[&program]).json();
    let forward = &report["methods"][0];
    let listed = list(&forward["delegates"][0]["unsupported"]);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["name"], "aten.sum.Tensor");
    let first = listed[0]["nodes"][0].as_u64().unwrap();
    let refused = forward["refused"].as_str().unwrap();
    assert!(refused.contains(&format!("\"aten.sum.Tensor\" (node {first})")), "{refused}");
    assert!(refused.contains("sdpa_with_kv_cache.default"), "{refused}");
    // Names may be broken over lines.
    let text = run_on("inspect", &[&program]).passed().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(refused) && text.contains("not supported: aten.sum.Tensor (node"), "{text}");
}

#[test]
fn whole_models_are_supported() {
    for case in ["tiny_llama_fp32", "tiny_llama_q4", "tiny_llama_q4_full", "rms_norm", "sdpa_incache_replay"] {
        let report = run(&format!("inspect {case}/model.pte --json")).json();
        let forward = &report["methods"][0];
        let chain = list(&meta(case)["models"][0]["delegates"][0]["chain"]).len() as u64;
        let operators = forward["delegates"][0]["operators"].as_object().unwrap();
        let counted: u64 = operators.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(counted, chain, "{case}");
        assert!(list(&forward["delegates"][0]["unsupported"]).is_empty(), "{case}");
        assert!(forward["refused"].is_null() && !forward["plan"].is_null(), "{case}: {forward}");
    }
}

#[test]
fn a_method_can_be_chosen() {
    let names = |report: &Value| -> Vec<String> {
        list(&report["methods"]).iter().map(|method| method["name"].as_str().unwrap().to_owned()).collect()
    };
    let program = "tiny_llama_q4/model.pte";
    assert!(names(&run(&format!("inspect {program} --json")).json()).len() > 1);
    assert_eq!(names(&run(&format!("inspect {program} --json --method use_kv_cache")).json()), ["use_kv_cache"]);
    run(&format!("inspect {program} --method nothing")).refused(&[
        program,
        "no such method",
        "forward",
        "use_kv_cache",
    ]);
}

#[test]
fn the_graph_is_shown_with_its_arguments() {
    let text = run("inspect tiny_llama_fp32/model.pte --graph").passed();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for call in [
        "[2] sym_size.int(%29 i32[1, 63], 1, %32 SymInt)",
        "[9] aten.view_copy.default(%42 f32[1, 63, 64], (%32 SymInt, 64), %45 f32[63, 64])",
        "[71] aten.linear.default(%160 f32[1, 64], %20 f32[256, 64] const 20, Null, %162 f32[1, 256])",
    ] {
        assert!(text.contains(call), "no {call:?} in {text}");
    }
}

#[test]
fn fewer_dispatches_do_what_the_operators_of_a_program_do() {
    let dispatches = |options: &str| {
        let report = run(&format!("inspect tiny_llama_q4/model.pte --json {options}")).json();
        list(&report["methods"][0]["plan"]["dispatches"]).to_vec()
    };
    let (fused, apart) = (dispatches(""), dispatches("--no-fusion"));
    let kernels =
        |rows: &[Value]| rows.iter().map(|row| row["kernel"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert!(kernels(&fused).contains(&"rotary_update_cache".to_owned()), "{fused:?}");
    assert!(kernels(&apart).contains(&"apply_rotary_emb".to_owned()), "{apart:?}");
    assert!(fused.len() < apart.len(), "{} and {} dispatches", fused.len(), apart.len());
}

#[test]
fn the_reasons_for_routes_are_said_where_they_are_asked_for() {
    let text = run("inspect tiny_llama_q4/model.pte --explain").passed();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for reason in [
        "attention of 4 heads, 2 KV heads, head_dim 16: nodes 17, 41 1 token over 64 keys: split",
        "linear layer of 64 to 128, 4 bits in groups of 32, rms_norm in front, SwiGLU behind: nodes 23, 47 1 row: vector \
         not tile: vector is faster here",
        "not vector: 63 rows are more than 4",
    ] {
        assert!(text.contains(reason), "no {reason:?} in {text}");
    }
    assert!(!run("inspect tiny_llama_q4/model.pte").passed().contains("is faster here"));
    let layers = run("inspect tiny_llama_q4/model.pte --explain --linear tile --no-fusion").passed();
    assert!(layers.contains("not vector: tile was asked for"), "{layers}");
    assert!(!layers.contains("rms_norm in front"), "{layers}");
}

#[test]
fn a_plan_names_the_route_of_each_dispatch() {
    let one = run("inspect sdpa_incache_replay/model.pte --route materialised --json").json();
    let plan = &one["methods"][0]["plan"];
    assert_eq!(plan["has_alternatives"], json!(false), "{plan}");
    let routes: Vec<&Value> = list(&plan["dispatches"]).iter().map(|dispatch| &dispatch["route"]).collect();
    assert_eq!(
        routes,
        [&Value::Null, &Value::Null, &json!("materialised"), &json!("materialised"), &json!("materialised")]
    );
    let state_bytes = |kv: &str| {
        let report = run(&format!("inspect sdpa_incache_replay/model.pte --json --kv {kv}")).json();
        report["methods"][0]["plan"]["state_bytes"].as_u64().unwrap()
    };
    assert_eq!(state_bytes("f32"), 2 * state_bytes("f16"));
    // Where steps take different routes, all of them are there and the text says what runs.
    let auto = run("inspect sdpa_incache_replay/model.pte --json").json();
    let text = run("inspect sdpa_incache_replay/model.pte").passed();
    let says = text.contains("each run launches those of one route");
    assert_eq!(auto["methods"][0]["plan"]["has_alternatives"], json!(says), "{text}");
}
