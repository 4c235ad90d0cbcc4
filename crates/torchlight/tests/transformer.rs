//! Norms, activations, rotations and embeddings on the device against their f64 references.

mod harness;

use harness::compare::{self, F32};
use harness::{bytes, f32_tensor, i64_tensor, modest_gpu, random, rng, run_f32, tensors};
use torchlight::gpu::Command;
use torchlight::kernels::unary::Function;
use torchlight::{DType, Graph, GraphBuilder, HostTensor, Input, Session, SessionOptions, reference};

/// Workgroups at the limit of one dimension, and the grids they fold into.
const GRIDS: [(u32, [u32; 2]); 2] = [(65535, [65535, 1]), (65536, [65535, 2])];

fn session(graph: &Graph<'_>) -> Session {
    Session::new(modest_gpu(), graph, SessionOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The grids of a recorded run.
fn grids(commands: &[Command]) -> Vec<[u32; 2]> {
    let grid = |command: &Command| match command {
        Command::Dispatch { x, y } => Some([*x, *y]),
        _ => None,
    };
    commands.iter().filter_map(grid).collect()
}

#[test]
fn rms_norm_divides_rows_of_every_width() {
    for width in [1, 2, 3, 4, 7, 64, 127, 129, 256, 516, 576, 577, 1025, 2052] {
        let rng = &mut rng(&format!("rms_norm {width}"));
        let weight = random(rng, width as usize);
        let content = bytes(&weight);
        let mut graph = GraphBuilder::new("norm");
        let x = graph.input(DType::F32, &[1, 5, width]).unwrap();
        let scale = graph.constant(DType::F32, &[width], &content).unwrap();
        let out = graph.rms_norm(x, scale, 1e-5).unwrap();
        graph.output(out);
        let mut session = session(&graph.finish().unwrap());
        for rows in [5, 1, 2] {
            let x = random(rng, (rows * width) as usize);
            let got = run_f32(&mut session, &[&f32_tensor(&[1, rows, width], &x)]).unwrap();
            let wanted = reference::rms_norm::reference(1e-5, &x, &weight);
            compare::assert_close(format!("{rows} rows of {width}"), &got, &wanted, F32);
        }
    }
}

#[test]
fn rms_norm_of_tiny_and_of_zero_rows_is_held_by_eps() {
    let weight = bytes(&[2.0; 6]);
    let mut graph = GraphBuilder::new("norm");
    let x = graph.input(DType::F32, &[3, 6]).unwrap();
    let scale = graph.constant(DType::F32, &[6], &weight).unwrap();
    let out = graph.rms_norm(x, scale, 0.25).unwrap();
    graph.output(out);
    let mut session = session(&graph.finish().unwrap());
    let x: Vec<f32> = [[0.0; 6], [1e-20; 6], [1e15; 6]].concat();
    let got = run_f32(&mut session, &[&f32_tensor(&[3, 6], &x)]).unwrap();
    compare::assert_close("eps", &got, &reference::rms_norm::reference(0.25, &x, &[2.0; 6]), F32);
}

#[test]
fn rms_norm_of_a_live_width_is_whole() {
    let mut graph = GraphBuilder::new("norm");
    let x = graph.input(DType::F32, &[2, 8]).unwrap();
    let weight = graph.input(DType::F32, &[8]).unwrap();
    let out = graph.rms_norm(x, weight, 1e-6).unwrap();
    graph.output(out);
    let mut session = session(&graph.finish().unwrap());
    for width in [8, 5, 1] {
        let rng = &mut rng(&format!("live width {width}"));
        let (x, weight) = (random(rng, 2 * width as usize), random(rng, width as usize));
        let inputs = [f32_tensor(&[2, width], &x), f32_tensor(&[width], &weight)];
        let got = run_f32(&mut session, &[&inputs[0], &inputs[1]]).unwrap();
        let wanted = reference::rms_norm::reference(1e-6, &x, &weight);
        compare::assert_close(format!("width {width}"), &got, &wanted, F32);
    }
    let inputs = [f32_tensor(&[2, 8], &[1.0; 16]), f32_tensor(&[7], &[1.0; 7])];
    let error = run_f32(&mut session, &[&inputs[0], &inputs[1]]).unwrap_err();
    let wanted = "rms_norm (node 0): wants a weight as long as the rows of x, got x [2, 8] and weight [7]";
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn rms_norm_over_a_folded_grid() {
    for (rows, grid) in GRIDS {
        let weight = bytes(&[3.0]);
        let mut graph = GraphBuilder::new("norm");
        let x = graph.input(DType::F32, &[rows, 1]).unwrap();
        let scale = graph.constant(DType::F32, &[1], &weight).unwrap();
        let out = graph.rms_norm(x, scale, 0.0).unwrap();
        graph.output(out);
        let mut session = session(&graph.finish().unwrap());
        let x: Vec<f32> = (0..rows).map(|i| if i % 3 == 0 { -1.0 - i as f32 } else { 1.0 + i as f32 }).collect();
        let x = f32_tensor(&[rows, 1], &x);
        let (outputs, commands) = session.run_recorded(&[Input::from(&x)]).unwrap();
        assert_eq!(grids(&commands), [grid]);
        let wanted: Vec<f64> = (0..rows).map(|i| if i % 3 == 0 { -3.0 } else { 3.0 }).collect();
        compare::assert_close("signs", &outputs[0].tensor().unwrap().to_f32().unwrap(), &wanted, F32);
    }
}

#[test]
fn sigmoid_of_every_count_is_whole() {
    let mut graph = GraphBuilder::new("sigmoid");
    let x = graph.input(DType::F32, &[3, 257]).unwrap();
    let out = graph.sigmoid(x).unwrap();
    graph.output(out);
    let mut session = session(&graph.finish().unwrap());
    for sizes in [[1, 1], [1, 2], [1, 3], [1, 4], [2, 3], [1, 255], [1, 256], [1, 257], [3, 257], [3, 5]] {
        let x: Vec<f32> = random(&mut rng(&format!("sigmoid {sizes:?}")), (sizes[0] * sizes[1]) as usize);
        let x: Vec<f32> = x.iter().map(|x| 12.0 * x).collect();
        let got = run_f32(&mut session, &[&f32_tensor(&sizes, &x)]).unwrap();
        compare::assert_close(format!("{sizes:?}"), &got, &reference::unary::reference(Function::Sigmoid, &x), F32);
    }
}

#[test]
fn sigmoid_of_extremes_is_0_or_1() {
    let mut graph = GraphBuilder::new("sigmoid");
    let x = graph.input(DType::F32, &[5]).unwrap();
    let out = graph.sigmoid(x).unwrap();
    graph.output(out);
    let mut session = session(&graph.finish().unwrap());
    let got = run_f32(&mut session, &[&f32_tensor(&[5], &[-1e30, -200.0, 0.0, 200.0, f32::MAX])]).unwrap();
    assert_eq!(got, [0.0, 0.0, 0.5, 1.0, 1.0]);
}

#[test]
fn sigmoid_over_a_folded_grid() {
    for (workgroups, grid) in GRIDS {
        let elements = workgroups * 64 * 4;
        let mut graph = GraphBuilder::new("sigmoid");
        let x = graph.input(DType::F32, &[elements]).unwrap();
        let out = graph.sigmoid(x).unwrap();
        graph.output(out);
        let mut session = session(&graph.finish().unwrap());
        // Far out it is 0 or 1, by a pattern that no row of the grid repeats.
        let x: Vec<f32> = (0..elements).map(|i| if i % 7 < 3 { 200.0 } else { -200.0 }).collect();
        let x = torchlight::TensorView::f32(&[elements], &x).unwrap();
        let (outputs, commands) = session.run_recorded(&[Input::Host(x)]).unwrap();
        assert_eq!(grids(&commands), [grid]);
        let got = outputs[0].tensor().unwrap().to_f32().unwrap();
        let wrong = (0..elements as usize).find(|&i| got[i] != if i % 7 < 3 { 1.0 } else { 0.0 });
        assert_eq!(wrong, None);
    }
}

/// A graph that turns q of `[1, tokens, q_heads, head_dim]` and k by angles, all of them inputs.
fn rotary(tokens: u32, [q_heads, k_heads]: [u32; 2], head_dim: u32) -> Session {
    let mut graph = GraphBuilder::new("rotary");
    let [q, k] = [q_heads, k_heads].map(|heads| graph.input(DType::F32, &[1, tokens, heads, head_dim]).unwrap());
    let angles = [(); 2].map(|()| graph.input(DType::F32, &[tokens, head_dim / 2]).unwrap());
    let outs = graph.apply_rotary_emb([q, k], angles).unwrap();
    outs.into_iter().for_each(|out| graph.output(out));
    session(&graph.finish().unwrap())
}

#[test]
fn rotary_embeddings_turn_pairs_of_neighbours() {
    for ([q_heads, k_heads], head_dim) in [([4, 2], 16), ([3, 3], 2), ([1, 5], 6), ([9, 3], 64), ([1, 1], 10)] {
        let mut session = rotary(7, [q_heads, k_heads], head_dim);
        for tokens in [7, 1, 3] {
            let case = format!("{tokens} tokens, heads {q_heads} and {k_heads} of {head_dim}");
            let rng = &mut rng(&case);
            let [q, k] = [q_heads, k_heads].map(|heads| random(rng, (tokens * heads * head_dim) as usize));
            let [c, s] = [(); 2].map(|()| random(rng, (tokens * head_dim / 2) as usize));
            let heads = |heads, x: &[f32]| f32_tensor(&[1, tokens, heads, head_dim], x);
            let angles = |x: &[f32]| f32_tensor(&[tokens, head_dim / 2], x);
            let inputs = [heads(q_heads, &q), heads(k_heads, &k), angles(&c), angles(&s)];
            let outputs = session.run(&inputs.each_ref().map(Input::from)).unwrap();
            for ((heads, x), got) in [(q_heads, &q), (k_heads, &k)].into_iter().zip(tensors(&outputs)) {
                let wanted = reference::apply_rotary_emb::reference(heads, head_dim, x, [&c, &s]);
                assert_eq!(got.dims().as_slice(), [1, tokens, heads, head_dim], "{case}");
                compare::assert_close(&case, &got.to_f32().unwrap(), &wanted, F32);
            }
        }
    }
}

#[test]
fn rotary_embeddings_want_an_angle_a_pair_and_token() {
    let mut session = rotary(4, [2, 1], 4);
    let tensor = |sizes: &[u32]| f32_tensor(sizes, &vec![0.5; sizes.iter().product::<u32>() as usize]);
    let mut error = |inputs: [HostTensor; 4]| session.run(&inputs.each_ref().map(Input::from)).unwrap_err().to_string();
    let few = [tensor(&[1, 3, 2, 4]), tensor(&[1, 3, 1, 4]), tensor(&[2, 2]), tensor(&[3, 2])];
    let wanted = "apply_rotary_emb (node 0): wants cosines and sines of shape [3, 2], got [2, 2] and [3, 2]";
    assert_eq!(error(few), wanted);
    let other = [tensor(&[1, 3, 2, 4]), tensor(&[1, 2, 1, 4]), tensor(&[3, 2]), tensor(&[3, 2])];
    assert!(error(other).contains("q [1, 3, 2, 4] and k [1, 2, 1, 4] must have the same tokens"));
    let odd = [tensor(&[1, 3, 2, 3]), tensor(&[1, 3, 1, 3]), tensor(&[3, 1]), tensor(&[3, 1])];
    assert!(error(odd).contains("the same even head_dim"));
}

#[test]
fn rotary_embeddings_over_a_folded_grid() {
    for (workgroups, grid) in GRIDS {
        // A quarter of the pairs are k's: they are the last ones, and lie behind the fold where there is one.
        let tokens = workgroups * 64 / 4;
        let mut session = rotary(tokens, [3, 1], 2);
        let count = tokens as usize;
        let q: Vec<f32> = (0..6 * count).map(|i| (i % 1021) as f32).collect();
        let k: Vec<f32> = (0..2 * count).map(|i| (i % 509) as f32).collect();
        let cosines: Vec<f32> = (0..count).map(|i| (i % 3) as f32 - 1.0).collect();
        let sines: Vec<f32> = (0..count).map(|i| (i % 5) as f32).collect();
        let angles = |x: &[f32]| f32_tensor(&[tokens, 1], x);
        let inputs =
            [f32_tensor(&[1, tokens, 3, 2], &q), f32_tensor(&[1, tokens, 1, 2], &k), angles(&cosines), angles(&sines)];
        let (outputs, commands) = session.run_recorded(&inputs.each_ref().map(Input::from)).unwrap();
        assert_eq!(grids(&commands), [grid]);
        for ((heads, x), got) in [(3, &q), (1, &k)].into_iter().zip(tensors(&outputs)) {
            let wanted = reference::apply_rotary_emb::reference(heads, 2, x, [&cosines, &sines]);
            compare::assert_close(format!("{heads} heads"), &got.to_f32().unwrap(), &wanted, compare::EXACT);
        }
    }
}

/// A graph that looks ids of a shape up in a table.
fn lookup(ids: &[u32], table: &[f32], width: u32) -> Session {
    let content = bytes(table);
    let mut graph = GraphBuilder::new("embedding");
    let ids = graph.input(DType::I64, ids).unwrap();
    let table = graph.constant(DType::F32, &[table.len() as u32 / width, width], &content).unwrap();
    let out = graph.embedding(table, ids).unwrap();
    graph.output(out);
    session(&graph.finish().unwrap())
}

#[test]
fn embeddings_are_rows_of_the_table() {
    for (rows, width) in [(1, 1), (3, 3), (5, 4), (7, 64), (2, 130), (33, 6)] {
        let rng = &mut rng(&format!("table of {rows} by {width}"));
        let table = random(rng, (rows * width) as usize);
        let mut session = lookup(&[1, 9], &table, width);
        for count in [9, 1, 4] {
            let ids: Vec<i32> = (0..count).map(|_| rng.i32(0..rows as i32)).collect();
            let given: Vec<i64> = ids.iter().copied().map(i64::from).collect();
            let outputs = session.run(&[Input::from(&i64_tensor(&[1, count], &given))]).unwrap();
            let got = outputs[0].tensor().unwrap();
            assert_eq!(got.dims().as_slice(), [1, count, width]);
            let wanted = reference::embedding::reference(width, &table, &ids);
            compare::assert_close(format!("{ids:?}"), &got.to_f32().unwrap(), &wanted, compare::EXACT);
        }
    }
}

#[test]
fn ids_outside_the_table_are_refused_on_the_host() {
    let table: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let mut session = lookup(&[3], &table, 4);
    for (id, text) in [(3, "3"), (-1, "-1"), (i64::from(i32::MAX), "2147483647")] {
        let error = session.run(&[Input::from(&i64_tensor(&[2], &[1, id]))]).unwrap_err();
        let wanted = format!("embedding (node 0): id {text} is outside the table's 3 rows");
        assert_eq!(error.to_string(), wanted);
    }
    assert_eq!(run_f32(&mut session, &[&i64_tensor(&[1], &[2])]).unwrap(), [8.0, 9.0, 10.0, 11.0]);
}

#[test]
fn ids_that_the_host_does_not_see_stay_inside_the_table() {
    let table: Vec<f32> = (0..6).map(|i| i as f32).collect();
    let content = bytes(&table);
    let ids = [-7, 2, 3, i32::MAX, i32::MIN, 0];
    let ids_content: Vec<u8> = ids.iter().flat_map(|id: &i32| id.to_le_bytes()).collect();
    let mut graph = GraphBuilder::new("embedding");
    let given = graph.constant(DType::I32, &[6], &ids_content).unwrap();
    let rows = graph.constant(DType::F32, &[3, 2], &content).unwrap();
    let out = graph.embedding(rows, given).unwrap();
    graph.output(out);
    let got = run_f32(&mut session(&graph.finish().unwrap()), &[]).unwrap();
    compare::assert_close("clamped", &got, &reference::embedding::reference(2, &table, &ids), compare::EXACT);
    assert_eq!(got, [0.0, 1.0, 4.0, 5.0, 4.0, 5.0, 4.0, 5.0, 0.0, 1.0, 0.0, 1.0]);
}

#[test]
fn embeddings_want_integers() {
    let content = bytes(&[0.0; 4]);
    let mut graph = GraphBuilder::new("embedding");
    let ids = graph.input(DType::F32, &[2]).unwrap();
    let table = graph.constant(DType::F32, &[2, 2], &content).unwrap();
    graph.embedding(table, ids).unwrap();
    assert_eq!(graph.finish().unwrap_err().to_string(), "embedding (node 0): wants i32 tensors, got f32");
}

#[test]
fn embeddings_over_a_folded_grid() {
    for (workgroups, grid) in GRIDS {
        let table: Vec<f32> = (0..10).map(|i| i as f32).collect();
        let count = workgroups * 32;
        let mut session = lookup(&[count], &table, 2);
        let ids: Vec<i64> = (0..count).map(|i| i64::from(i % 5)).collect();
        let (outputs, commands) = session.run_recorded(&[Input::from(&i64_tensor(&[count], &ids))]).unwrap();
        assert_eq!(grids(&commands), [grid]);
        let got = outputs[0].tensor().unwrap().to_f32().unwrap();
        let wrong = (0..got.len()).find(|&i| got[i] != (i / 2 % 5 * 2 + i % 2) as f32);
        assert_eq!(wrong, None);
    }
}
