//! Views and slices: shapes, live sizes, what shares memory and what must not.

mod harness;

use harness::compare::{self, EXACT};
use harness::{bytes, f32_tensor, i64_tensor, modest_gpu, random, rng, run_f32, tensors};
use torchlight::gpu::Command;
use torchlight::graph::{CopyTensor, IntArg, Operator, Part};
use torchlight::kernels::slice_copy::Slice;
use torchlight::{DType, Graph, GraphBuilder, HostTensor, Input, Session, SessionOptions, reference};

fn session(graph: &Graph<'_>) -> Session {
    Session::new(modest_gpu(), graph, SessionOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn known(sizes: &[i64]) -> Vec<IntArg> {
    sizes.iter().copied().map(IntArg::Known).collect()
}

fn counted(sizes: &[u32]) -> HostTensor {
    let values: Vec<f32> = (0..sizes.iter().product::<u32>()).map(|i| i as f32).collect();
    f32_tensor(sizes, &values)
}

#[test]
fn a_view_costs_nothing() {
    let mut graph = GraphBuilder::new("view");
    let x = graph.input(DType::F32, &[1, 6, 4]).unwrap();
    let doubled = graph.add(x, x, 1.0).unwrap();
    let tokens = graph.sym_size(x, 1);
    let flat = graph.view_copy(doubled, &[tokens, IntArg::Known(4)], &[6, 4]).unwrap();
    let cloned = graph.clone_of(flat).unwrap();
    let heads = graph.view_copy(cloned, &[known(&[1]), vec![tokens], known(&[2, -1])].concat(), &[1, 6, 2, 2]).unwrap();
    let sum = graph.add(heads, heads, 1.0).unwrap();
    graph.output(flat);
    graph.output(sum);
    let mut session = session(&graph.finish().unwrap());
    let plan = session.plan();
    assert_eq!(plan.steps.len(), 2, "{plan}");
    let buffers = [doubled, flat, cloned, heads].map(|tensor| plan.tensor_buffers[tensor.index()].unwrap());
    assert_eq!(buffers, [buffers[0]; 4]);
    for tokens in [6, 1, 5] {
        let x = counted(&[1, tokens, 4]);
        let outputs = session.run(&[Input::from(&x)]).unwrap();
        let (wanted, got) = (x.to_f32().unwrap(), tensors(&outputs));
        assert_eq!(got[0].dims().as_slice(), [tokens, 4]);
        assert_eq!(got[1].dims().as_slice(), [1, tokens, 2, 2]);
        assert_eq!(got[0].to_f32().unwrap(), wanted.iter().map(|x| 2.0 * x).collect::<Vec<f32>>());
        assert_eq!(got[1].to_f32().unwrap(), wanted.iter().map(|x| 4.0 * x).collect::<Vec<f32>>());
    }
}

#[test]
fn what_is_viewed_stays_as_long_as_its_views() {
    // Were the first tensor's buffer free after its last own use, the chain would write over it.
    let mut graph = GraphBuilder::new("lifetimes");
    let x = graph.input(DType::F32, &[2, 3]).unwrap();
    let first = graph.add(x, x, 1.0).unwrap();
    let view = graph.view_copy(first, &known(&[3, 2]), &[3, 2]).unwrap();
    let mut chain = x;
    for _ in 0..4 {
        chain = graph.add(chain, x, 3.0).unwrap();
    }
    let chain = graph.view_copy(chain, &known(&[-1, 2]), &[3, 2]).unwrap();
    let out = graph.add(chain, view, 1.0).unwrap();
    graph.output(out);
    let got = run_f32(&mut session(&graph.finish().unwrap()), &[&counted(&[2, 3])]).unwrap();
    assert_eq!(got, [0.0, 15.0, 30.0, 45.0, 60.0, 75.0]);
}

#[test]
fn inputs_and_constants_may_be_viewed_and_returned() {
    let content = bytes(&[1.0, 2.0, 3.0, 4.0]);
    let mut graph = GraphBuilder::new("returned");
    let x = graph.input(DType::F32, &[4]).unwrap();
    let constant = graph.constant(DType::F32, &[4], &content).unwrap();
    for tensor in [x, constant] {
        let view = graph.view_copy(tensor, &known(&[2, -1]), &[2, 2]).unwrap();
        graph.output(view);
        let cloned = graph.clone_of(tensor).unwrap();
        graph.output(cloned);
    }
    let mut session = session(&graph.finish().unwrap());
    assert!(session.plan().steps.is_empty());
    let x = counted(&[4]);
    let outputs = session.run(&[Input::from(&x)]).unwrap();
    let got: Vec<&HostTensor> = tensors(&outputs);
    assert_eq!(got[0].dims().as_slice(), [2, 2]);
    let content: Vec<Vec<f32>> = got.iter().map(|tensor| tensor.to_f32().unwrap()).collect();
    assert_eq!(content, [[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]]);
}

#[test]
fn a_view_of_what_is_written_in_place_keeps_what_was_viewed() {
    let zeros = [0; 4 * 6];
    let mut graph = GraphBuilder::new("cache");
    let value = graph.input(DType::F32, &[1, 1, 1, 2]).unwrap();
    let cache = graph.constant(DType::F32, &[1, 3, 1, 2], &zeros).unwrap();
    let before = graph.view_copy(cache, &known(&[6]), &[6]).unwrap();
    graph.update_cache(value, cache, IntArg::Known(1));
    let after = graph.clone_of(cache).unwrap();
    graph.output(before);
    graph.output(after);
    let mut session = session(&graph.finish().unwrap());
    for (step, wanted) in [[0.0; 6], [0.0, 0.0, 5.0, 6.0, 0.0, 0.0]].into_iter().enumerate() {
        let value = f32_tensor(&[1, 1, 1, 2], &[5.0 + step as f32, 6.0 + step as f32]);
        let outputs = session.run(&[Input::from(&value)]).unwrap();
        assert_eq!(tensors(&outputs)[0].to_f32().unwrap(), wanted, "before, step {step}");
        let after = tensors(&outputs)[1].to_f32().unwrap();
        assert_eq!(after[2..4], [5.0 + step as f32, 6.0 + step as f32], "after, step {step}");
    }
}

#[test]
fn a_view_that_is_written_leaves_what_was_viewed() {
    let mut graph = GraphBuilder::new("written view");
    let value = graph.input(DType::F32, &[1, 1, 1, 2]).unwrap();
    let x = graph.input(DType::F32, &[6]).unwrap();
    let view = graph.view_copy(x, &known(&[1, 3, 1, 2]), &[1, 3, 1, 2]).unwrap();
    graph.update_cache(value, view, IntArg::Known(2));
    graph.output(x);
    graph.output(view);
    let mut session = session(&graph.finish().unwrap());
    let outputs = session.run(&[(&f32_tensor(&[1, 1, 1, 2], &[8.0, 9.0])).into(), (&counted(&[6])).into()]).unwrap();
    let got: Vec<Vec<f32>> = tensors(&outputs).into_iter().map(|tensor| tensor.to_f32().unwrap()).collect();
    assert_eq!(got, [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 1.0, 2.0, 3.0, 8.0, 9.0]]);
}

#[test]
fn a_view_of_an_input_that_gets_a_new_content_keeps_the_old() {
    let mut graph = GraphBuilder::new("carried");
    let x = graph.input(DType::F32, &[4]).unwrap();
    let view = graph.view_copy(x, &known(&[2, 2]), &[2, 2]).unwrap();
    let sum = graph.add(x, x, 1.0).unwrap();
    let placeholder = graph.add(x, x, 1.0).unwrap();
    graph.output(view);
    graph.output(x);
    let mut graph = graph.finish().unwrap();
    let copy = graph.nodes.iter_mut().find(|node| node.operator.writes() == [placeholder]).unwrap();
    copy.operator = Operator::CopyTensor(CopyTensor { from: sum, to: x });
    let outputs = session(&graph).run(&[Input::from(&counted(&[4]))]).unwrap();
    let got: Vec<Vec<f32>> = tensors(&outputs).into_iter().map(|tensor| tensor.to_f32().unwrap()).collect();
    assert_eq!(got, [[0.0, 1.0, 2.0, 3.0], [0.0, 2.0, 4.0, 6.0]]);
}

#[test]
fn views_that_do_not_fit_are_refused() {
    let refusal = |sizes: &[i64], bound: &[u32]| {
        let mut graph = GraphBuilder::new("view");
        let x = graph.input(DType::F32, &[2, 6]).unwrap();
        let view = graph.view_copy(x, &known(sizes), bound).unwrap();
        graph.output(view);
        graph.finish().unwrap_err().to_string()
    };
    let wanted = "view_copy (node 0): x [2, 6] has 12 elements, the view [5, 2] has 10";
    assert_eq!(refusal(&[5, -1], &[5, 2]), wanted);
    assert_eq!(refusal(&[-1, -1], &[3, 4]), "view_copy (node 0): size 1 of the view is -1");
    assert_eq!(refusal(&[0, -1], &[3, 4]), "view_copy (node 0): size 0 of the view is 0");
    assert!(refusal(&[12], &[11]).contains("the result [12] exceeds the program's upper bound [11]"));
    assert!(refusal(&[i64::MAX], &[12]).contains("size 0 of the view is"));
}

#[test]
fn ids_behind_a_view_are_looked_at() {
    let table = bytes(&[0.0; 6]);
    let mut graph = GraphBuilder::new("embedding");
    let ids = graph.input(DType::I64, &[1, 4]).unwrap();
    let flat = graph.view_copy(ids, &known(&[-1]), &[4]).unwrap();
    let table = graph.constant(DType::F32, &[3, 2], &table).unwrap();
    let out = graph.embedding(table, flat).unwrap();
    graph.output(out);
    let error = session(&graph.finish().unwrap()).run(&[Input::from(&i64_tensor(&[1, 2], &[0, 3]))]).unwrap_err();
    assert_eq!(error.to_string(), "embedding (node 1): id 3 is outside the table's 3 rows");
}

#[test]
fn slices_of_every_dimension() {
    let sizes = [5, 6, 8];
    let whole = counted(&sizes);
    let values = whole.to_f32().unwrap();
    let range = |start, end, step| (IntArg::Known(start), IntArg::Known(end), step);
    for is_dynamic in [false, true] {
        for dim in 0..3 {
            let size = i64::from(sizes[dim]);
            for ((start, end, step), first, count) in [
                (range(0, i64::MAX, 1), 0, size),
                (range(1, 4, 1), 1, 3),
                (range(0, size, 2), 0, (size + 1) / 2),
                (range(-2, i64::MAX, 1), size - 2, 2),
                (range(-100, -1, 3), 0, (size + 1) / 3),
                (range(4, 5, 7), 4, 1),
            ] {
                let case = format!("dimension {dim}: {start:?} to {end:?} by {step}, dynamic {is_dynamic}");
                let mut bound = sizes;
                bound[dim] = count as u32;
                let mut graph = GraphBuilder::new("slice");
                let x =
                    if is_dynamic { graph.input(DType::F32, &sizes) } else { graph.static_input(DType::F32, &sizes) };
                let out = graph.slice_copy(x.unwrap(), dim, Part::Range { start, end, step }, &bound).unwrap();
                graph.output(out);
                let mut session = session(&graph.finish().unwrap());
                let outputs = session.run(&[Input::from(&whole)]).unwrap();
                assert_eq!(tensors(&outputs)[0].dims().as_slice(), bound, "{case}");
                let slice = Slice {
                    outer: sizes[..dim].iter().product(),
                    size: sizes[dim],
                    inner: sizes[dim + 1..].iter().product(),
                    first: first as u32,
                    count: count as u32,
                    step,
                };
                let wanted = reference::slice_copy::reference(&slice, &values);
                compare::assert_close(case, &tensors(&outputs)[0].to_f32().unwrap(), &wanted, EXACT);
            }
        }
    }
}

#[test]
fn a_selected_position_counts_from_the_live_end() {
    let mut graph = GraphBuilder::new("select");
    let x = graph.input(DType::F32, &[1, 5, 3]).unwrap();
    let last = graph.slice_copy(x, 1, Part::One(IntArg::Known(-1)), &[1, 3]).unwrap();
    let second = graph.slice_copy(x, 2, Part::One(IntArg::Known(1)), &[1, 5]).unwrap();
    graph.output(last);
    graph.output(second);
    let mut session = session(&graph.finish().unwrap());
    for tokens in [5, 1, 3] {
        let x = random(&mut rng(&format!("select {tokens}")), 3 * tokens as usize);
        let outputs = session.run(&[Input::from(&f32_tensor(&[1, tokens, 3], &x))]).unwrap();
        let got = tensors(&outputs);
        assert_eq!((got[0].dims().as_slice(), got[1].dims().as_slice()), (&[1, 3][..], &[1, tokens][..]));
        assert_eq!(got[0].to_f32().unwrap(), x[x.len() - 3..]);
        assert_eq!(got[1].to_f32().unwrap(), x.chunks(3).map(|row| row[1]).collect::<Vec<f32>>());
    }
    let error = session.run(&[Input::from(&counted(&[1, 2, 1]))]).unwrap_err();
    assert_eq!(error.to_string(), "select_copy (node 1): index 1 is outside dimension 2 of [1, 2, 1]");
}

#[test]
fn live_slices_follow_the_position_and_refuse_what_is_empty() {
    let content = bytes(&(0..16).map(|i| i as f32).collect::<Vec<f32>>());
    let mut graph = GraphBuilder::new("angles");
    graph.input(DType::I64, &[2]).unwrap();
    let table = graph.constant(DType::F32, &[8, 2], &content).unwrap();
    let [start, end] = [0, 1].map(|index| graph.select_as_symint(0, index));
    // Both are 0 when the graph is made: that this slice would be empty says nothing.
    let out = graph.slice_copy(table, 0, Part::Range { start, end, step: 1 }, &[4, 2]).unwrap();
    let doubled = graph.add(out, out, 1.0).unwrap();
    graph.output(doubled);
    let mut session = session(&graph.finish().unwrap());
    let mut run = |start, end| run_f32(&mut session, &[&i64_tensor(&[2], &[start, end])]);
    assert_eq!(run(1, 3).unwrap(), [4.0, 6.0, 8.0, 10.0]);
    assert_eq!(run(7, 100).unwrap(), [28.0, 30.0]);
    let empty = "slice_copy (node 2): the slice from 8 to 9 of a size 8 is empty";
    assert_eq!(run(8, 9).unwrap_err().to_string(), empty);
    assert!(run(5, 2).unwrap_err().to_string().contains("from 5 to 2 of a size 8 is empty"));
    assert!(run(0, 5).unwrap_err().to_string().contains("exceeds the program's upper bound [4, 2]"));
    assert_eq!(run(0, 1).unwrap(), [0.0, 2.0]);
}

#[test]
fn integers_are_sliced_as_they_are() {
    let mut graph = GraphBuilder::new("ids");
    let ids = graph.input(DType::I64, &[1, 5]).unwrap();
    let part = Part::Range { start: IntArg::Known(1), end: IntArg::Known(4), step: 2 };
    let out = graph.slice_copy(ids, 1, part, &[1, 2]).unwrap();
    graph.output(out);
    let mut session = session(&graph.finish().unwrap());
    let outputs = session.run(&[Input::from(&i64_tensor(&[1, 5], &[1, -2, 3, i64::from(i32::MIN), 5]))]).unwrap();
    assert_eq!(tensors(&outputs)[0].to_i32().unwrap(), [-2, i32::MIN]);
}

#[test]
fn slices_over_a_folded_grid() {
    for (workgroups, grid) in [(65535, [65535, 1]), (65536, [65535, 2])] {
        let rows = workgroups * 64;
        let mut graph = GraphBuilder::new("slice");
        let x = graph.input(DType::F32, &[rows, 2]).unwrap();
        let out = graph.slice_copy(x, 1, Part::One(IntArg::Known(-1)), &[rows]).unwrap();
        graph.output(out);
        let mut session = session(&graph.finish().unwrap());
        let values: Vec<f32> = (0..2 * rows).map(|i| i as f32).collect();
        let x = torchlight::TensorView::f32(&[rows, 2], &values).unwrap();
        let (outputs, commands) = session.run_recorded(&[Input::Host(x)]).unwrap();
        assert!(commands.contains(&Command::Dispatch { x: grid[0], y: grid[1] }));
        let got = tensors(&outputs)[0].to_f32().unwrap();
        assert_eq!((0..got.len()).find(|&i| got[i] != (2 * i + 1) as f32), None);
    }
}
