//! Whole models with their operators fused and apart: the same numbers, fewer dispatches.

mod harness;

use std::collections::BTreeMap;

use harness::case::{self, Case};
use harness::compare::{self, F16, F32, Tolerance};
use harness::{gpu, i64_tensor, modest_gpu, tensors};
use torchlight::gpu::Command;
use torchlight::graph::Fusion;
use torchlight::kernels::KvType;
use torchlight::plan::{LinearRoute, PlanOptions, Role};
use torchlight::{DeviceFacts, Gpu, HostTensor, Input, Plan, Session, SessionOptions, TimestampMode};

const MODELS: [&str; 3] = ["tiny_llama_fp32", "tiny_llama_q4", "tiny_llama_q4_full"];
const LAYERS: usize = 2;

/// Tokens of the steps that are tried, besides those of the cases.
const STEPS: [usize; 6] = [7, 3, 1, 1, 1, 1];

fn session(model: &str, gpu: &Gpu, options: SessionOptions) -> Session {
    case::session(model, "model.pte", gpu, options)
}

fn apart() -> SessionOptions {
    SessionOptions { fusion: Fusion::Off, ..SessionOptions::default() }
}

/// Token ids and position of a step.
fn step(input_pos: usize, tokens: usize) -> [HostTensor; 2] {
    let ids: Vec<i64> = (input_pos..input_pos + tokens).map(|place| (place * 37 % 251) as i64).collect();
    [i64_tensor(&[1, tokens as u32], &ids), i64_tensor(&[1], &[input_pos as i64])]
}

fn run(session: &mut Session, inputs: &[HostTensor; 2]) -> Vec<f32> {
    let outputs = session.run(&inputs.each_ref().map(Input::from)).unwrap_or_else(|error| panic!("{error}"));
    tensors(&outputs)[0].to_f32().unwrap()
}

/// Holds logits against others: a hundred-thousandth of the largest.
#[track_caller]
fn assert_same_logits(case: &str, got: &[f32], wanted: &[f32]) {
    let largest = wanted.iter().fold(0.0f32, |largest, logit| largest.max(logit.abs()));
    let tolerance = Tolerance { absolute: 1e-5 * f64::from(largest), relative: 0.0 };
    compare::assert_close(case, got, &compare::widen(wanted), tolerance);
}

#[test]
fn every_step_of_the_cases_gives_the_same_logits() {
    for model in MODELS {
        let case = Case::read(model);
        let (mut fused, mut plain) = (session(model, gpu(), SessionOptions::default()), session(model, gpu(), apart()));
        for (index, step) in case.steps.iter().enumerate() {
            let inputs: Vec<Input<'_>> =
                step.inputs.iter().map(|input| input.tensor.as_ref().expect("an input").into()).collect();
            let [got, wanted] = [&mut fused, &mut plain].map(|session| {
                let outputs = session.run(&inputs).unwrap();
                tensors(&outputs)[0].to_f32().unwrap()
            });
            assert_same_logits(&format!("{model}, step {index}"), &got, &wanted);
        }
    }
}

#[test]
fn steps_of_every_size_give_the_same_logits_and_caches_also_after_a_reset() {
    for model in MODELS {
        for gpu in [gpu(), modest_gpu()] {
            let mut fused = session(model, gpu, SessionOptions::default());
            let mut plain = session(model, gpu, apart());
            for round in 0..2 {
                let mut input_pos = 0;
                for tokens in STEPS {
                    let inputs = step(input_pos, tokens);
                    let case = format!("{model}, round {round}, {tokens} from {input_pos}");
                    assert_same_logits(&case, &run(&mut fused, &inputs), &run(&mut plain, &inputs));
                    input_pos += tokens;
                }
                check_caches(model, (&fused, &plain), F32);
                [&mut fused, &mut plain].into_iter().for_each(Session::reset);
                let caches = fused.read_states().unwrap();
                assert!(caches.iter().all(|cache| cache.bytes().iter().all(|&byte| byte == 0)), "{model}: a reset");
            }
        }
    }
}

/// Holds the caches of two sessions against one another.
#[track_caller]
fn check_caches(case: &str, (fused, plain): (&Session, &Session), tolerance: Tolerance) {
    let [fused, plain] = [fused, plain].map(|session| session.read_states().unwrap());
    assert_eq!((fused.len(), plain.len()), (2 * LAYERS, 2 * LAYERS), "{case}");
    for (place, (got, wanted)) in fused.iter().zip(&plain).enumerate() {
        assert_eq!(got.dims(), wanted.dims(), "{case}");
        let (got, wanted) = (got.to_f32().unwrap(), compare::widen(&wanted.to_f32().unwrap()));
        assert!(got.iter().any(|&element| element != 0.0), "{case}: cache {place} holds nothing");
        compare::assert_close(format!("{case}: cache {place}"), &got, &wanted, tolerance);
    }
}

#[test]
fn caches_of_16_bits_give_the_same_logits() {
    for model in MODELS {
        let options = SessionOptions { kv: KvType::F16, ..SessionOptions::default() };
        let mut fused = session(model, gpu(), options);
        let mut plain = session(model, gpu(), SessionOptions { fusion: Fusion::Off, ..options });
        let mut input_pos = 0;
        for tokens in STEPS {
            let inputs = step(input_pos, tokens);
            let (got, wanted) = (run(&mut fused, &inputs), run(&mut plain, &inputs));
            compare::assert_close(format!("{model}, {tokens} tokens"), &got, &compare::widen(&wanted), F16);
            input_pos += tokens;
        }
        check_caches(model, (&fused, &plain), F16);
    }
}

#[test]
fn every_route_of_linear_layers_gives_the_same_logits() {
    for model in MODELS {
        let mut plain = session(model, gpu(), apart());
        let tile = SessionOptions { linear: Some(LinearRoute::Tile), ..SessionOptions::default() };
        let mut tiled = session(model, gpu(), tile);
        let mut input_pos = 0;
        for tokens in STEPS {
            let inputs = step(input_pos, tokens);
            let (got, wanted) = (run(&mut tiled, &inputs), run(&mut plain, &inputs));
            assert_same_logits(&format!("{model}, {tokens} tokens by tiles"), &got, &wanted);
            input_pos += tokens;
        }
    }
}

#[test]
fn a_route_that_was_asked_for_and_cannot_serve_is_refused() {
    let vector = SessionOptions { linear: Some(LinearRoute::Vector), ..SessionOptions::default() };
    let mut session = session("tiny_llama_q4", gpu(), vector);
    run(&mut session, &step(0, 4));
    let states = session.read_states().unwrap();
    let inputs = step(4, 5);
    let error = session.run(&inputs.each_ref().map(Input::from)).unwrap_err().to_string();
    let wanted = "unsupported: rms_norm+linear_q4gsw (node 9) by route vector: 5 rows are more than 4; supported: tile";
    assert_eq!(error, wanted);
    assert_eq!(session.read_states().unwrap(), states, "nothing was written");
    // Of a program whose rows are always as many it is refused at once.
    let weight = vec![0; 4 * 4 * 4];
    let mut graph = torchlight::GraphBuilder::new("rows");
    let x = graph.static_input(torchlight::DType::F32, &[5, 4]).unwrap();
    let weight = graph.constant(torchlight::DType::F32, &[4, 4], &weight).unwrap();
    let out = graph.linear(x, weight, None).unwrap();
    graph.output(out);
    let error = Session::new(gpu(), &graph.finish().unwrap(), vector).unwrap_err().to_string();
    assert_eq!(error, "unsupported: linear (node 0) by route vector: 5 rows are more than 4; supported: tile");
}

/// The dispatches of a step.
fn dispatches(session: &mut Session, inputs: &[HostTensor; 2]) -> usize {
    let (_, commands) = session.run_recorded(&inputs.each_ref().map(Input::from)).unwrap();
    commands.iter().filter(|command| matches!(command, Command::Dispatch { .. })).count()
}

#[test]
fn a_token_is_six_dispatches_a_layer_and_few_more() {
    for model in MODELS {
        let mut fused = session(model, gpu(), SessionOptions::default());
        let mut plain = session(model, gpu(), apart());
        run(&mut fused, &step(0, 3));
        let inputs = step(3, 1);
        let (fewer, all) = (dispatches(&mut fused, &inputs), dispatches(&mut plain, &inputs));
        assert!(fewer <= 6 * LAYERS + 4, "{model}: {fewer} dispatches");
        assert!(all > 16 * LAYERS, "{model}: {all} dispatches apart");
    }
}

#[test]
fn a_profile_names_every_dispatch() {
    let options = SessionOptions { timestamps: TimestampMode::Pass, ..SessionOptions::default() };
    let mut session = session("tiny_llama_q4", gpu(), options);
    run(&mut session, &step(0, 1));
    let profile = session.take_profile().unwrap();
    let samples = profile.runs[0].samples.iter();
    let named: Vec<(&str, &str, u32)> =
        samples.map(|sample| (&*sample.timed.operator, &*sample.timed.kernel, sample.timed.node)).collect();
    let layer = |[qkv, attention, out, gate, down]: [u32; 5]| {
        [
            ("rms_norm+linear_q4gsw", "linear_vector_q4", qkv),
            ("rotary_update_cache", "rotary_update_cache", attention),
            ("attend", "sdpa_split", attention),
            ("linear_q4gsw+add", "linear_vector_q4", out),
            ("rms_norm+linear_q4gsw+swiglu", "linear_vector_q4", gate),
            ("linear_q4gsw+add", "linear_vector_q4", down),
        ]
    };
    let wanted: Vec<(&str, &str, u32)> = [("embedding_q4gsw", "embedding_q4", 3)]
        .into_iter()
        .chain(layer([9, 17, 19, 23, 30]))
        .chain(layer([34, 41, 43, 47, 54]))
        .chain([("select_copy", "slice_copy", 57), ("rms_norm+linear_q4gsw", "linear_vector_q4", 59)])
        .collect();
    assert_eq!(named, wanted);
    // More rows go through the norm by themselves.
    run(&mut session, &step(1, 7));
    let profile = session.take_profile().unwrap();
    let mut kernels: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in &profile.runs[0].samples {
        *kernels.entry(&*sample.timed.kernel).or_default() += 1;
    }
    assert_eq!((kernels["rms_norm"], kernels["linear_tile_q4"]), (2 * LAYERS, 4 * LAYERS), "{kernels:?}");
}

#[test]
fn what_is_refused_is_refused_in_the_same_words() {
    for model in MODELS {
        let mut fused = session(model, gpu(), SessionOptions::default());
        let mut plain = session(model, gpu(), apart());
        // Behind the cache; across its end; before its beginning.
        for (input_pos, tokens) in [(64, 1), (60, 5), (100, 3), (-1, 1)] {
            let ids = i64_tensor(&[1, tokens], &vec![1; tokens as usize]);
            let inputs = [ids, i64_tensor(&[1], &[input_pos])];
            let [got, wanted] = [&mut fused, &mut plain]
                .map(|session| session.run(&inputs.each_ref().map(Input::from)).unwrap_err().to_string());
            assert_eq!(got, wanted, "{model}, {tokens} tokens at {input_pos}");
        }
    }
}

#[test]
fn what_is_fused_stays_as_it_is() {
    for model in MODELS {
        case::with_graph(model, &case::read(model, "model.pte"), |graph| {
            let once = graph.clone().fused(u64::MAX);
            assert_eq!(once.clone().fused(u64::MAX), once, "{model}");
            assert_eq!((&once.inputs, &once.outputs), (&graph.inputs, &graph.outputs), "{model}");
            assert_eq!(once.states(), graph.states(), "{model}: caches in their order");
        });
    }
}

#[test]
fn plans_keep_to_the_limits_of_every_device() {
    for model in MODELS {
        case::with_graph(model, &case::read(model, "model.pte"), |graph| {
            let facts = DeviceFacts::webgpu_defaults();
            let fused = graph.clone().fused(facts.limits.largest_binding());
            let plans = [&fused, graph].map(|graph| Plan::new(graph, &facts, PlanOptions::default()).unwrap());
            for dispatch in plans[0].dispatches() {
                let label = plans[0].variant(dispatch.variant).label;
                assert!(dispatch.buffers.len() <= 8, "{model}: {label} has {} buffers", dispatch.buffers.len());
            }
            // What was joined is there once.
            let constants = |plan: &Plan| {
                let constants = plan.buffers.iter().filter(|buffer| matches!(buffer.role, Role::Constant(_)));
                constants.map(|buffer| buffer.size_bytes).sum::<u64>()
            };
            let [joined, apart] = [constants(&plans[0]), constants(&plans[1])];
            assert!(joined <= apart, "{model}: constants of {joined} and {apart} bytes");
            assert!(plans[0].shared_bytes() < plans[1].shared_bytes(), "{model}");
        });
    }
}
