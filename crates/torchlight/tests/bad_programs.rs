//! Programs and inputs that must be refused, and damaged files: from bytes to a plan, without a device.

mod harness;

use std::panic::{AssertUnwindSafe, catch_unwind};

use harness::{case, f32_tensor, gpu, i64_tensor, rng};
use torchlight::graph::{IntArg, Live};
use torchlight::kernels::Access;
use torchlight::plan::{DeviceLimits, Dispatch, PARAMS_SLOT_BYTES, PlanOptions, Step};
use torchlight::{
    DType, DeviceFacts, Error, Graph, GraphBuilder, HostTensor, Input, Plan, Program, Result, Session, SessionOptions,
};

/// From a program's bytes to plans: for the most modest device, and for one without limits.
fn load(bytes: &[u8]) -> Result<()> {
    let program = Program::parse(bytes)?;
    let graph = Graph::from_method(&program, "forward")?;
    let modest = DeviceFacts::webgpu_defaults();
    let limits = DeviceLimits { max_buffer_size: u64::MAX, max_storage_buffer_binding_size: u64::MAX, ..modest.limits };
    let boundless = DeviceFacts { limits, ..modest.clone() };
    for facts in [modest, boundless] {
        check_plan(&graph, &Plan::new(&graph, &facts, PlanOptions::default())?);
    }
    Ok(())
}

/// What must hold of every plan that is accepted, whatever it was made from.
fn check_plan(graph: &Graph<'_>, plan: &Plan) {
    for (tensor, buffer) in graph.tensors.iter().zip(&plan.tensor_buffers) {
        let Some(buffer) = buffer else { continue };
        assert!(plan.buffers[buffer.index()].size_bytes >= tensor.size_bytes(), "{tensor:?} in {buffer:?}");
    }
    for dispatch in plan.dispatches() {
        let kernel = plan.variant(dispatch.variant).kernel;
        assert_eq!(dispatch.buffers.len(), kernel.bindings.len(), "{dispatch:?}");
        assert!(graph.nodes.len() > dispatch.node as usize, "{dispatch:?}");
        for (position, (buffer, access)) in dispatch.buffers.iter().zip(kernel.bindings).enumerate() {
            let others = dispatch.buffers.iter().enumerate().filter(|(other, _)| *other != position);
            let alone = !others.map(|(_, other)| other).any(|other| other == buffer);
            assert!(*access == Access::Read || alone, "{dispatch:?} binds a buffer that it writes twice");
        }
    }
    // At the bounds and position 0 params and grids follow without a fault, where the shapes are accepted.
    let mut live = Live::new(graph);
    let zeros = vec![0; 1024];
    if live.infer(&graph.nodes, |_| Some(&zeros)).is_ok() {
        let mut slot = [0; PARAMS_SLOT_BYTES as usize];
        assert!(plan.dispatches().all(|dispatch| dispatch.launch.resolve(&live, &mut slot) > 0));
    }
}

/// The smallest programs of every kind that Torchlight runs.
const PROGRAMS: [(&str, &str); 7] = [
    ("add", "model.pte"),
    ("mul", "model.pte"),
    ("sdpa_single", "model.pte"),
    ("sdpa_decode_dynamic", "model.pte"),
    ("sdpa_incache_replay", "model.pte"),
    ("sdpa_replay_static", "model_s1_pos10.pte"),
    ("update_cache_dynamic", "model.pte"),
];

/// Loads damaged bytes; a panic is a failure that names the case.
#[track_caller]
fn load_damaged(case: &str, bytes: &[u8]) -> bool {
    match catch_unwind(AssertUnwindSafe(|| load(bytes))) {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            let message = error.to_string();
            assert!(!message.is_empty() && !message.contains('\n'), "{case}: {message:?}");
            false
        }
        Err(_) => panic!("{case}: a panic"),
    }
}

#[test]
fn the_check_of_plans_finds_what_is_wrong() {
    let bytes = case::read("add", "model.pte");
    case::with_graph("add", &bytes, |graph| {
        let good = Plan::new(graph, &DeviceFacts::webgpu_defaults(), PlanOptions::default()).unwrap();
        check_plan(graph, &good);
        type Change = (&'static str, fn(&mut Dispatch));
        let changes: [Change; 3] = [
            ("a buffer read and written", |dispatch| dispatch.buffers[2] = dispatch.buffers[0]),
            ("a missing buffer", |dispatch| dispatch.buffers.truncate(2)),
            ("a node that is not there", |dispatch| dispatch.node = 99),
        ];
        for (what, change) in changes {
            let mut plan = good.clone();
            let Step::Dispatch(dispatch) = &mut plan.steps[0] else { panic!("{:?}", plan.steps) };
            change(dispatch);
            assert!(catch_unwind(AssertUnwindSafe(|| check_plan(graph, &plan))).is_err(), "{what} passes");
        }
        let mut plan = good.clone();
        plan.buffers[0].size_bytes -= 16;
        assert!(catch_unwind(AssertUnwindSafe(|| check_plan(graph, &plan))).is_err(), "a short buffer passes");
    });
}

#[test]
fn every_byte_set_to_awkward_values_gives_an_error_or_a_sane_plan() {
    for (name, file) in PROGRAMS {
        let whole = case::read(name, file);
        load(&whole).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (mut accepted, mut refused) = (0, 0);
        for place in 0..whole.len() {
            for value in [0x00, 0xff, whole[place] ^ 0x10] {
                let mut damaged = whole.clone();
                damaged[place] = value;
                let ok = load_damaged(&format!("{name}: byte {place} set to {value:#04x}"), &damaged);
                *(if ok { &mut accepted } else { &mut refused }) += 1;
            }
        }
        assert!(accepted > 100 && refused > 100, "{name}: {accepted} accepted, {refused} refused");
    }
}

#[test]
fn seeded_words_of_damage_give_an_error_or_a_sane_plan() {
    const WORDS: [u32; 8] = [0, 1, 0x0001_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, 0xffff_ffff, 0x4000_0000];
    for (name, file) in PROGRAMS {
        let whole = case::read(name, file);
        let rng = &mut rng(name);
        for round in 0..3000 {
            let mut damaged = whole.clone();
            for _ in 0..rng.usize(1..4) {
                let place = rng.usize(0..whole.len() / 4) * 4;
                damaged[place..place + 4].copy_from_slice(&WORDS[rng.usize(0..WORDS.len())].to_le_bytes());
            }
            load_damaged(&format!("{name}: round {round}"), &damaged);
        }
    }
}

#[test]
fn a_cut_program_is_refused() {
    for (name, file) in PROGRAMS {
        let whole = case::read(name, file);
        for length in 0..whole.len() {
            // The end of a file may be padding that nothing refers to.
            let ok = load_damaged(&format!("{name}: {length} bytes"), &whole[..length]);
            assert!(!ok || whole.len() - length < 64, "{name}: {length} of {} bytes are accepted", whole.len());
        }
    }
}

#[test]
fn operators_that_are_not_supported_are_named_with_their_node() {
    const CASES: [(&str, &str, &str, u32); 3] = [
        ("rms_norm", "et_vk.rms_norm.default", "et_vk.rms_form.default", 0),
        ("tiny_llama_fp32", "aten.linear.default", "aten.planar.default", 10),
        ("tiny_llama_q4", "aten.sigmoid.default", "aten.sigmund.default", 25),
    ];
    for (name, known, unknown, node) in CASES {
        let program = replaced(&case::read(name, "model.pte"), known.as_bytes(), unknown.as_bytes());
        let error = load(&program).unwrap_err().to_string();
        let supported = torchlight::graph::SUPPORTED_OPERATORS.join(", ");
        let wanted = format!("unsupported: operator {unknown:?} (node {node}); supported: {supported}");
        assert_eq!(error, wanted, "{name}");
    }
}

/// Puts other bytes where some bytes are, everywhere.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut replaced = bytes.to_vec();
    let places: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
    assert!(!places.is_empty(), "{:?} is not in the file", String::from_utf8_lossy(from));
    for place in places {
        replaced[place..place + from.len()].copy_from_slice(to);
    }
    replaced
}

#[test]
fn other_programs_are_refused_by_name() {
    let whole = case::read("sdpa_incache_replay", "model.pte");
    // A string of a flatbuffer has its length before it.
    let string = |text: &str, padded: usize| {
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend(text.bytes());
        bytes.resize(4 + padded, 0);
        bytes
    };
    let spec = "require_dynamic_shapes";
    let fp16 = replaced(&whole, &string(spec, spec.len()), &string("force_fp16", spec.len()));
    let cases = [
        (
            "another delegate",
            replaced(&whole, b"VulkanBackend", b"XnnpacBackend"),
            "unsupported: instruction 0, a delegate \"XnnpacBackend\"; supported: VulkanBackend",
        ),
        (
            "force_fp16",
            fp16,
            "unsupported: instruction 0, a delegate exported with force_fp16; supported: delegates in f32",
        ),
        ("another method", replaced(&whole, b"forward", b"forwarb"), "method: wanted one of forwarb, got \"forward\""),
    ];
    for (case, bytes, wanted) in cases {
        assert_eq!(load(&bytes).unwrap_err().to_string(), wanted, "{case}");
    }
    let host = replaced(&case::read("sdpa_single", "model.pte"), b"aten::copy_", b"aten::copyX");
    let error = load(&host).unwrap_err().to_string();
    assert!(error.starts_with("unsupported: instruction 1, operator aten::copyX"), "{error}");
    assert!(error.ends_with("supported: aten::copy_ outside the delegate"), "{error}");
}

#[test]
fn inputs_are_refused_with_what_was_wanted_and_what_was_given() {
    let case = case::Case::read("sdpa_incache_replay");
    let mut session = case.session(0, gpu());
    let zeros = |sizes: &[u32]| f32_tensor(sizes, &vec![0.0; sizes.iter().product::<u32>() as usize]);
    let good: [HostTensor; 4] =
        [zeros(&[1, 2, 4, 16]), zeros(&[1, 2, 2, 16]), zeros(&[1, 2, 2, 16]), i64_tensor(&[1], &[0])];
    let integers = HostTensor::new(DType::I32, &[1], vec![0; 4]).unwrap();
    let before = session.read_states().unwrap();
    let cases = [
        ("another type", 0, i64_tensor(&[1], &[0]), "input 0: wanted f32[1, 8, 4, 16] or smaller, got i64[1]"),
        (
            "a missing dimension",
            1,
            zeros(&[2, 2, 16]),
            "input 1: wanted f32[1, 8, 2, 16] or smaller, got f32[2, 2, 16]",
        ),
        (
            "above the bound",
            2,
            zeros(&[1, 9, 2, 16]),
            "input 2: wanted f32[1, 8, 2, 16] or smaller, got f32[1, 9, 2, 16]",
        ),
        ("nothing", 0, zeros(&[1, 0, 4, 16]), "input 0: wanted f32[1, 8, 4, 16] or smaller, got f32[1, 0, 4, 16]"),
        ("a static shape", 3, i64_tensor(&[2], &[0, 0]), "input 3: wanted i64[1], got i64[2]"),
        ("32-bit integers", 3, integers, "input 3: wanted i64[1], got i32[1]"),
        ("too wide", 3, i64_tensor(&[1], &[1 << 32]), "input 3: wanted integers of 32 bits, got 4294967296"),
        ("too low", 3, i64_tensor(&[1], &[i64::MIN]), "input 3: wanted integers of 32 bits, got -9223372036854775808"),
        (
            "tokens that differ",
            0,
            zeros(&[1, 1, 4, 16]),
            "sdpa_with_kv_cache (node 2): q [1, 1, 4, 16] and k [1, 2, 2, 16] must have the same tokens and head_dim",
        ),
    ];
    for (case, index, tensor, wanted) in cases {
        let mut inputs = good.each_ref();
        inputs[index] = &tensor;
        let error = session.run(&inputs.map(Input::from)).unwrap_err();
        assert_eq!(error.to_string(), wanted, "{case}");
        assert_eq!(session.read_states().unwrap(), before, "{case}: the caches changed");
    }
    let error = session.run(&good.each_ref().map(Input::from)[..3]).unwrap_err();
    let wanted = "inputs: wanted 4 (f32[1, 8, 4, 16], f32[1, 8, 2, 16], f32[1, 8, 2, 16], i64[1]), got 3";
    assert_eq!(error.to_string(), wanted);
    session.run(&good.each_ref().map(Input::from)).unwrap_or_else(|error| panic!("after all refusals: {error}"));
}

#[test]
fn a_refused_run_leaves_resident_inputs_as_they_were() {
    let mut graph = GraphBuilder::new("sum");
    let [a, b] = [(); 2].map(|()| graph.input(DType::F32, &[2]).unwrap());
    let sum = graph.add(a, b, 1.0).unwrap();
    graph.output(sum);
    let mut session = Session::new(gpu(), &graph.finish().unwrap(), SessionOptions::default()).unwrap();
    let (first, second, wrong) =
        (f32_tensor(&[2], &[1.0, 2.0]), f32_tensor(&[2], &[10.0, 20.0]), f32_tensor(&[3], &[0.0; 3]));
    session.run(&[(&first).into(), (&second).into()]).unwrap();
    session.run(&[(&second).into(), (&wrong).into()]).unwrap_err();
    let outputs = session.run(&[Input::Resident, (&second).into()]).unwrap();
    assert_eq!(outputs[0].tensor().unwrap().to_f32().unwrap(), [11.0, 22.0]);
}

/// Sizes whose products leave 32 or 64 bits.
#[test]
fn sizes_that_overflow_are_refused() {
    type Build = fn(&mut GraphBuilder<'_>) -> Result<()>;
    const CASES: [(&str, Build); 6] = [
        ("a row of 2^32 elements", |graph| {
            let value = graph.input(DType::F32, &[1, 1, 65536, 65536])?;
            let cache = graph.input(DType::F32, &[1, 1, 65536, 65536])?;
            graph.update_cache(value, cache, IntArg::Known(0));
            graph.output(cache);
            Ok(())
        }),
        ("rows of 2^32 elements together", |graph| {
            let value = graph.input(DType::F32, &[1, 1 << 16, 1 << 8, 1 << 8])?;
            let cache = graph.input(DType::F32, &[1, 1 << 16, 1 << 8, 1 << 8])?;
            graph.update_cache(value, cache, IntArg::Known(0));
            graph.output(cache);
            Ok(())
        }),
        ("a sum of 2^40 elements", |graph| {
            let x = graph.input(DType::F32, &[1 << 20, 1 << 20])?;
            let sum = graph.add(x, x, 1.0)?;
            graph.output(sum);
            Ok(())
        }),
        ("a broadcast to 2^40 elements", |graph| {
            let [a, b] = [[1 << 20, 1], [1, 1 << 20]].map(|bound| graph.input(DType::F32, &bound));
            let product = graph.mul(a?, b?)?;
            graph.output(product);
            Ok(())
        }),
        ("scores beyond 2^64 bytes", |graph| {
            let heads = [1 << 10, 1].map(|heads| graph.input(DType::F32, &[1, 1 << 31, heads, 1]));
            let [q, k] = heads;
            let (q, k) = (q?, k?);
            let caches = [(); 2].map(|()| graph.input(DType::F32, &[1, 1 << 31, 1, 1]));
            let [k_cache, v_cache] = caches;
            let out = graph.sdpa_with_kv_cache([q, k, k], [k_cache?, v_cache?], IntArg::Known(0), None)?;
            graph.output(out);
            Ok(())
        }),
        ("a tensor beyond 2^63 bytes", |graph| graph.input(DType::F32, &[u32::MAX, u32::MAX]).map(drop)),
    ];
    for (case, build) in CASES {
        let limits = DeviceLimits {
            max_buffer_size: u64::MAX,
            max_storage_buffer_binding_size: u64::MAX,
            ..DeviceLimits::WEBGPU_DEFAULTS
        };
        let plan = || {
            let mut graph = GraphBuilder::new(case);
            build(&mut graph)?;
            let graph = graph.finish()?;
            let boundless =
                Plan::new(&graph, &DeviceFacts { limits, ..DeviceFacts::webgpu_defaults() }, PlanOptions::default());
            let modest = Plan::new(&graph, &DeviceFacts::webgpu_defaults(), PlanOptions::default());
            boundless.and(modest)
        };
        let error = catch_unwind(plan).unwrap_or_else(|_| panic!("{case}: a panic")).map(drop).unwrap_err();
        assert!(matches!(error, Error::Limits { .. } | Error::Malformed(_)), "{case}: {error}");
    }
}

#[test]
fn a_position_that_is_written_in_the_program_and_lies_outside_is_refused_when_it_runs() {
    for position in [4, 1 << 31, 1 << 33, i64::MAX] {
        let mut graph = GraphBuilder::new("outside");
        let value = graph.input(DType::F32, &[1, 1, 1, 8]).unwrap();
        let cache = graph.input(DType::F32, &[1, 4, 1, 8]).unwrap();
        graph.update_cache(value, cache, IntArg::Known(position));
        graph.output(cache);
        let mut session = Session::new(gpu(), &graph.finish().unwrap(), SessionOptions::default()).unwrap();
        let error = session
            .run(&[(&f32_tensor(&[1, 1, 1, 8], &[0.0; 8])).into(), (&f32_tensor(&[1, 4, 1, 8], &[0.0; 32])).into()])
            .unwrap_err();
        let wanted = format!("update_cache (node 0): position {position} + 1 exceeds the cache's 4 rows");
        assert_eq!(error.to_string(), wanted);
    }
}
