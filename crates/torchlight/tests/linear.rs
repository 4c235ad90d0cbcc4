//! Linear layers on the device against their f64 reference: sizes that are multiples of nothing, few rows and many.

mod harness;

use harness::compare::{self, Tolerance};
use harness::{bytes, f32_tensor, modest_gpu, random, rng, run_f32};
use torchlight::gpu::Command;
use torchlight::kernels::linear::{Alignment, Ending, Loads, WeightType};
use torchlight::kernels::sdpa_streaming::Processor;
use torchlight::kernels::{self, LinearProblem};
use torchlight::plan::PlanOptions;
use torchlight::reference::linear_vector::{self, Operands, Weight};
use torchlight::{DType, DeviceFacts, Graph, GraphBuilder, Input, Plan, Session, SessionOptions, TensorView};

/// Sums of many products in f32.
const SUMS: Tolerance = Tolerance { absolute: 1e-4, relative: 1e-3 };

/// Rows that a step may have, on both sides of every edge: a row, a few, a tile, more than one.
const ROWS: [u32; 9] = [1, 2, 3, 4, 5, 31, 32, 33, 65];

const PLAIN: LinearProblem = LinearProblem {
    rows: 1,
    in_features: 1,
    out_features: 1,
    weight: WeightType::F32,
    has_bias: false,
    has_norm: false,
    ending: Ending::Plain,
};

/// A layer with seeded content.
struct Layer {
    in_features: u32,
    out_features: u32,
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl Layer {
    fn random(in_features: u32, out_features: u32, has_bias: bool) -> Self {
        let rng = &mut rng(&format!("{in_features} to {out_features}"));
        Self {
            in_features,
            out_features,
            weight: random(rng, (in_features * out_features) as usize),
            bias: has_bias.then(|| random(rng, out_features as usize)),
        }
    }

    fn name(&self) -> String {
        let bias = if self.bias.is_some() { " with bias" } else { "" };
        format!("{} to {}{bias}", self.in_features, self.out_features)
    }

    fn problem(&self, rows: u32) -> LinearProblem {
        let (in_features, out_features) = (self.in_features, self.out_features);
        LinearProblem { rows, in_features, out_features, has_bias: self.bias.is_some(), ..PLAIN }
    }

    /// The result by the reference.
    fn wanted(&self, rows: u32, x: &[f32]) -> Vec<f64> {
        let (weight, bias) = (Weight::F32(&self.weight), self.bias.as_deref());
        let operands = Operands { x, norm: None, weight, bias, residual: None };
        linear_vector::reference(&self.problem(rows), operands)
    }

    /// A session for up to so many rows, or for exactly as many.
    fn session(&self, rows: u32, is_static: bool) -> Session {
        let [weight, bias] = [Some(&self.weight), self.bias.as_ref()].map(|values| values.map(|values| bytes(values)));
        let mut graph = GraphBuilder::new("linear");
        let x = graph.input(DType::F32, &[1, rows, self.in_features]).unwrap();
        let weight_dims = [self.out_features, self.in_features];
        let weight = graph.constant(DType::F32, &weight_dims, weight.as_ref().unwrap()).unwrap();
        let bias = bias.as_ref().map(|bias| graph.constant(DType::F32, &[self.out_features], bias).unwrap());
        let out = graph.linear(x, weight, bias).unwrap();
        graph.output(out);
        let mut graph = graph.finish().unwrap();
        graph.inputs[0].dynamic = !is_static;
        Session::new(modest_gpu(), &graph, SessionOptions::default()).unwrap()
    }

    fn check(&self, session: &mut Session, rows: u32) {
        let case = format!("{}, {rows} rows", self.name());
        let x = random(&mut rng(&case), (rows * self.in_features) as usize);
        let got = run_f32(session, &[&f32_tensor(&[1, rows, self.in_features], &x)])
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        compare::assert_close(case, &got, &self.wanted(rows, &x), SUMS);
    }
}

const SIZES: [(u32, u32); 13] = [
    (1, 1),
    (3, 5),
    (4, 4),
    (7, 9),
    (36, 12),
    (64, 32),
    (100, 66),
    (66, 100),
    (129, 65),
    (128, 64),
    (130, 8),
    (260, 132),
    (515, 3),
];

#[test]
fn any_sizes_agree_with_the_reference() {
    for (in_features, out_features) in SIZES {
        for has_bias in [false, true] {
            let layer = Layer::random(in_features, out_features, has_bias);
            let mut session = layer.session(65, false);
            ROWS.into_iter().chain([1]).for_each(|rows| layer.check(&mut session, rows));
        }
    }
}

#[test]
fn static_rows_agree_with_the_reference() {
    for (in_features, out_features) in [(100, 66), (64, 32)] {
        for rows in ROWS {
            let layer = Layer::random(in_features, out_features, rows % 2 == 0);
            layer.check(&mut layer.session(rows, true), rows);
        }
    }
}

#[test]
fn few_rows_take_the_vector_kernel_and_more_take_tiles() {
    let layer = Layer::random(8, 8, false);
    let kernels = |session: &Session| -> Vec<&'static str> {
        session.plan().dispatches().map(|dispatch| session.plan().variant(dispatch.variant).label).collect()
    };
    for (rows, wanted) in
        [(1, "linear_vector_f32"), (4, "linear_vector_f32"), (5, "linear_tile_f32"), (33, "linear_tile_f32")]
    {
        assert_eq!(kernels(&layer.session(rows, true)), [wanted], "{rows} rows");
    }
    // One row has a kernel of its own.
    assert_eq!(kernels(&layer.session(1, false)), ["linear_vector_f32"]);
    assert_eq!(kernels(&layer.session(4, false)), ["linear_vector_f32"; 2]);
    let mut session = layer.session(5, false);
    assert_eq!(kernels(&session), ["linear_vector_f32", "linear_vector_f32", "linear_tile_f32"]);
    // A run launches one of them.
    for rows in [1, 2, 4, 5] {
        let x = vec![0.0; rows as usize * 8];
        let (_, commands) = session.run_recorded(&[TensorView::f32(&[1, rows, 8], &x).unwrap().into()]).unwrap();
        let launched = commands.iter().filter(|command| matches!(command, Command::Dispatch { .. })).count();
        assert_eq!(launched, 1, "{rows} rows");
    }
}

#[test]
fn what_is_no_number_stays_in_its_row() {
    // Neighbours of a row in memory are loaded with it, and must not count.
    for (in_features, out_features) in [(5, 3), (33, 9), (64, 8)] {
        let mut layer = Layer::random(in_features, out_features, false);
        layer.weight[in_features as usize..2 * in_features as usize].fill(f32::INFINITY);
        for rows in [3, 6] {
            let mut x = random(&mut rng("no number"), (rows * in_features) as usize);
            x[in_features as usize..2 * in_features as usize].fill(f32::NAN);
            let mut session = layer.session(rows, true);
            let got = run_f32(&mut session, &[&f32_tensor(&[1, rows, in_features], &x)]).unwrap();
            let wanted = layer.wanted(rows, &x);
            for (index, (got, wanted)) in got.into_iter().zip(wanted).enumerate() {
                let [row, output] = [index as u32 / out_features, index as u32 % out_features];
                let case = format!("{in_features} to {out_features}, row {row}, output {output}");
                match (row, output) {
                    (1, _) | (_, 1) => assert!(!got.is_finite(), "{case}: {got}"),
                    _ => compare::assert_close(case, &[got], &[wanted], SUMS),
                }
            }
        }
    }
}

#[test]
fn a_weight_may_be_an_input_of_live_size() {
    let mut graph = GraphBuilder::new("product of inputs");
    let x = graph.input(DType::F32, &[6, 8]).unwrap();
    let weight = graph.input(DType::F32, &[12, 8]).unwrap();
    let out = graph.linear(x, weight, None).unwrap();
    graph.output(out);
    let mut session = Session::new(modest_gpu(), &graph.finish().unwrap(), SessionOptions::default()).unwrap();
    for [rows, in_features, out_features] in [[6, 8, 12], [5, 7, 9], [2, 3, 5], [1, 1, 1]] {
        let rng = &mut rng("live");
        let [x, weight] = [rows, out_features].map(|rows: u32| random(rng, (rows * in_features) as usize));
        let tensors = [f32_tensor(&[rows, in_features], &x), f32_tensor(&[out_features, in_features], &weight)];
        let got = run_f32(&mut session, &tensors.each_ref()).unwrap();
        let wanted = Layer { in_features, out_features, weight, bias: None }.wanted(rows, &x);
        compare::assert_close(format!("{rows} {in_features} {out_features}"), &got, &wanted, SUMS);
    }
}

/// Why a layer of these shapes is refused: x, weight, bias.
fn refusal(x: &[u32], weight: &[u32], bias: Option<&[u32]>) -> String {
    let mut graph = GraphBuilder::new("refused");
    let [x, weight] = [x, weight].map(|dims| graph.input(DType::F32, dims).unwrap());
    let bias = bias.map(|dims| graph.input(DType::F32, dims).unwrap());
    graph.linear(x, weight, bias).unwrap();
    graph.finish().map(|graph| graph.nodes.len()).unwrap_err().to_string()
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    for (x, weight, bias, wanted) in [
        (&[2, 3][..], &[4, 5][..], None, "x [2, 3] must end in the 5 columns of weight [4, 5]"),
        (&[], &[4, 5], None, "x [] must end in the 5 columns of weight [4, 5]"),
        (&[2, 5], &[5], None, "wants a weight of rank 2, got [5]"),
        (&[2, 5], &[4, 5], Some(&[5][..]), "wants a bias [4], got [5]"),
        (&[2, 5], &[4, 5], Some(&[4, 1]), "wants a bias [4], got [4, 1]"),
    ] {
        assert_eq!(refusal(x, weight, bias), format!("linear (node 0): {wanted}"));
    }
}

fn plan(graph: &Graph<'_>) -> torchlight::Result<Plan> {
    Plan::new(graph, &DeviceFacts::webgpu_defaults(), PlanOptions::default())
}

#[test]
fn a_weight_above_the_devices_largest_binding_is_refused() {
    let mut graph = GraphBuilder::new("large");
    let x = graph.input(DType::F32, &[1, 1024]).unwrap();
    let weight = graph.static_input(DType::F32, &[32769, 1024]).unwrap();
    graph.linear(x, weight, None).unwrap();
    assert_eq!(
        plan(&graph.finish().unwrap()).unwrap_err().to_string(),
        "input 1 of shape [32769, 1024] needs 134221824 bytes in one buffer, and the device allows 134217728; \
         these are WebGPU's default limits, and those of the adapter may be larger"
    );
}

/// The grid of a layer of one column, whose result is checked.
fn grid(rows: u32, out_features: u32) -> [u32; 2] {
    let mut graph = GraphBuilder::new("grid");
    let x = graph.static_input(DType::F32, &[rows, 1]).unwrap();
    let weight = graph.static_input(DType::F32, &[out_features, 1]).unwrap();
    let out = graph.linear(x, weight, None).unwrap();
    graph.output(out);
    let mut session = Session::new(modest_gpu(), &graph.finish().unwrap(), SessionOptions::default()).unwrap();
    // Products below 2^24 are exact in f32.
    let values = |count: u32| -> Vec<f32> { (0..count).map(|i| (i % 4093 + 1) as f32).collect() };
    let (x, weight) = (values(rows), values(out_features));
    let inputs = [TensorView::f32(&[rows, 1], &x), TensorView::f32(&[out_features, 1], &weight)];
    let (outputs, commands) = session.run_recorded(&inputs.map(|input| Input::Host(input.unwrap()))).unwrap();
    let (elements, []) = outputs[0].tensor().unwrap().bytes().as_chunks::<4>() else { panic!("no f32") };
    // Enough of them to meet every workgroup, in every place.
    for (index, got) in elements.iter().enumerate().step_by(7) {
        let [row, output] = [index / out_features as usize, index % out_features as usize];
        let got = f32::from_le_bytes(*got);
        assert!(got == x[row] * weight[output], "row {row}, output {output}: {got}");
    }
    let grid = commands.iter().find_map(|command| match command {
        Command::Dispatch { x, y } => Some([*x, *y]),
        _ => None,
    });
    grid.unwrap()
}

#[test]
fn grids_fold_at_the_limit() {
    let loads = Loads::F32(Alignment::One);
    let shape = kernels::linear_vector::shape(&PLAIN, loads, Processor::Cpu, None);
    for (workgroups, wanted) in [(65535, [65535, 1]), (65536, [65535, 2])] {
        assert_eq!(grid(1, workgroups * shape.strips * 4), wanted);
        assert_eq!(grid(5, workgroups * 64), wanted);
    }
}
