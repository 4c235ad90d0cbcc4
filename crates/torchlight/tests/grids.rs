//! Grids at the limit of one dimension: 65535 workgroups fit into one row, 65536 take two, in every kernel.

mod harness;

use harness::attention::{Attention, Qkv, Sizes, Way};
use harness::compare::{self, F32};
use harness::{f32_tensor, modest_gpu, rng};
use torchlight::gpu::Command;
use torchlight::graph::IntArg;
use torchlight::{DType, GraphBuilder, Input, Output, Route, Session, SessionOptions};

/// Workgroups, and the grid they fold into.
const GRIDS: [(u32, [u32; 2]); 2] = [(65535, [65535, 1]), (65536, [65535, 2])];

/// The grid of each dispatch of a recorded run, with its kernel.
fn grids(session: &Session, commands: &[Command]) -> Vec<(&'static str, [u32; 2])> {
    let grids = commands.iter().filter_map(|command| match command {
        Command::Dispatch { x, y } => Some([*x, *y]),
        _ => None,
    });
    session
        .plan()
        .dispatches()
        .map(|dispatch| session.plan().variant(dispatch.variant).kernel.stem)
        .zip(grids)
        .collect()
}

/// Holds every element of a long result against a function of its place.
#[track_caller]
fn assert_elements(case: &str, output: &Output, wanted: impl Fn(usize) -> f32) {
    let (elements, []) = output.tensor().unwrap().bytes().as_chunks::<4>() else { panic!("{case}") };
    let wrong = |&(index, bytes): &(usize, &[u8; 4])| f32::from_le_bytes(*bytes) != wanted(index);
    if let Some((index, got)) = elements.iter().enumerate().find(wrong) {
        let got = f32::from_le_bytes(*got);
        panic!("{case}: element {index} of {} is {got}, wanted {}", elements.len(), wanted(index));
    }
}

#[test]
fn binary_over_equal_shapes() {
    for (workgroups, grid) in GRIDS {
        let elements = workgroups * 64 * 4;
        let mut graph = GraphBuilder::new("dense");
        let x = graph.input(DType::F32, &[elements]).unwrap();
        let sum = graph.add(x, x, 1.0).unwrap();
        graph.output(sum);
        let mut graph = graph.finish().unwrap();
        graph.inputs[0].dynamic = false;
        let mut session = Session::new(modest_gpu(), &graph, SessionOptions::default()).unwrap();
        // Whole numbers up to 2^24 are exact in f32, and so are their doubles.
        let x: Vec<f32> = (0..elements).map(|i| i as f32).collect();
        let x = torchlight::TensorView::f32(&[elements], &x).unwrap();
        let (outputs, commands) = session.run_recorded(&[Input::Host(x)]).unwrap();
        assert_eq!(grids(&session, &commands), [("binary", grid)]);
        assert_elements("x + x", &outputs[0], |i| 2.0 * i as f32);
    }
}

#[test]
fn binary_with_broadcasting() {
    for (workgroups, grid) in GRIDS {
        let rows = workgroups;
        let mut graph = GraphBuilder::new("broadcast");
        let [a, b] = [[rows, 1], [1, 64]].map(|bound| graph.input(DType::F32, &bound).unwrap());
        let sum = graph.add(a, b, 65536.0).unwrap();
        graph.output(sum);
        let mut session = Session::new(modest_gpu(), &graph.finish().unwrap(), SessionOptions::default()).unwrap();
        let column: Vec<f32> = (0..rows).map(|i| i as f32).collect();
        let row: Vec<f32> = (0..64).map(|i| i as f32).collect();
        let (a, b) = (f32_tensor(&[rows, 1], &column), f32_tensor(&[1, 64], &row));
        let (outputs, commands) = session.run_recorded(&[Input::from(&a), Input::from(&b)]).unwrap();
        assert_eq!(grids(&session, &commands), [("binary", grid)]);
        assert_elements("a + 65536 b", &outputs[0], |i| (i / 64 + i % 64 * 65536) as f32);
    }
}

#[test]
fn update_cache() {
    for (workgroups, grid) in GRIDS {
        // Rows of one element, so that a lane is one element.
        let tokens = workgroups * 64;
        let zeros = vec![0; (tokens as usize + 2) * 4];
        let mut graph = GraphBuilder::new("cache");
        let value = graph.input(DType::F32, &[1, tokens, 1, 1]).unwrap();
        let cache = graph.constant(DType::F32, &[1, tokens + 2, 1, 1], &zeros).unwrap();
        graph.update_cache(value, cache, IntArg::Known(1));
        graph.output(cache);
        let mut session = Session::new(modest_gpu(), &graph.finish().unwrap(), SessionOptions::default()).unwrap();
        let value: Vec<f32> = (1..=tokens).map(|i| i as f32).collect();
        let value = torchlight::TensorView::f32(&[1, tokens, 1, 1], &value).unwrap();
        let (outputs, commands) = session.run_recorded(&[Input::Host(value)]).unwrap();
        assert_eq!(grids(&session, &commands), [("update_cache", grid)]);
        // Row 0 and the last one are not written.
        assert_elements("cache", &outputs[0], |row| if row > tokens as usize { 0.0 } else { row as f32 });
    }
}

/// One decode step at the end of a cache with seeded keys and values. Returns the grids.
fn decode(case: &str, sizes: Sizes) -> Vec<(&'static str, [u32; 2])> {
    let rng = &mut rng(case);
    let caches = [(); 2].map(|()| harness::random(rng, sizes.cache_elements()));
    let way = Way { route: Some(Route::Materialised), ..Way::DEFAULT };
    let mut attention = Attention::with_caches(modest_gpu(), sizes, way, caches);
    let (input_pos, qkv) = (sizes.cache_rows - 1, Qkv::random(rng, &sizes, 1));
    let inputs = qkv.inputs(&sizes, input_pos.into());
    let (outputs, commands) = attention.session.run_recorded(&inputs.each_ref().map(Input::from)).unwrap();
    let got = outputs[0].tensor().unwrap().to_f32().unwrap();
    compare::assert_close(case, &got, &attention.reference(input_pos, &qkv), F32);
    grids(&attention.session, &commands)
}

#[test]
fn sdpa_compute_attn_weights() {
    for (workgroups, grid) in GRIDS {
        // 64 heads, so that a key is a workgroup of scores.
        let sizes = Sizes { tokens: 1, q_heads: 64, kv_heads: 1, head_dim: 1, cache_rows: workgroups, scale: None };
        let grids = decode(&format!("{workgroups} keys"), sizes);
        assert_eq!(grids[2], ("sdpa_compute_attn_weights", grid));
    }
}

#[test]
fn sdpa_softmax_and_sdpa_compute_out() {
    for (workgroups, grid) in GRIDS {
        let sizes = Sizes { tokens: 1, q_heads: workgroups, kv_heads: 1, head_dim: 4, cache_rows: 3, scale: None };
        let grids = decode(&format!("{workgroups} heads"), sizes);
        assert_eq!(grids[3..], [("sdpa_softmax", grid), ("sdpa_compute_out", grid)]);
    }
}
