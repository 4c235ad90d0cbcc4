//! Generators over exported language models: pushes of any size, steps back, and what is refused.

mod harness;

use harness::case::{self, Case};
use harness::compare::{F32, assert_close, widen};
use harness::gpu;
use torchlight::{Error, Generator, SessionOptions};

/// Programs that give the last token's logits, and one that gives all.
const MODELS: [&str; 3] = ["tiny_llama_fp32", "tiny_llama_q4", "tiny_llama_q4_full"];

fn generator(model: &str) -> Generator {
    let session = case::session(model, "model.pte", gpu(), SessionOptions::default());
    Generator::new(session).unwrap_or_else(|error| panic!("{model}: {error}"))
}

/// Some ids below the vocabulary's 256.
fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|index| (index * 37 + 11) % 256).collect()
}

#[test]
fn the_steps_of_the_fixtures_give_their_goldens() {
    for model in MODELS {
        let case = Case::read(model);
        let mut generator = generator(model);
        assert_eq!((generator.vocab_size(), generator.max_step(), generator.max_context()), (256, 63, 64));
        for round in 0..2 {
            for (index, step) in case.steps.iter().enumerate() {
                let tokens = step.inputs[0].tensor.as_ref().unwrap().to_i64().unwrap();
                let tokens: Vec<u32> = tokens.iter().map(|&token| token as u32).collect();
                let logits = generator.push(&tokens).unwrap();
                let golden = step.outputs[0].tensor.as_ref().unwrap().to_f32().unwrap();
                let wanted = widen(&golden[golden.len() - 256..]);
                assert_close(format!("{model}, round {round}, step {index}"), logits, &wanted, F32);
            }
            generator.reset();
            assert_eq!(generator.position(), 0);
        }
    }
}

#[test]
fn pushes_in_parts_equal_one_push() {
    for model in MODELS {
        let tokens = ids(40);
        let mut generator = generator(model);
        let wanted = widen(generator.push(&tokens).unwrap());
        for parts in [&[40][..], &[1, 39], &[39, 1], &[7, 13, 20], &[1; 40]] {
            generator.rewind(0).unwrap();
            let mut rest = tokens.as_slice();
            let mut logits = Vec::new();
            for &part in parts {
                let (now, later) = rest.split_at(part);
                logits = generator.push(now).unwrap().to_vec();
                rest = later;
            }
            assert_eq!(generator.position(), 40);
            assert_close(format!("{model}, {parts:?}"), &logits, &wanted, F32);
        }
    }
}

#[test]
fn what_is_longer_than_a_step_is_pushed_in_several() {
    for model in MODELS {
        let tokens = ids(64);
        let mut generator = generator(model);
        generator.push(&tokens[..60]).unwrap();
        let wanted = widen(generator.push(&tokens[60..]).unwrap());
        generator.rewind(0).unwrap();
        let logits = generator.push(&tokens).unwrap();
        assert_close(model, logits, &wanted, F32);
        assert_eq!(generator.position(), generator.max_context());
    }
}

#[test]
fn after_a_step_back_the_same_tokens_give_the_same_logits() {
    let mut generator = generator("tiny_llama_q4");
    generator.push(&ids(10)).unwrap();
    let first = generator.push(&[3, 1, 4]).unwrap().to_vec();
    generator.rewind(10).unwrap();
    generator.push(&[9, 9, 9, 9, 9, 9]).unwrap();
    generator.rewind(10).unwrap();
    assert_eq!(generator.push(&[3, 1, 4]).unwrap(), first);
    let error = generator.rewind(14).unwrap_err().to_string();
    assert_eq!(error, "position: wanted at most the 13 tokens so far, got 14");
}

#[test]
fn the_async_twin_gives_the_same() {
    let mut generator = generator("tiny_llama_q4");
    let wanted = generator.push(&ids(64)).unwrap().to_vec();
    generator.reset();
    let got = pollster::block_on(async { generator.push_async(&ids(64)).await.unwrap().to_vec() });
    assert_eq!(got, wanted);
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut generator = generator("tiny_llama_q4");
    generator.push(&ids(60)).unwrap();
    let error = generator.push(&ids(5)).unwrap_err();
    assert!(matches!(error, Error::ContextFull { position: 60, new_tokens: 5, max_context: 64 }), "{error}");
    assert_eq!(error.to_string(), "the context holds 64 tokens: there is no room for 5 after the 60 so far");
    let refused = generator.push(&[]).unwrap_err().to_string();
    assert_eq!(refused, "tokens: wanted at least one, got none");
    let refused = generator.push(&[0, 256]).unwrap_err().to_string();
    assert_eq!(refused, "token 1: wanted an id below the vocabulary's 256, got 256");
    assert_eq!(generator.position(), 60);
    generator.push(&ids(4)).unwrap();
    assert!(generator.push(&[0]).is_err());
    assert_eq!(generator.position(), 64);
}

#[test]
fn programs_of_something_else_are_refused_with_what_they_have() {
    for (model, words) in [
        ("add", "method forward, which has the inputs f32[2, 3, 8], f32"),
        ("sdpa_incache_replay", "which has the inputs f32[1, 8, 4, 16]"),
    ] {
        let session = case::session(model, "model.pte", gpu(), SessionOptions::default());
        let error = Generator::new(session).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(words) && message.contains("tokens [1, S]"), "{message}");
    }
}
