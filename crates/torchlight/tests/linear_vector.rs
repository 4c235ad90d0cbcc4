//! The kernel of few rows by itself against its f64 reference: each norm and ending, in every shape that some device takes.

mod harness;

use harness::compare;
use harness::dispatch::dispatch;
use harness::{bytes, gpu, modest_gpu, random, rng};
use torchlight::kernels::LinearProblem;
use torchlight::kernels::linear::{Alignment, Ending, Form, Loads, WeightType};
use torchlight::kernels::linear_vector::{self, Reduction, Shape};
use torchlight::kernels::quantised::Packing;
use torchlight::kernels::sdpa_streaming::Processor;
use torchlight::reference::linear_vector::{Operands, Weight, reference};

const EPS: f32 = 1e-5;

/// A layer and what it reads, seeded.
struct Layer {
    problem: LinearProblem,
    x: Vec<f32>,
    norm: Vec<f32>,
    floats: Vec<f32>,
    numbers: Vec<u8>,
    scales: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
}

impl Layer {
    fn random(problem: LinearProblem) -> Self {
        let rng = &mut rng(&format!("{problem:?}"));
        let LinearProblem { rows, in_features, out_features, weight, .. } = problem;
        let [rows, inputs, outputs] = [rows, in_features, out_features].map(|size| size as usize);
        let products = problem.weight_rows() as usize;
        let (floats, numbers, groups) = match weight {
            WeightType::F32 => (products * inputs, 0, 0),
            WeightType::Q4 { group } => (0, products * inputs / 2, inputs / group as usize),
        };
        Self {
            problem,
            x: random(rng, rows * inputs),
            norm: random(rng, inputs),
            floats: random(rng, floats),
            numbers: (0..numbers).map(|_| rng.u8(..)).collect(),
            // Values from -1 to 1.
            scales: (0..groups * products).map(|_| (rng.f32() - 0.5) / 4.0).collect(),
            bias: random(rng, products),
            residual: random(rng, rows * outputs),
        }
    }

    fn wanted(&self) -> Vec<f64> {
        let problem = &self.problem;
        let operands = Operands {
            x: &self.x,
            norm: problem.has_norm.then_some((&self.norm, EPS)),
            weight: match problem.weight {
                WeightType::F32 => Weight::F32(&self.floats),
                WeightType::Q4 { .. } => Weight::Q4 { numbers: &self.numbers, scales: &self.scales },
            },
            bias: problem.has_bias.then_some(&self.bias),
            residual: (problem.ending == Ending::Add).then_some(&self.residual),
        };
        reference(problem, operands)
    }

    /// The result on a device, in some shape.
    fn run(&self, loads: Loads, shape: Shape) -> Vec<f32> {
        let problem = &self.problem;
        let gpu = if shape.reduction == Reduction::Memory { modest_gpu() } else { gpu() };
        let form = Form { loads, ..Form::of(problem) };
        let shape = Shape { group: problem.weight.group(), ..shape };
        let variant = linear_vector::variant(form, shape);
        let x = bytes(&self.x);
        let [norm, floats, scales, bias, residual] =
            [&self.norm, &self.floats, &self.scales, &self.bias, &self.residual].map(|values| bytes(values));
        // The place of what a layer does not have takes x.
        let or_x = |is_there, bytes| if is_there { bytes } else { x.as_slice() };
        let is_q4 = problem.weight != WeightType::F32;
        let inputs = [
            &x,
            or_x(problem.has_norm, &norm),
            if is_q4 { &self.numbers } else { &floats },
            or_x(is_q4, &scales),
            or_x(problem.has_bias, &bias),
            or_x(problem.ending == Ending::Add, &residual),
        ];
        let params = linear_vector::params(problem, if problem.has_norm { EPS } else { 0.0 });
        let workgroups = linear_vector::workgroups(problem, shape);
        dispatch(gpu, (&variant, workgroups), &params, &inputs, (problem.rows * problem.out_features) as usize)
    }

    /// A result that is right, by loads and a shape.
    #[track_caller]
    fn check(&self, loads: Loads, shape: Shape) {
        let case = format!("{:?}, {loads:?}, {shape:?}", self.problem);
        compare::assert_close(case, &self.run(loads, shape), &self.wanted(), compare::F32);
    }

    /// The shape of the device that runs the test, as a plan asks for it.
    #[track_caller]
    fn check_planned(&self) {
        let loads = Form::of(&self.problem).loads;
        self.check(loads, linear_vector::shape(&self.problem, loads, Processor::Cpu, Some(8)));
    }
}

const PLAIN: LinearProblem = LinearProblem {
    rows: 1,
    in_features: 64,
    out_features: 12,
    weight: WeightType::F32,
    has_bias: false,
    has_norm: false,
    ending: Ending::Plain,
};

/// What may stand before and behind a product: each of it, and some together.
const WAYS: [(bool, bool, Ending); 4] = [
    (true, false, Ending::Plain),
    (false, true, Ending::Add),
    (true, false, Ending::Add),
    (true, true, Ending::SwiGlu),
];

/// One of everything that decides what a variant is, over small sizes: its loads, and with them a weight.
const WEIGHTS: [(Loads, WeightType, [u32; 2]); 5] = [
    (Loads::F32(Alignment::Four), WeightType::F32, [36, 12]),
    (Loads::F32(Alignment::One), WeightType::F32, [67, 5]),
    (Loads::Q4(Packing::Loads), WeightType::Q4 { group: 32 }, [96, 20]),
    (Loads::Q4(Packing::Words), WeightType::Q4 { group: 8 }, [72, 12]),
    (Loads::Q4(Packing::Any), WeightType::Q4 { group: 10 }, [30, 7]),
];

#[test]
fn norms_and_endings_agree_with_the_reference() {
    for (loads, weight, [in_features, out_features]) in WEIGHTS {
        for (rows, (has_norm, has_bias, ending)) in (1..).zip(WAYS) {
            let problem = LinearProblem { rows, in_features, out_features, weight, has_norm, has_bias, ending };
            assert_eq!(Form::of(&problem).loads, loads);
            Layer::random(problem).check_planned();
        }
    }
}

#[test]
fn shapes_of_other_devices_agree_with_the_reference() {
    let memory = Shape {
        rows: 1,
        strips: 2,
        lanes: 32,
        words: 1,
        turns: 1,
        most_workgroups: None,
        group: 1,
        reduction: Reduction::Memory,
    };
    let wide = Shape { strips: 1, lanes: 96, turns: 2, reduction: Reduction::Subgroups(8), ..memory };
    let keeping = Shape { lanes: 32, turns: 3, most_workgroups: Some(3), ..wide };
    for (loads, weight, [in_features, out_features]) in WEIGHTS {
        let problem = LinearProblem { weight, in_features: in_features * 5, out_features, ..PLAIN };
        let gated = LinearProblem { has_norm: true, has_bias: true, ending: Ending::SwiGlu, ..problem };
        let added = LinearProblem { rows: 3, ending: Ending::Add, ..problem };
        Layer::random(gated).check(loads, memory);
        Layer::random(added).check(loads, Shape { rows: 4, ..wide });
        Layer::random(gated).check(loads, keeping);
        Layer::random(added).check(loads, Shape { rows: 4, turns: 2, lanes: 64, ..keeping });
    }
    // Loads of several words, past the end of the row in its last turn.
    let weight = WeightType::Q4 { group: 32 };
    let problem = LinearProblem { in_features: 32 * 9, out_features: 100, weight, has_norm: true, ..PLAIN };
    let layer = Layer::random(problem);
    for (words, turns, most_workgroups) in [(2, 1, None), (4, 2, None), (2, 3, Some(4)), (4, 2, Some(2))] {
        layer.check(Loads::Q4(Packing::Loads), Shape { lanes: 8, strips: 4, words, turns, most_workgroups, ..wide });
    }
}

#[test]
fn norms_of_tiny_and_huge_rows_agree_with_the_reference() {
    let problem = LinearProblem { has_norm: true, ..PLAIN };
    for factor in [0.0, 1e-20, 1e-3, 1e3, 1e15] {
        let mut layer = Layer::random(problem);
        layer.x.iter_mut().for_each(|x| *x *= factor);
        layer.check_planned();
    }
}

#[test]
fn what_is_no_number_stays_in_its_row() {
    for (loads, weight, [in_features, out_features]) in WEIGHTS {
        for ending in [Ending::Add, Ending::SwiGlu] {
            let problem = LinearProblem { rows: 3, weight, in_features, out_features, has_norm: true, ending, ..PLAIN };
            let mut layer = Layer::random(problem);
            // The second row of x, and the second row of the weight.
            let inputs = in_features as usize;
            layer.x[inputs..2 * inputs].fill(f32::NAN);
            layer.floats.iter_mut().skip(inputs).take(inputs).for_each(|value| *value = f32::INFINITY);
            let rows = problem.weight_rows() as usize;
            layer.scales.iter_mut().skip(1).step_by(rows).for_each(|scale| *scale = f32::NAN);
            let got = layer.run(loads, linear_vector::shape(&problem, loads, Processor::Cpu, Some(8)));
            for (index, (got, wanted)) in got.into_iter().zip(layer.wanted()).enumerate() {
                let [row, output] = [index as u32 / out_features, index as u32 % out_features];
                let case = format!("{problem:?}, row {row}, output {output}");
                match (row, output) {
                    // An infinite gate may be one of nothing.
                    (0 | 2, 1) if ending == Ending::SwiGlu => assert!(!got.is_finite() || got == 0.0, "{case}: {got}"),
                    (1, _) | (_, 1) => assert!(!got.is_finite(), "{case}: {got}"),
                    _ => compare::assert_close(case, &[got], &[wanted], compare::F32),
                }
            }
        }
    }
}
