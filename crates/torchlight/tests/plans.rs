//! Plans as plain data: their whole text, how memory is shared, and what they refuse with the numbers.

mod harness;

use harness::attention::{PLAIN, Sizes};
use harness::{bytes, case};
use torchlight::kernels::KvType;
use torchlight::kernels::linear::Products;
use torchlight::kernels::sdpa_matrix::Scores;
use torchlight::plan::{DeviceLimits, PlanOptions, Role};
use torchlight::{DType, DeviceFacts, Graph, GraphBuilder, Plan, Route};

fn plan(graph: &Graph<'_>) -> Plan {
    Plan::new(graph, &DeviceFacts::webgpu_defaults(), MATERIALISED).unwrap()
}

/// The plainest route alone.
const MATERIALISED: PlanOptions = PlanOptions {
    route: Some(Route::Materialised),
    kv: KvType::F32,
    scores: Scores::F16,
    products: Products::F32,
    linear: None,
};

const ADD: &str = "\
buffer 0: 192 bytes, input 0
buffer 1: 32 bytes, input 1
buffer 2: 16 bytes, constant %3
buffer 3: 192 bytes, shared
buffer 4: 192 bytes, shared
node 0: binary_add(0, 1, 3)
node 1: binary_add(3, 2, 4)
";

const SDPA_INCACHE_REPLAY: &str = "\
buffer 0: 2048 bytes, input 0
buffer 1: 1024 bytes, input 1
buffer 2: 1024 bytes, input 2
buffer 3: 2048 bytes, state %4
buffer 4: 2048 bytes, state %5
buffer 5: 2048 bytes, shared
buffer 6: 2048 bytes, shared
node 2: update_cache(1, 3)
node 2: update_cache(2, 4)
node 2: sdpa_compute_attn_weights(0, 3, 5), materialised
node 2: sdpa_softmax(5), materialised
node 2: sdpa_compute_out(5, 4, 6), materialised
";

const SDPA_DECODE_DYNAMIC: &str = "\
buffer 0: 256 bytes, input 0
buffer 1: 128 bytes, input 1
buffer 2: 128 bytes, input 2
buffer 3: 2048 bytes, input 3
buffer 4: 2048 bytes, input 4
buffer 5: 256 bytes, shared
buffer 6: 256 bytes, shared
node 1: update_cache(1, 3)
node 1: update_cache(2, 4)
node 1: sdpa_compute_attn_weights(0, 3, 5), materialised
node 1: sdpa_softmax(5), materialised
node 1: sdpa_compute_out(5, 4, 6), materialised
";

const UPDATE_CACHE_STATIC: &str = "\
buffer 0: 192 bytes, input 0
buffer 1: 1024 bytes, input 1
buffer 2: 16 bytes, shared
node 0: update_cache(0, 1)
";

/// With every route: few tokens are split, and of these programs' sizes none needs more than one part.
const SDPA_INCACHE_REPLAY_BY_ANY_ROUTE: &str = "\
buffer 0: 2048 bytes, input 0
buffer 1: 1024 bytes, input 1
buffer 2: 1024 bytes, input 2
buffer 3: 2048 bytes, state %4
buffer 4: 2048 bytes, state %5
buffer 5: 2048 bytes, shared
buffer 6: 16 bytes, shared
buffer 7: 16 bytes, shared
buffer 8: 16 bytes, counters
node 2: update_cache(1, 3)
node 2: update_cache(2, 4)
node 2: sdpa_split(0, 3, 4, 6, 7, 8, 5), split
node 2: sdpa_split(0, 3, 4, 6, 7, 8, 5), split
";

#[test]
fn the_whole_plan_with_every_route() {
    let name = "sdpa_incache_replay";
    let text = case::with_graph(name, &case::read(name, "model.pte"), |graph| {
        Plan::new(graph, &DeviceFacts::webgpu_defaults(), PlanOptions::default()).unwrap().to_string()
    });
    assert_eq!(text, SDPA_INCACHE_REPLAY_BY_ANY_ROUTE);
}

#[test]
fn no_memory_grows_with_tokens_times_keys() {
    // Every route but the plainest: scratch for 4 times the tokens and keys is at most 4 times as large.
    let scratch = |factor: u32| {
        let sizes = Sizes { tokens: 512 * factor, cache_rows: 1024 * factor, ..PLAIN };
        let zeros = bytes(&vec![0.0; sizes.cache_elements()]);
        let facts = DeviceFacts::webgpu_defaults();
        Plan::new(&sizes.graph(&zeros, &zeros).unwrap(), &facts, PlanOptions::default()).unwrap().shared_bytes()
    };
    assert!(scratch(4) <= 4 * scratch(1), "{} and {} bytes", scratch(1), scratch(4));
}

#[test]
fn the_whole_plan_of_a_program() {
    const CASES: [(&str, &str); 4] = [
        ("add", ADD),
        ("sdpa_incache_replay", SDPA_INCACHE_REPLAY),
        ("sdpa_decode_dynamic", SDPA_DECODE_DYNAMIC),
        ("update_cache_static", UPDATE_CACHE_STATIC),
    ];
    for (name, wanted) in CASES {
        let text = case::with_graph(name, &case::read(name, "model.pte"), |graph| plan(graph).to_string());
        assert_eq!(text, wanted, "{name}");
    }
}

/// `count` sums, each of the one before it and the input.
fn chain(count: usize, bound: &[u32]) -> Graph<'static> {
    let mut graph = GraphBuilder::new("chain");
    let x = graph.input(DType::F32, bound).unwrap();
    let last = (0..count).fold(x, |last, _| graph.add(last, x, 1.0).unwrap());
    graph.output(last);
    graph.finish().unwrap()
}

#[test]
fn a_chain_of_any_length_lives_in_two_buffers() {
    for (count, buffers) in [(1, 1), (2, 2), (3, 2), (1000, 2)] {
        let plan = plan(&chain(count, &[256]));
        assert_eq!(plan.shared_bytes(), buffers * 1024, "{count} sums");
        assert_eq!(plan.dispatches().count(), count);
        assert_eq!(plan.variants.len(), 1, "{count} sums of one kernel");
    }
}

#[test]
fn what_is_still_needed_is_not_shared() {
    // Every sum is an output: each keeps a buffer of its own, and none is another's.
    let mut graph = GraphBuilder::new("all kept");
    let x = graph.input(DType::F32, &[256]).unwrap();
    let mut last = x;
    for _ in 0..10 {
        last = graph.add(last, x, 1.0).unwrap();
        graph.output(last);
    }
    let plan = plan(&graph.finish().unwrap());
    assert_eq!(plan.shared_bytes(), 10 * 1024);
}

#[test]
fn layers_of_attention_share_their_scores() {
    const LAYERS: u32 = 12;
    let sizes = Sizes { tokens: 32, cache_rows: 64, ..PLAIN };
    let zeros = bytes(&vec![0.0; sizes.cache_elements()]);
    let mut graph = GraphBuilder::new("layers");
    let [k, v] = [(); 2].map(|()| graph.input(DType::F32, &[1, 32, 2, 16]).unwrap());
    let mut x = graph.input(DType::F32, &[1, 32, 4, 16]).unwrap();
    graph.input(DType::I64, &[1]).unwrap();
    let input_pos = graph.select_as_symint(3, 0);
    for _ in 0..LAYERS {
        let caches = [(); 2].map(|()| graph.constant(DType::F32, &[1, 64, 2, 16], &zeros).unwrap());
        x = graph.sdpa_with_kv_cache([x, k, v], caches, input_pos, None).unwrap();
    }
    graph.output(x);
    let plan = plan(&graph.finish().unwrap());
    // Scores of one layer and one output: a layer's queries are read for the last time before its output is written.
    let (scores, out) = (4 * 32 * 64 * 4, 32 * 4 * 16 * 4);
    assert_eq!(plan.shared_bytes(), scores + out);
    let states = plan.buffers.iter().filter(|buffer| matches!(buffer.role, Role::State(_))).count();
    assert_eq!(states as u32, 2 * LAYERS, "caches are never shared");
}

#[test]
fn scores_beyond_the_limit_are_refused_with_the_numbers() {
    // 8 heads x 2048 tokens x 4096 keys x 4 bytes are 256 MiB, and a binding has 128.
    let sizes = Sizes { tokens: 2048, q_heads: 8, kv_heads: 1, head_dim: 4, cache_rows: 4096, scale: None };
    let zeros = bytes(&vec![0.0; sizes.cache_elements()]);
    let error =
        Plan::new(&sizes.graph(&zeros, &zeros).unwrap(), &DeviceFacts::webgpu_defaults(), MATERIALISED).unwrap_err();
    let wanted = "sdpa_with_kv_cache (node 1): scores of 8 heads x 2048 tokens x 4096 keys needs 268435456 bytes in one \
                  buffer, and the device allows 134217728; steps of up to 1024 tokens would fit";
    assert_eq!(error.to_string(), wanted);
    let fitting = Sizes { tokens: 1024, ..sizes };
    Plan::new(&fitting.graph(&zeros, &zeros).unwrap(), &DeviceFacts::webgpu_defaults(), MATERIALISED).unwrap();
}

#[test]
fn other_limits_are_refused_with_the_numbers() {
    const DEFAULTS: DeviceLimits = DeviceLimits::WEBGPU_DEFAULTS;
    let cases = [
        (
            DeviceLimits { max_compute_workgroup_storage_size: 1000, ..DEFAULTS },
            "kernel sdpa_compute_out needs 2048 bytes of workgroup memory, and the device allows 1000",
        ),
        (
            DeviceLimits { max_compute_invocations_per_workgroup: 100, ..DEFAULTS },
            "kernel sdpa_compute_out needs 128 invocations a workgroup, and the device allows 100",
        ),
        (
            DeviceLimits { max_compute_workgroups_per_dimension: 3, ..DEFAULTS },
            "kernel sdpa_compute_attn_weights needs 16 workgroups, and the device allows 9",
        ),
        (
            DeviceLimits { max_storage_buffer_binding_size: 4000, ..DEFAULTS },
            "cache 4 of shape [1, 32, 2, 16] needs 4096 bytes in one buffer, and the device allows 4000; \
             a cache of f16 takes half of it",
        ),
        (
            DeviceLimits { max_buffer_size: 4000, ..DEFAULTS },
            "cache 4 of shape [1, 32, 2, 16] needs 4096 bytes in one buffer, and the device allows 4000; \
             a cache of f16 takes half of it",
        ),
    ];
    let zeros = vec![0; PLAIN.cache_elements() * 4];
    let graph = PLAIN.graph(&zeros, &zeros).unwrap();
    for (limits, wanted) in cases {
        let facts = DeviceFacts { limits, ..DeviceFacts::webgpu_defaults() };
        assert_eq!(Plan::new(&graph, &facts, MATERIALISED).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn a_constant_above_the_largest_binding_is_named_and_what_would_help() {
    let weight = vec![0; 300 * 64 * 4];
    let mut graph = GraphBuilder::new("a large weight");
    let x = graph.input(DType::F32, &[1, 64]).unwrap();
    let weight = graph.constant(DType::F32, &[300, 64], &weight).unwrap();
    let out = graph.linear(x, weight, None).unwrap();
    graph.output(out);
    let graph = graph.finish().unwrap();
    let plan = |max_storage_buffer_binding_size| {
        let limits = DeviceLimits { max_storage_buffer_binding_size, ..DeviceLimits::WEBGPU_DEFAULTS };
        Plan::new(&graph, &DeviceFacts { limits, ..DeviceFacts::webgpu_defaults() }, MATERIALISED)
    };
    assert!(plan(76_800).is_ok());
    assert_eq!(
        plan(76_799).unwrap_err().to_string(),
        "constant 1 of shape [300, 64] needs 76800 bytes in one buffer, and the device allows 76799; weights of 4 bits \
         take an eighth of it"
    );
}
