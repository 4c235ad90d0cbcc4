//! Exported programs, replayed step by step against float64 goldens.

mod harness;

use harness::attention::Way;
use harness::case::{self, Case, Named, Step};
use harness::compare::{self, F32, Tolerance, widen};
use harness::{gpu, tensors};
use torchlight::plan::{PlanOptions, Role};
use torchlight::{
    DType, DeviceFacts, Error, GraphBuilder, HostTensor, Input, Output, Plan, Route, Session, SessionOptions,
    TimestampMode,
};

/// The cases whose operators Torchlight runs.
const CASES: [&str; 19] = [
    "add",
    "mul",
    "rms_norm",
    "rope",
    "sdpa_single",
    "sdpa_gqa_prefill",
    "sdpa_replay_static",
    "sdpa_replay_dynamic",
    "sdpa_decode_dynamic",
    "sdpa_incache_decode",
    "sdpa_incache_replay",
    "update_cache_static",
    "update_cache_dynamic",
    "linear_f32",
    "linear_q4gsw",
    "embedding_q4gsw",
    "tiny_llama_fp32",
    "tiny_llama_q4",
    "tiny_llama_q4_full",
];

fn given(named: &Named) -> Input<'_> {
    named.tensor.as_ref().unwrap_or_else(|| panic!("input {} has no file", named.name)).into()
}

fn run(session: &mut Session, step: &Step) -> Vec<Output> {
    let inputs: Vec<Input<'_>> = step.inputs.iter().map(given).collect();
    session.run(&inputs).unwrap_or_else(|error| panic!("{}: {error}", step.model))
}

/// What differs from a golden: nothing where the golden's content does not matter.
fn difference(golden: &Named, got: &HostTensor, tolerance: Tolerance) -> Option<String> {
    let wanted = golden.tensor.as_ref()?;
    if (got.dtype(), got.dims()) != (wanted.dtype(), wanted.dims()) {
        return Some(format!("{}{}, wanted {}{}", got.dtype(), got.dims(), wanted.dtype(), wanted.dims()));
    }
    let [got, wanted] = [got, wanted].map(|tensor| tensor.to_f32().unwrap());
    compare::difference(&got, &widen(&wanted), tolerance).map(|detail| format!("{}: {detail}", golden.name))
}

/// What differs from the goldens of a step, caches inside the program included.
fn differences(session: &Session, step: &Step, outputs: &[Output]) -> Vec<String> {
    differences_beyond(F32, session, step, outputs)
}

fn differences_beyond(tolerance: Tolerance, session: &Session, step: &Step, outputs: &[Output]) -> Vec<String> {
    let got = tensors(outputs);
    // The caches of whole models have no goldens: the logits of the steps that follow tell of them.
    let states = if step.state_after.is_empty() { Vec::new() } else { session.read_states().unwrap() };
    assert_eq!((got.len(), states.len()), (step.outputs.len(), step.state_after.len()), "{}", step.model);
    let goldens = step.outputs.iter().chain(&step.state_after);
    goldens.zip(got.into_iter().chain(&states)).filter_map(|(golden, got)| difference(golden, got, tolerance)).collect()
}

#[test]
fn every_step_gives_its_goldens() {
    for name in CASES {
        let case = Case::read(name);
        let mut session = case.session(0, gpu());
        for (index, step) in case.steps.iter().enumerate() {
            if !case.has_one_model() {
                session = case.session(index, gpu());
            }
            let outputs = run(&mut session, step);
            let found = differences(&session, step, &outputs);
            assert!(found.is_empty(), "{name}, step {index}: {found:?}");
        }
    }
}

#[test]
fn every_step_gives_its_goldens_by_every_route_over_every_cache() {
    for name in CASES.into_iter().filter(|name| name.starts_with("sdpa") || name.starts_with("update_cache")) {
        let case = Case::read(name);
        for way in Way::ALL {
            let options = SessionOptions { kv: way.kv, route: way.route, ..SessionOptions::default() };
            let mut session = case.session_with(0, gpu(), options);
            for (index, step) in case.steps.iter().enumerate() {
                if !case.has_one_model() {
                    session = case.session_with(index, gpu(), options);
                }
                let inputs: Vec<Input<'_>> = step.inputs.iter().map(given).collect();
                let outputs = match session.run(&inputs) {
                    // Split is for few tokens: such a step is another route's.
                    Err(Error::Unsupported { what, .. }) if what.ends_with("new tokens are more than 8") => break,
                    outputs => outputs.unwrap_or_else(|error| panic!("{name}, {way:?}, step {index}: {error}")),
                };
                let found = differences_beyond(way.tolerance(), &session, step, &outputs);
                assert!(found.is_empty(), "{name}, {way:?}, step {index}: {found:?}");
            }
        }
    }
}

#[test]
fn a_pinned_position_diverges() {
    for name in ["sdpa_replay_dynamic", "sdpa_decode_dynamic", "sdpa_incache_decode", "sdpa_incache_replay"] {
        let case = Case::read(name);
        let mut session = case.session(0, gpu());
        let pinned = case.steps[0].inputs.iter().find(|input| input.name == "input_pos").unwrap();
        for (index, step) in case.steps.iter().enumerate() {
            let pin = step.inputs.iter().map(|input| if input.name == pinned.name { pinned } else { input });
            let inputs: Vec<Input<'_>> = pin.map(given).collect();
            let outputs = session.run(&inputs).unwrap();
            let found = differences(&session, step, &outputs);
            assert_eq!(found.is_empty(), index == 0, "{name}, step {index}: {found:?}");
        }
    }
}

#[test]
fn a_new_session_a_step_forgets_the_caches() {
    for name in ["sdpa_incache_decode", "sdpa_incache_replay"] {
        let case = Case::read(name);
        for (index, step) in case.steps.iter().enumerate() {
            let mut session = case.session(index, gpu());
            let outputs = run(&mut session, step);
            let found = differences(&session, step, &outputs);
            assert_eq!(found.is_empty(), index == 0, "{name}, step {index}: {found:?}");
        }
    }
}

#[test]
fn caches_of_the_host_may_stay_on_the_device() {
    for name in ["sdpa_replay_dynamic", "sdpa_decode_dynamic", "update_cache_dynamic"] {
        let case = Case::read(name);
        let mut session = case.session(0, gpu());
        let mut last = Vec::new();
        for (index, step) in case.steps.iter().enumerate() {
            let is_cache =
                |input: &Named| step.outputs.iter().any(|out| out.mutates_input.as_ref() == Some(&input.name));
            let stays = step.inputs.iter().map(|input| (input, index > 0 && is_cache(input)));
            let inputs: Vec<Input<'_>> =
                stays.map(|(input, stays)| if stays { Input::Resident } else { given(input) }).collect();
            let outputs = session.run(&inputs).unwrap();
            for (golden, output) in step.outputs.iter().zip(&outputs) {
                match output {
                    Output::Tensor(got) => {
                        assert_eq!(difference(golden, got, F32), None, "{name}, step {index}");
                    }
                    Output::Resident { input } => {
                        assert_eq!(golden.mutates_input.as_ref(), Some(&step.inputs[*input].name), "{name} {index}");
                        assert!(index > 0, "{name}: {} came from the host", golden.name);
                    }
                    other => panic!("{name}, step {index}: {other:?}"),
                }
            }
            last = outputs;
        }
        let resident = last.iter().filter(|output| matches!(output, Output::Resident { .. })).count();
        let caches = case.steps[0].outputs.iter().filter(|output| output.mutates_input.is_some()).count();
        assert_eq!(resident, caches, "{name}: caches left on the device");
    }
}

#[test]
fn nothing_is_resident_before_the_first_run_or_after_a_reset() {
    let case = Case::read("sdpa_decode_dynamic");
    let mut session = case.session(0, gpu());
    let resident: Vec<Input<'_>> = case.steps[0].inputs.iter().map(|_| Input::Resident).collect();
    let wanted = "input 0: wanted a tensor, since nothing is on the device yet, got Resident";
    assert_eq!(session.run(&resident).unwrap_err().to_string(), wanted);
    run(&mut session, &case.steps[0]);
    session.reset();
    assert_eq!(session.run(&resident).unwrap_err().to_string(), wanted);
}

#[test]
fn a_reset_puts_the_caches_back() {
    let case = Case::read("sdpa_incache_replay");
    let mut session = case.session(0, gpu());
    let fresh = session.read_states().unwrap();
    let first: Vec<Vec<Output>> = case.steps.iter().map(|step| run(&mut session, step)).collect();
    assert_ne!(session.read_states().unwrap(), fresh, "the steps changed nothing");
    session.reset();
    assert_eq!(session.read_states().unwrap(), fresh);
    let second: Vec<Vec<Output>> = case.steps.iter().map(|step| run(&mut session, step)).collect();
    assert_eq!(first, second);
}

#[test]
fn a_reset_puts_caches_back_that_are_not_zero() {
    let content: Vec<f32> = (0..8).map(|i| i as f32 + 0.5).collect();
    let content = harness::bytes(&content);
    let mut graph = GraphBuilder::new("cache");
    let value = graph.input(DType::F32, &[1, 1, 1, 2]).unwrap();
    let cache = graph.constant(DType::F32, &[1, 4, 1, 2], &content).unwrap();
    graph.update_cache(value, cache, torchlight::graph::IntArg::Known(1));
    let mut session = Session::new(gpu(), &graph.finish().unwrap(), SessionOptions::default()).unwrap();
    let value = harness::f32_tensor(&[1, 1, 1, 2], &[-1.0, -2.0]);
    session.run(&[Input::from(&value)]).unwrap();
    let written = session.read_states().unwrap()[0].to_f32().unwrap();
    assert_eq!(written, [0.5, 1.5, -1.0, -2.0, 4.5, 5.5, 6.5, 7.5]);
    session.reset();
    assert_eq!(session.read_states().unwrap()[0].bytes(), content);
}

#[test]
fn equal_constants_share_a_buffer_unless_they_are_written() {
    // Both caches are zeros under one key of the file: written, they must not be one buffer.
    let bytes = case::read("sdpa_incache_replay", "model.pte");
    case::with_graph("sdpa_incache_replay", &bytes, |graph| {
        let [k_cache, v_cache] = graph.states()[..] else { panic!("{:?}", graph.states()) };
        let plan = Plan::new(graph, &DeviceFacts::webgpu_defaults(), PlanOptions::default()).unwrap();
        let [k_buffer, v_buffer] = [k_cache, v_cache].map(|tensor| plan.tensor_buffers[tensor.index()].unwrap());
        assert_ne!(k_buffer, v_buffer);
        assert_eq!(plan.buffers[k_buffer.index()].role, Role::State(k_cache));
        assert_eq!(plan.buffers[v_buffer.index()].role, Role::State(v_cache));
    });
    let weights = harness::bytes(&[1.0, 2.0]);
    let mut graph = GraphBuilder::new("read only");
    let [a, b] = [(); 2].map(|()| graph.constant(DType::F32, &[2], &weights).unwrap());
    let sum = graph.add(a, b, 1.0).unwrap();
    graph.output(sum);
    let plan = Plan::new(&graph.finish().unwrap(), &DeviceFacts::webgpu_defaults(), PlanOptions::default()).unwrap();
    assert_ne!(a, b);
    assert_eq!(plan.tensor_buffers[a.index()].unwrap(), plan.tensor_buffers[b.index()].unwrap());
}

#[test]
fn materialised_attention_is_five_dispatches_with_the_names_of_executorch() {
    let case = Case::read("sdpa_incache_replay");
    let options = SessionOptions { route: Some(Route::Materialised), ..SessionOptions::default() };
    let mut session = case.session_with(0, gpu(), options);
    session.set_timestamps(TimestampMode::Pass);
    run(&mut session, &case.steps[0]);
    let profile = session.take_profile().unwrap();
    let kernels: Vec<&str> = profile.runs[0].samples.iter().map(|sample| &*sample.timed.kernel).collect();
    let wanted = ["update_cache", "update_cache", "sdpa_compute_attn_weights", "sdpa_softmax", "sdpa_compute_out"];
    assert_eq!(kernels, wanted);
    let operators = profile.runs[0].samples.iter().map(|sample| (&*sample.timed.operator, sample.timed.node));
    assert!(
        operators.clone().all(|operator| operator == ("sdpa_with_kv_cache", 2)),
        "{:?}",
        operators.collect::<Vec<_>>()
    );
}
