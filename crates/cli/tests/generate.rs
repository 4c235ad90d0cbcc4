//! `torchlight generate`, with a tokenizer of bytes over small models.

mod harness;

use std::path::{Path, PathBuf};

use harness::{Finished, finish, list, torchlight};
use serde_json::Value;

/// Ids of bytes are the bytes; 253 to 255 are `<|endoftext|>`, `<|im_start|>` and `<|im_end|>`.
fn tokenizer() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bytes_tokenizer.json")
}

/// Goes on with a prompt.
fn generate(model: &str, prompt: &str, options: &str) -> Finished {
    let mut command = torchlight(["generate", &format!("{model}/model.pte"), "--prompt", prompt]);
    command.arg("--tokenizer").arg(tokenizer()).args(options.split_whitespace());
    finish(command)
}

fn ids(value: &Value) -> Vec<u64> {
    list(value).iter().map(|id| id.as_u64().unwrap()).collect()
}

#[test]
fn greedy_text_is_the_same_every_time_and_in_every_form() {
    for model in ["tiny_llama_q4", "tiny_llama_q4_full", "tiny_llama_fp32"] {
        let options = "--max-tokens 12 --ignore-end";
        let [first, second] = [(); 2].map(|()| generate(model, "Once upon", options).told());
        assert_eq!(first[0], second[0]);
        let json = generate(model, "Once upon", &format!("{options} --json")).json();
        assert_eq!(format!("{}\n", json["text"].as_str().unwrap()), first[0]);
        assert_eq!(ids(&json["prompt_tokens"]), "Once upon".bytes().map(u64::from).collect::<Vec<_>>());
        assert_eq!((ids(&json["tokens"]).len(), json["ended"].as_str()), (12, Some("max_tokens")));
        assert_eq!((json["decode_steps"].as_u64(), json["max_context"].as_u64()), (Some(11), Some(64)));
        assert_eq!(first[1].lines().count(), 1, "{}", first[1]);
        for word in ["prompt 9 tokens, prefill ", " tokens/s; generated 12 tokens, decode ", " tokens/s; loading "] {
            assert!(first[1].contains(word), "no {word:?} in {}", first[1]);
        }
        let shorter = generate(model, "Once upon", "--max-tokens 5 --ignore-end --json").json();
        assert_eq!(ids(&shorter["tokens"]), ids(&json["tokens"])[..5]);
    }
}

#[test]
fn draws_follow_from_the_seed() {
    let draw = |options: &str| {
        let options = format!("--max-tokens 16 --ignore-end --json {options}");
        ids(&generate("tiny_llama_q4", "a", &options).json()["tokens"])
    };
    let first = draw("--temperature 1.5 --seed 3");
    assert_eq!(first, draw("--temperature 1.5 --seed 3"));
    assert_ne!(first, draw("--temperature 1.5 --seed 4"));
    let greedy = draw("");
    assert_eq!(greedy, draw("--seed 9"));
    assert_eq!(greedy, draw("--temperature 1.5 --top-p 0.0001"));
}

#[test]
fn a_token_that_ends_a_text_ends_it() {
    // Nearly all tokens are equally likely: sooner or later a seed comes by one of those.
    for seed in 0..40 {
        let options = format!("--temperature 100 --seed {seed} --max-tokens 50 --json");
        let all = ids(&generate("tiny_llama_q4", "a", &format!("{options} --ignore-end")).json()["tokens"]);
        let Some(end) = all.iter().position(|id| [253, 255].contains(id)) else { continue };
        let json = generate("tiny_llama_q4", "a", &options).json();
        assert_eq!((ids(&json["tokens"]).as_slice(), json["ended"].as_str()), (&all[..end], Some("end_of_text")));
        return;
    }
    panic!("no seed came by a token that ends a text");
}

#[test]
fn a_full_context_ends_the_text_and_is_no_failure() {
    let prompt = "p".repeat(60);
    let [_, said] = generate("tiny_llama_q4", &prompt, "--ignore-end").told();
    assert!(
        said.starts_with("the context is full: the program holds 64 tokens, 60 of them are the prompt's\n"),
        "{said}"
    );
    assert!(said.contains("generated 5 tokens"), "{said}");
    let json = generate("tiny_llama_q4", &"p".repeat(64), "--ignore-end --json").json();
    assert_eq!((ids(&json["tokens"]).len(), json["ended"].as_str()), (1, Some("context_full")));
    generate("tiny_llama_q4", &"p".repeat(65), "")
        .refused(&["the prompt has 65 tokens, and the program's context holds 64"]);
}

#[test]
fn chat_puts_the_prompt_into_its_template() {
    let json = generate("tiny_llama_q4", "Hi", "--chat --max-tokens 1 --ignore-end --json").json();
    let prompt = ids(&json["prompt_tokens"]);
    let text: String = prompt.iter().map(|&id| if id < 253 { id as u8 as char } else { '|' }).collect();
    assert_eq!(text, "|user\nHi|\n|assistant\n");
    let json = generate("tiny_llama_q4", "Hi", "--chat --system Brief. --max-tokens 1 --ignore-end --json").json();
    assert_eq!(ids(&json["prompt_tokens"]).len(), prompt.len() + "|system\nBrief.|\n".len());
    generate("tiny_llama_q4", "Hi", "--system Brief.").misused(&["--chat"]);
}

#[test]
fn what_cannot_be_generated_with_is_refused() {
    let run = |tokenizer: &Path| {
        let mut command = torchlight(["generate", "tiny_llama_q4/model.pte", "--prompt", "a", "--tokenizer"]);
        command.arg(tokenizer);
        finish(command)
    };
    run(Path::new("nowhere.json")).refused(&["cannot read the tokenizer nowhere.json"]);
    run(Path::new("tiny_llama_q4/meta.json")).refused(&["tiny_llama_q4/meta.json is no tokenizer"]);
    run(Path::new("tiny_llama_q4/model.pte")).refused(&["tiny_llama_q4/model.pte is no tokenizer"]);
    // A tokenizer of a larger model.
    let folder = tempfile::tempdir().unwrap();
    let larger = folder.path().join("tokenizer.json");
    let text = std::fs::read_to_string(tokenizer()).unwrap().replace("\"a\": 97,", "\"a\": 4711,");
    std::fs::write(&larger, text).unwrap();
    run(&larger).refused(&["the tokenizer is not the program's", "token 4711", "knows 256 tokens"]);
    generate("add", "a", "").refused(&["add/model.pte", "inputs f32[2, 3, 8]", "input_pos"]);
    generate("nowhere", "a", "").refused(&["cannot open nowhere/model.pte"]);
    generate("tiny_llama_q4", "", "").refused(&["the prompt has no tokens"]);
    generate("tiny_llama_q4", "a", "--top-p 0.9").misused(&["--temperature"]);
    generate("tiny_llama_q4", "a", "--temperature -1").misused(&["wanted 0 to 100"]);
    generate("tiny_llama_q4", "a", "--temperature 1 --top-p 1.5").misused(&["more than 0"]);
    generate("tiny_llama_q4", "a", "--out profile.json").misused(&["--profile"]);
    generate("tiny_llama_q4", "a", "--profile --out profile.xml").refused(&["the ending names no format"]);
    // Nor is a prompt that looks like an option one.
    generate("tiny_llama_q4", "--json", "--max-tokens 1 --ignore-end").told();
    finish(torchlight(["generate", "tiny_llama_q4/model.pte", "--prompt", "a"])).misused(&["--tokenizer"]);
}

#[test]
fn prefill_and_decode_are_profiled_apart_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    for ending in ["txt", "tsv", "csv", "json", "trace.json", "etdp", "html"] {
        let path = folder.path().join(format!("profile.{ending}"));
        let mut command =
            torchlight(["generate", "tiny_llama_q4/model.pte", "--prompt", "Once upon a time", "--profile"]);
        command.arg("--tokenizer").arg(tokenizer()).args(["--max-tokens", "4", "--ignore-end", "--out"]).arg(&path);
        let [shown, _] = finish(command).told();
        for part in ["prefill of 16 tokens\n", "decode in 3 steps\n", "sdpa_", "timestamps pass", "host: wall"] {
            assert!(shown.contains(part), "no {part:?} in {shown}");
        }
        assert!(!path.exists());
        for part in ["prefill", "decode"] {
            let written = std::fs::metadata(folder.path().join(format!("profile-{part}.{ending}"))).unwrap();
            assert!(written.len() > 100, "{part}, {ending}");
        }
    }
    let read = |part: &str| -> Value {
        serde_json::from_slice(&std::fs::read(folder.path().join(format!("profile-{part}.json"))).unwrap()).unwrap()
    };
    let steps =
        |profile: &Value| list(&profile["runs"]).iter().map(|run| run["step"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!((steps(&read("prefill")), steps(&read("decode"))), (vec![0], vec![16, 17, 18]));
    let json = generate("tiny_llama_q4", "Once", "--profile --max-tokens 2 --ignore-end --json").json();
    assert_eq!(list(&json["profile"]["decode"]["runs"]).len(), 1);
}

#[test]
fn caches_and_routes_are_chosen_as_elsewhere() {
    let wanted = ids(&generate("tiny_llama_q4", "abc", "--max-tokens 6 --ignore-end --json").json()["tokens"]);
    for options in ["--route materialised", "--route split", "--kv f16"] {
        let got = generate("tiny_llama_q4", "abc", &format!("{options} --max-tokens 6 --ignore-end --json")).json();
        assert_eq!(ids(&got["tokens"]), wanted, "{options}");
    }
}
