//! Making a session: what it tells of its progress, and that constants of many pieces arrive whole.

mod harness;

use harness::{bytes, f32_tensor, gpu};
use torchlight::graph::IntArg;
use torchlight::kernels::KvType;
use torchlight::{DType, GraphBuilder, Input, Loading, Session, SessionOptions};

/// More than two pieces of 4 MiB, and no whole number of anything.
const ELEMENTS: u32 = (9 << 18) + 3;

/// Small integers, which any float holds.
fn values(count: usize) -> Vec<f32> {
    (0..count).map(|index| (index % 1021) as f32).collect()
}

#[test]
fn a_plan_then_pipelines_then_bytes_are_told() {
    let content = values(ELEMENTS as usize);
    let content = bytes(&content);
    let mut graph = GraphBuilder::new("two constants");
    let x = graph.input(DType::F32, &[1]).unwrap();
    let large = graph.constant(DType::F32, &[ELEMENTS], &content).unwrap();
    let small = graph.constant(DType::F32, &[5], &content[..20]).unwrap();
    let sum = graph.add(large, x, 1.0).unwrap();
    let product = graph.mul(small, x).unwrap();
    graph.output(sum);
    graph.output(product);
    let graph = graph.finish().unwrap();
    let mut told = Vec::new();
    let options = SessionOptions::default();
    let mut session = Session::new_with_progress(gpu(), &graph, options, |progress| told.push(progress)).unwrap();

    assert_eq!(told[0], Loading::Planned);
    let all = session.plan().variants.len();
    let compiled: Vec<Loading> = (1..=all).map(|pipelines| Loading::Compiled { pipelines, all }).collect();
    assert_eq!(told[1..=all], compiled);
    let all_bytes = u64::from(ELEMENTS) * 4 + 20;
    let uploaded = [0, 4 << 20, 8 << 20, u64::from(ELEMENTS) * 4, all_bytes];
    assert_eq!(told[all + 1..], uploaded.map(|bytes| Loading::Uploaded { bytes, all_bytes }));

    let outputs = session.run(&[Input::from(&f32_tensor(&[1], &[1.0]))]).unwrap();
    let [sum, product] = [0, 1].map(|index| outputs[index].tensor().unwrap().to_f32().unwrap());
    assert!(sum.iter().zip(values(ELEMENTS as usize)).all(|(got, value)| *got == value + 1.0));
    assert_eq!(product, values(5));
}

#[test]
fn a_cache_of_many_pieces_begins_with_the_programs_content() {
    const ROWS: u32 = ELEMENTS / 16;
    let content = values(ROWS as usize * 16);
    let content = bytes(&content);
    let mut graph = GraphBuilder::new("a cache");
    let value = graph.input(DType::F32, &[1, 1, 1, 16]).unwrap();
    let cache = graph.constant(DType::F32, &[1, ROWS, 1, 16], &content).unwrap();
    graph.update_cache(value, cache, IntArg::Known(7));
    let graph = graph.finish().unwrap();
    for kv in [KvType::F32, KvType::F16] {
        let mut session = Session::new(gpu(), &graph, SessionOptions { kv, ..SessionOptions::default() }).unwrap();
        assert!(session.read_states().unwrap()[0].bytes() == content, "{kv:?}");
        session.run(&[Input::from(&f32_tensor(&[1, 1, 1, 16], &[2000.0; 16]))]).unwrap();
        assert!(session.read_states().unwrap()[0].bytes() != content, "{kv:?}");
        session.reset();
        assert!(session.read_states().unwrap()[0].bytes() == content, "{kv:?}");
    }
}
