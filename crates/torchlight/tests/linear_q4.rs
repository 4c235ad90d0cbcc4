//! Linear layers over 4-bit numbers against their f64 reference: groups of any size, sizes that are multiples of nothing.

mod harness;

use harness::compare::{self, Tolerance};
use harness::{bytes, f32_tensor, modest_gpu, random, rng, run_f32};
use torchlight::graph::Quantised;
use torchlight::kernels::linear::{Ending, Loads, WeightType};
use torchlight::kernels::quantised::Packing;
use torchlight::kernels::sdpa_streaming::Processor;
use torchlight::kernels::{self, LinearProblem};
use torchlight::reference::linear_vector::{self, Operands, Weight};
use torchlight::{DType, GraphBuilder, Input, Session, SessionOptions, TensorView};

/// Sums of many products in f32.
const SUMS: Tolerance = Tolerance { absolute: 1e-4, relative: 1e-3 };

/// Rows that a step may have, on both sides of every edge: a row, a few, a tile, more than one.
const ROWS: [u32; 8] = [1, 2, 4, 5, 31, 32, 33, 65];

/// A layer with seeded content.
struct Layer {
    problem: LinearProblem,
    group: u32,
    numbers: Vec<u8>,
    scales: Vec<f32>,
    bias: Vec<f32>,
}

impl Layer {
    /// `[in_features, out_features, group]`
    fn random([in_features, out_features, group]: [u32; 3], has_bias: bool) -> Self {
        let rng = &mut rng(&format!("{in_features} to {out_features} in groups of {group}"));
        Self {
            problem: LinearProblem {
                rows: 1,
                in_features,
                out_features,
                weight: WeightType::Q4 { group },
                has_bias,
                has_norm: false,
                ending: Ending::Plain,
            },
            group,
            numbers: (0..in_features / 2 * out_features).map(|_| rng.u8(..)).collect(),
            // Values from -1 to 1.
            scales: (0..in_features / group * out_features).map(|_| (rng.f32() - 0.5) / 4.0).collect(),
            bias: random(rng, out_features as usize),
        }
    }

    /// A session for up to so many rows, or for exactly as many.
    fn session(&self, rows: u32, is_static: bool) -> Session {
        let LinearProblem { in_features, out_features, has_bias, .. } = self.problem;
        let [scales, bias] = [&self.scales, &self.bias].map(|values| bytes(values));
        let mut graph = GraphBuilder::new("linear");
        let x = graph.input(DType::F32, &[1, rows, in_features]).unwrap();
        let weight = graph.constant(DType::U8, &[out_features, in_features / 2], &self.numbers).unwrap();
        let scales = graph.constant(DType::F32, &[in_features / self.group, out_features], &scales).unwrap();
        let bias = has_bias.then(|| graph.constant(DType::F32, &[out_features], &bias).unwrap());
        let out = graph.linear_q4(x, Quantised { weight, scales, group: self.group }, bias).unwrap();
        graph.output(out);
        let mut graph = graph.finish().unwrap();
        graph.inputs[0].dynamic = !is_static;
        Session::new(modest_gpu(), &graph, SessionOptions::default()).unwrap()
    }

    fn check(&self, session: &mut Session, rows: u32) {
        let problem = LinearProblem { rows, ..self.problem };
        let case = format!("{problem:?} in groups of {}", self.group);
        let x = random(&mut rng(&case), (rows * problem.in_features) as usize);
        let got = run_f32(session, &[&f32_tensor(&[1, rows, problem.in_features], &x)])
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        compare::assert_close(&case, &got, &self.wanted(rows, &x), SUMS);
    }

    /// The result by the reference.
    fn wanted(&self, rows: u32, x: &[f32]) -> Vec<f64> {
        let problem = LinearProblem { rows, ..self.problem };
        let weight = Weight::Q4 { numbers: &self.numbers, scales: &self.scales };
        let bias = problem.has_bias.then_some(self.bias.as_slice());
        linear_vector::reference(&problem, Operands { x, norm: None, weight, bias, residual: None })
    }
}

const SIZES: [[u32; 3]; 20] = [
    // Loads of four words.
    [32, 4, 32],
    [64, 32, 32],
    [128, 68, 64],
    [256, 12, 128],
    [1120, 8, 32],
    // Words.
    [8, 4, 8],
    [40, 20, 8],
    [96, 64, 24],
    [264, 132, 88],
    [64, 8, 16],
    // Any.
    [2, 1, 2],
    [2, 3, 1],
    [6, 5, 3],
    [10, 9, 10],
    [30, 66, 6],
    [64, 7, 32],
    [64, 66, 64],
    [130, 33, 26],
    [258, 65, 86],
    [512, 3, 128],
];

#[test]
fn any_sizes_agree_with_the_reference() {
    for (index, sizes) in SIZES.into_iter().enumerate() {
        let layer = Layer::random(sizes, index % 2 == 0);
        let mut session = layer.session(65, false);
        ROWS.into_iter().chain([1]).for_each(|rows| layer.check(&mut session, rows));
    }
}

#[test]
fn static_rows_agree_with_the_reference() {
    for sizes in [[64, 32, 32], [30, 66, 6]] {
        for rows in [1, 2, 5, 33] {
            let layer = Layer::random(sizes, rows % 2 == 0);
            let mut session = layer.session(rows, true);
            let plan = session.plan();
            let kernels: Vec<&str> = plan.dispatches().map(|dispatch| plan.variant(dispatch.variant).label).collect();
            assert_eq!(kernels, [if rows <= 4 { "linear_vector_q4" } else { "linear_tile_q4" }]);
            layer.check(&mut session, rows);
        }
    }
}

#[test]
fn numbers_are_exact_and_the_even_column_is_low() {
    // Columns that select one number each: scales of 1 leave numbers as they are.
    for [in_features, out_features, group] in [[32, 4, 32], [8, 4, 8], [6, 3, 2]] {
        let mut layer = Layer::random([in_features, out_features, group], false);
        layer.scales.fill(1.0);
        for rows in [4, in_features.max(5)] {
            let mut x = vec![0.0; (rows * in_features) as usize];
            (0..rows.min(in_features)).for_each(|row| x[(row * in_features + row) as usize] = 1.0);
            let got = run_f32(&mut layer.session(rows, true), &[&f32_tensor(&[1, rows, in_features], &x)]).unwrap();
            for column in 0..rows.min(in_features) {
                for output in 0..out_features {
                    let byte = layer.numbers[(output * in_features / 2 + column / 2) as usize];
                    let number = if column % 2 == 0 { byte & 15 } else { byte >> 4 };
                    assert_eq!(got[(column * out_features + output) as usize], f32::from(number) - 8.0);
                }
            }
        }
    }
}

#[test]
fn what_is_no_number_stays_in_its_row() {
    for sizes in [[6, 5, 2], [66, 9, 22], [64, 8, 32]] {
        let mut layer = Layer::random(sizes, false);
        let [in_features, out_features, _] = sizes;
        layer.scales.iter_mut().skip(1).step_by(out_features as usize).for_each(|scale| *scale = f32::NAN);
        for rows in [3, 6] {
            let mut x = random(&mut rng("no number"), (rows * in_features) as usize);
            x[in_features as usize..2 * in_features as usize].fill(f32::NAN);
            let mut session = layer.session(rows, true);
            let got = run_f32(&mut session, &[&f32_tensor(&[1, rows, in_features], &x)]).unwrap();
            let wanted = layer.wanted(rows, &x);
            for (index, (got, wanted)) in got.into_iter().zip(wanted).enumerate() {
                let [row, output] = [index as u32 / out_features, index as u32 % out_features];
                match (row, output) {
                    (1, _) | (_, 1) => assert!(got.is_nan(), "{sizes:?}, row {row}, output {output}: {got}"),
                    _ => compare::assert_close(format!("{sizes:?} {row} {output}"), &[got], &[wanted], SUMS),
                }
            }
        }
    }
}

/// Why a layer is refused: shapes of x, numbers and scales, and the group.
fn refusal(shapes: [&[u32]; 3], group: u32, dtype: DType) -> String {
    let mut graph = GraphBuilder::new("refused");
    let x = graph.input(DType::F32, shapes[0]).unwrap();
    let weight = graph.input(dtype, shapes[1]).unwrap();
    let scales = graph.input(DType::F32, shapes[2]).unwrap();
    graph.linear_q4(x, Quantised { weight, scales, group }, None).unwrap();
    graph.finish().map(|graph| graph.nodes.len()).unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_refused() {
    for (shapes, group, wanted) in [
        ([&[2, 8][..], &[4, 5], &[1, 4]], 10, "x [2, 8] must end in the 10 columns of weight [4, 5]"),
        ([&[2, 10], &[4, 5], &[1, 4]], 4, "groups of 4 do not divide the 10 columns of weight [4, 5]"),
        ([&[2, 10], &[4, 5], &[1, 4]], 0, "groups of 0 do not divide the 10 columns of weight [4, 5]"),
        ([&[2, 10], &[4, 5], &[1, 4]], 5, "weight [4, 5] in groups of 5 wants scales [2, 4], got [1, 4]"),
        ([&[2, 10], &[4, 5], &[4, 2]], 5, "weight [4, 5] in groups of 5 wants scales [2, 4], got [4, 2]"),
        ([&[2, 10], &[20], &[2, 4]], 5, "wants a weight of rank 2, got [20]"),
    ] {
        assert_eq!(refusal(shapes, group, DType::U8), format!("linear_q4gsw (node 0): {wanted}"));
    }
    let error = refusal([&[2, 10], &[4, 5], &[2, 4]], 5, DType::F32);
    assert_eq!(error, "linear_q4gsw (node 0): wants u8 tensors, got f32");
}

#[test]
fn grids_fold_at_the_limit() {
    let problem = Layer::random([2, 1, 2], false).problem;
    let shape = kernels::linear_vector::shape(&problem, Loads::Q4(Packing::Any), Processor::Cpu, None);
    for (workgroups, wanted) in [(65535, [65535, 1]), (65536, [65535, 2])] {
        for (rows, out_features) in [(1, workgroups * shape.strips * 4), (5, workgroups * 64)] {
            let mut graph = GraphBuilder::new("grid");
            let x = graph.static_input(DType::F32, &[rows, 2]).unwrap();
            let numbers: Vec<u8> = (0..out_features).map(|i| (i % 251) as u8).collect();
            let weight = graph.constant(DType::U8, &[out_features, 1], &numbers).unwrap();
            let ones = bytes(&vec![1.0; out_features as usize]);
            let scales = graph.constant(DType::F32, &[1, out_features], &ones).unwrap();
            let out = graph.linear_q4(x, Quantised { weight, scales, group: 2 }, None).unwrap();
            graph.output(out);
            let graph = graph.finish().unwrap();
            let mut session = Session::new(modest_gpu(), &graph, SessionOptions::default()).unwrap();
            let x: Vec<f32> = (0..2 * rows).map(|i| (i + 1) as f32).collect();
            let input = Input::Host(TensorView::f32(&[rows, 2], &x).unwrap());
            let (outputs, commands) = session.run_recorded(&[input]).unwrap();
            assert!(commands.contains(&torchlight::gpu::Command::Dispatch { x: wanted[0], y: wanted[1] }), "{rows}");
            let (elements, []) = outputs[0].tensor().unwrap().bytes().as_chunks::<4>() else { panic!("no f32") };
            // Enough of them to meet every workgroup, in every place.
            for (index, got) in elements.iter().enumerate().step_by(7) {
                let (row, number) = (index / out_features as usize, numbers[index % out_features as usize]);
                let [low, high] = [number & 15, number >> 4].map(|number| f32::from(number) - 8.0);
                assert_eq!(f32::from_le_bytes(*got), x[2 * row] * low + x[2 * row + 1] * high, "element {index}");
            }
        }
    }
}
