//! The kernel of few rows by itself against its f64 reference: each norm and ending, in every shape that some device takes.

mod harness;

use harness::compare::{self, Tolerance};
use harness::dispatch::dispatch;
use harness::{bytes, gpu, modest_gpu, random, rng};
use torchlight::kernels::LinearProblem;
use torchlight::kernels::linear::{Ending, Form, Loads, WeightType};
use torchlight::kernels::linear_vector::{self, Reduction, Shape};
use torchlight::reference::linear_vector::{Operands, Weight, reference};

/// Sums of many products in f32.
const SUMS: Tolerance = Tolerance { absolute: 1e-4, relative: 1e-3 };

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

    #[track_caller]
    fn check(&self, loads: Loads, shape: Shape) {
        let case = format!("{:?}, {loads:?}, {shape:?}", self.problem);
        compare::assert_close(case, &self.run(loads, shape), &self.wanted(), SUMS);
    }

    /// The shapes that devices with and without subgroups take, for this many rows and for the most.
    fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for rows in [self.problem.rows, 4] {
            let most = LinearProblem { rows, ..self.problem };
            shapes.extend([None, Some(8)].map(|subgroup| linear_vector::shape(&most, subgroup)));
        }
        shapes.dedup();
        shapes
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

/// All that may stand before and behind a product.
fn all_ways(problem: LinearProblem) -> Vec<LinearProblem> {
    let mut ways = Vec::new();
    for ending in [Ending::Plain, Ending::Add, Ending::SwiGlu] {
        for (has_norm, has_bias) in [(false, false), (true, false), (false, true), (true, true)] {
            ways.push(LinearProblem { has_norm, has_bias, ending, ..problem });
        }
    }
    ways
}

#[test]
fn norms_and_endings_agree_with_the_reference() {
    let q4 = |group| WeightType::Q4 { group };
    for (weight, in_features, out_features) in
        [(WeightType::F32, 36, 12), (WeightType::F32, 67, 5), (q4(32), 96, 20), (q4(10), 30, 7)]
    {
        for (index, problem) in
            all_ways(LinearProblem { weight, in_features, out_features, ..PLAIN }).iter().enumerate()
        {
            let layer = Layer::random(LinearProblem { rows: 1 + index as u32 % 4, ..*problem });
            layer.shapes().into_iter().for_each(|shape| layer.check(Form::of(problem).loads, shape));
        }
    }
}
