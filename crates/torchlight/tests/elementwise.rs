//! Sums and products on the device against their f64 reference: broadcasting, ranks, odd counts, live shapes.

mod harness;

use harness::compare::{self, F32};
use harness::{f32_tensor, gpu, random, rng, run_f32};
use torchlight::kernels::binary::{Function, Shapes};
use torchlight::{DType, Dims, Graph, GraphBuilder, HostTensor, Session, SessionOptions, reference};

/// `a + alpha * b` or `a * b` of two inputs.
#[derive(Clone, Copy, Debug)]
enum Op {
    Add(f32),
    Mul,
}

const OPS: [Op; 4] = [Op::Add(1.0), Op::Add(-2.5), Op::Add(0.0), Op::Mul];

fn graph(op: Op, a: &[u32], b: &[u32]) -> Graph<'static> {
    let mut graph = GraphBuilder::new("binary");
    let [a, b] = [a, b].map(|bound| graph.input(DType::F32, bound).unwrap());
    let out = match op {
        Op::Add(alpha) => graph.add(a, b, alpha),
        Op::Mul => graph.mul(a, b),
    };
    graph.output(out.unwrap());
    graph.finish().unwrap()
}

/// Whether sizes below the bounds are accepted: where they are not, equal shapes take the kernel's dense variant.
fn session(mut graph: Graph<'static>, dynamic: bool) -> Session {
    for input in &mut graph.inputs {
        input.dynamic = dynamic;
    }
    Session::new(gpu(), &graph, SessionOptions::default()).unwrap()
}

fn expected(op: Op, a: &HostTensor, b: &HostTensor, out: &[u32]) -> Vec<f64> {
    let shapes = Shapes { a: a.dims(), b: b.dims(), out: Dims::new(out).unwrap() };
    let (function, alpha) = match op {
        Op::Add(alpha) => (Function::Add, alpha),
        Op::Mul => (Function::Mul, 1.0),
    };
    reference::binary::reference(function, alpha, &shapes, &a.to_f32().unwrap(), &b.to_f32().unwrap())
}

fn seeded(case: &str, sizes: &[u32]) -> HostTensor {
    let count = sizes.iter().product::<u32>() as usize;
    f32_tensor(sizes, &random(&mut rng(&format!("{case}{sizes:?}")), count))
}

#[test]
fn shapes_broadcast_by_the_rule_of_pytorch() {
    const CASES: [(&[u32], &[u32], &[u32]); 14] = [
        (&[2, 3, 8], &[1, 8], &[2, 3, 8]),
        (&[1, 8], &[2, 3, 8], &[2, 3, 8]),
        (&[5, 1, 7], &[6, 1], &[5, 6, 7]),
        (&[3, 5], &[3, 5], &[3, 5]),
        (&[7], &[7], &[7]),
        (&[], &[4, 3], &[4, 3]),
        (&[4, 3], &[], &[4, 3]),
        (&[], &[], &[]),
        (&[1], &[1, 1], &[1, 1]),
        (&[130, 65], &[130, 1], &[130, 65]),
        (&[2, 1, 4, 1, 3], &[7, 1, 5, 1], &[2, 7, 4, 5, 3]),
        (&[1, 2, 1, 3, 1, 2], &[3, 1, 2, 1, 2, 1], &[3, 2, 2, 3, 2, 2]),
        (&[2, 1, 3, 1, 2, 1, 3, 1], &[1, 2, 1, 3, 1, 2, 1, 3], &[2, 2, 3, 3, 2, 2, 3, 3]),
        (&[2, 1, 2, 3, 1, 2, 3, 2], &[3, 2], &[2, 1, 2, 3, 1, 2, 3, 2]),
    ];
    for (a_sizes, b_sizes, out) in CASES {
        for op in OPS {
            let case = format!("{op:?} of {a_sizes:?} and {b_sizes:?}");
            let (a, b) = (seeded("a", a_sizes), seeded("b", b_sizes));
            let mut session = session(graph(op, a_sizes, b_sizes), false);
            assert_eq!(session.run(&[(&a).into(), (&b).into()]).unwrap()[0].tensor().unwrap().dims().as_slice(), out);
            let got = run_f32(&mut session, &[&a, &b]).unwrap();
            compare::assert_close(case, &got, &expected(op, &a, &b, out), F32);
        }
    }
}

#[test]
fn dense_shapes_of_every_count_are_whole() {
    for count in [1, 2, 3, 4, 5, 6, 7, 8, 9, 255, 256, 257, 1021, 1024] {
        for op in OPS {
            let case = format!("{op:?} of {count} elements");
            let (a, b) = (seeded("a", &[count]), seeded("b", &[count]));
            let graph = graph(op, &[count], &[count]);
            let mut session = session(graph, false);
            let block = &session.plan().variants[0].block;
            assert!(block.contains("DENSE: bool = true"), "{case}: {block}");
            let got = run_f32(&mut session, &[&a, &b]).unwrap();
            compare::assert_close(case, &got, &expected(op, &a, &b, &[count]), F32);
        }
    }
}

#[test]
fn live_shapes_below_the_bound_may_start_and_stop_to_broadcast() {
    const STEPS: [(&[u32], &[u32], &[u32]); 8] = [
        (&[4, 6], &[4, 6], &[4, 6]),
        (&[1, 6], &[4, 6], &[4, 6]),
        (&[4, 6], &[1, 1], &[4, 6]),
        (&[4, 1], &[1, 6], &[4, 6]),
        (&[3, 5], &[3, 5], &[3, 5]),
        (&[1, 1], &[1, 1], &[1, 1]),
        (&[2, 1], &[1, 3], &[2, 3]),
        (&[4, 6], &[4, 6], &[4, 6]),
    ];
    for op in OPS {
        let mut session = session(graph(op, &[4, 6], &[4, 6]), true);
        for (step, (a_sizes, b_sizes, out)) in STEPS.into_iter().enumerate() {
            let case = format!("{op:?}, step {step}: {a_sizes:?} and {b_sizes:?}");
            let (a, b) = (seeded("a", a_sizes), seeded("b", b_sizes));
            let got = run_f32(&mut session, &[&a, &b]).unwrap();
            compare::assert_close(case, &got, &expected(op, &a, &b, out), F32);
        }
    }
}

#[test]
fn live_shapes_that_do_not_fit_are_refused_and_the_session_goes_on() {
    let mut session = session(graph(Op::Mul, &[4, 6], &[4, 6]), true);
    let (whole, part) = (seeded("a", &[4, 6]), seeded("b", &[3, 6]));
    let error = run_f32(&mut session, &[&whole, &part]).unwrap_err();
    assert_eq!(error.to_string(), "mul (node 0): [4, 6] and [3, 6] do not broadcast together");
    let got = run_f32(&mut session, &[&whole, &whole]).unwrap();
    compare::assert_close("after a refusal", &got, &expected(Op::Mul, &whole, &whole, &[4, 6]), F32);
}

#[test]
fn a_result_above_its_bound_is_refused() {
    // Live sizes below their bounds make results below theirs: only a graph that was changed by hand gets here.
    let mut graph = graph(Op::Add(1.0), &[4, 1], &[1, 6]);
    let out = graph.tensors.len() - 1;
    graph.tensors[out].bound = Dims::new(&[4, 5]).unwrap();
    let mut session = session(graph, true);
    let error = run_f32(&mut session, &[&seeded("a", &[4, 1]), &seeded("b", &[1, 6])]).unwrap_err();
    assert_eq!(error.to_string(), "add (node 0): the result [4, 6] exceeds the program's upper bound [4, 5]");
}

#[test]
fn an_input_may_be_both_operands() {
    let mut graph = GraphBuilder::new("square and double");
    let x = graph.input(DType::F32, &[5]).unwrap();
    let square = graph.mul(x, x).unwrap();
    let doubled = graph.add(square, square, 1.0).unwrap();
    graph.output(doubled);
    let mut session = session(graph.finish().unwrap(), false);
    let got = run_f32(&mut session, &[&f32_tensor(&[5], &[0.0, 1.0, -2.0, 0.5, 3.0])]).unwrap();
    assert_eq!(got, [0.0, 2.0, 8.0, 0.5, 18.0]);
}
