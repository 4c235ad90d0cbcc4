//! The kernels of many rows by themselves against their f64 reference: tiles in every shape and with every kind of load, and
//! matrices where the device has them.

mod harness;

use harness::compare::{self, Tolerance};
use harness::dispatch::dispatch;
use harness::{bytes, gpu, modest_gpu, random, rng};
use torchlight::kernels::linear::{self, Ending, Form, Loads, WeightType};
use torchlight::kernels::{LinearProblem, linear_matrix, linear_tile};
use torchlight::reference::linear_vector::{Operands, Weight};
use torchlight::reference::{linear_matrix as matrix_reference, linear_tile as tile_reference};

/// Sums of many products in f32.
const SUMS: Tolerance = Tolerance { absolute: 1e-4, relative: 1e-3 };

/// How far a row may be off by matrices, as a part of its norm: x and weight are rounded to f16.
const ROUNDED: f64 = 2e-3;

/// A way to compute a layer.
#[derive(Clone, Copy, Debug)]
enum Way {
    Tile(linear_tile::Shape, Loads),
    Matrix(linear_matrix::Shape),
}

/// A layer and what it reads, seeded.
struct Layer {
    problem: LinearProblem,
    x: Vec<f32>,
    floats: Vec<f32>,
    numbers: Vec<u8>,
    scales: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
}

const PLAIN: LinearProblem = LinearProblem {
    rows: 5,
    in_features: 64,
    out_features: 12,
    weight: WeightType::F32,
    has_bias: false,
    has_norm: false,
    ending: Ending::Plain,
};

const ENDINGS: [Ending; 3] = [Ending::Plain, Ending::Add, Ending::SwiGlu];

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
            floats: random(rng, floats),
            numbers: (0..numbers).map(|_| rng.u8(..)).collect(),
            // Values from -1 to 1.
            scales: (0..groups * products).map(|_| (rng.f32() - 0.5) / 4.0).collect(),
            bias: random(rng, products),
            residual: random(rng, rows * outputs),
        }
    }

    fn row_of_x(&mut self, row: usize) -> &mut [f32] {
        let columns = self.problem.in_features as usize;
        &mut self.x[row * columns..][..columns]
    }

    /// Makes a row of the weight one that is no number.
    fn spoil_weight_row(&mut self, row: usize) {
        let (columns, rows) = (self.problem.in_features as usize, self.problem.weight_rows() as usize);
        match self.problem.weight {
            WeightType::F32 => self.floats[row * columns..][..columns].fill(f32::NAN),
            WeightType::Q4 { .. } => self.scales.iter_mut().skip(row).step_by(rows).for_each(|scale| *scale = f32::NAN),
        }
    }

    fn operands(&self) -> Operands<'_> {
        let problem = &self.problem;
        Operands {
            x: &self.x,
            norm: None,
            weight: match problem.weight {
                WeightType::F32 => Weight::F32(&self.floats),
                WeightType::Q4 { .. } => Weight::Q4 { numbers: &self.numbers, scales: &self.scales },
            },
            bias: problem.has_bias.then_some(&self.bias),
            residual: (problem.ending == Ending::Add).then_some(&self.residual),
        }
    }

    fn wanted(&self, way: Way) -> Vec<f64> {
        match way {
            Way::Tile(..) => tile_reference::reference(&self.problem, self.operands()),
            Way::Matrix(_) => matrix_reference::reference(&self.problem, self.operands()),
        }
    }

    fn run(&self, way: Way) -> Vec<f32> {
        let problem = &self.problem;
        let form = Form::of(problem);
        let (gpu, variant, workgroups) = match way {
            Way::Tile(shape, loads) => {
                let variant = linear_tile::variant(Form { loads, ..form }, shape);
                (modest_gpu(), variant, linear_tile::workgroups(problem, shape))
            }
            Way::Matrix(shape) => {
                (gpu(), linear_matrix::variant(form, shape), linear_matrix::workgroups(problem, shape))
            }
        };
        let [x, floats, scales, bias, residual] =
            [&self.x, &self.floats, &self.scales, &self.bias, &self.residual].map(|values| bytes(values));
        // The place of what a layer does not have takes x.
        let or_x = |is_there, bytes| if is_there { bytes } else { x.as_slice() };
        let is_q4 = problem.weight != WeightType::F32;
        let inputs = [
            &x,
            &x,
            if is_q4 { &self.numbers } else { &floats },
            or_x(is_q4, &scales),
            or_x(problem.has_bias, &bias),
            or_x(problem.ending == Ending::Add, &residual),
        ];
        let elements = (problem.rows * problem.out_features) as usize;
        dispatch(gpu, (&variant, workgroups), &linear::params(problem, 0.0), &inputs, elements)
    }

    /// Ways that serve: tiles of both shapes, with loads as wide as possible and as narrow; where the device has matrices,
    /// the shape that fits and another one, which depends on the layer.
    fn ways(&self) -> Vec<Way> {
        let problem = &self.problem;
        let many_rows = LinearProblem { rows: 1 << 20, ..*problem };
        let shapes = [problem, &many_rows].map(linear_tile::Shape::of);
        assert_ne!(shapes[0], shapes[1], "two shapes of tiles");
        let widest = Form::of(problem).loads;
        let mut ways = vec![Way::Tile(shapes[0], widest), Way::Tile(shapes[1], widest)];
        if Loads::any(problem.weight) != widest {
            ways.push(Way::Tile(shapes[0], Loads::any(problem.weight)));
        }
        if gpu().facts().cooperative_matrix && linear_matrix::suits(problem) {
            let shapes: Vec<_> = linear_matrix::Shape::all(problem.ending).collect();
            let other = shapes[(problem.rows + problem.in_features / 4) as usize % shapes.len()];
            ways.extend([linear_matrix::Shape::of(problem), other].map(Way::Matrix));
        }
        ways
    }

    fn check(&self) {
        for way in self.ways() {
            let (case, got) = (format!("{:?}, {way:?}", self.problem), self.run(way));
            match way {
                Way::Tile(..) => compare::assert_close(case, &got, &self.wanted(way), SUMS),
                Way::Matrix(_) => self.assert_rows_close(&case, &got, &self.wanted(way)),
            }
        }
    }

    /// Holds each row against its norm. What is not finite must be so in both.
    #[track_caller]
    fn assert_rows_close(&self, case: &str, got: &[f32], wanted: &[f64]) {
        let width = self.problem.out_features as usize;
        for (row, (got, wanted)) in got.chunks(width).zip(wanted.chunks(width)).enumerate() {
            let (mut error, mut norm) = (0.0, 0.0);
            for (output, (&got, &wanted)) in got.iter().zip(wanted).enumerate() {
                let same = (got.is_nan(), got.is_finite()) == (wanted.is_nan(), wanted.is_finite());
                assert!(same, "{case}: row {row}, output {output}: {got}, wanted {wanted}");
                if wanted.is_finite() {
                    error += (f64::from(got) - wanted).powi(2);
                    norm += wanted.powi(2);
                }
            }
            assert!(error.sqrt() <= ROUNDED * norm.sqrt(), "{case}: row {row} is off by {}", (error / norm).sqrt());
        }
    }
}

const fn q4(group: u32) -> WeightType {
    WeightType::Q4 { group }
}

/// Weights, columns and outputs: whole tiles, and sizes that divide by no tile, no lot of columns or no load.
const SIZES: [(WeightType, [u32; 2]); 10] = [
    (WeightType::F32, [64, 64]),
    (WeightType::F32, [36, 20]),
    (WeightType::F32, [132, 68]),
    (WeightType::F32, [67, 5]),
    (WeightType::F32, [3, 65]),
    (q4(32), [96, 64]),
    (q4(8), [40, 20]),
    (q4(64), [320, 132]),
    (q4(10), [30, 7]),
    (q4(6), [66, 65]),
];

/// Holds layers of all sizes, with one ending, against the reference.
fn check_ending(ending: Ending) {
    for (index, (weight, [in_features, out_features])) in SIZES.into_iter().enumerate() {
        let rows = [5, 33, 70][index % 3];
        let sizes = LinearProblem { rows, in_features, out_features, ..PLAIN };
        Layer::random(LinearProblem { weight, has_bias: index % 2 == 0, ending, ..sizes }).check();
    }
}

#[test]
fn products_agree_with_the_reference() {
    check_ending(Ending::Plain);
}

#[test]
fn products_with_a_residual_agree_with_the_reference() {
    check_ending(Ending::Add);
}

#[test]
fn gated_products_agree_with_the_reference() {
    check_ending(Ending::SwiGlu);
}

#[test]
fn every_shape_of_matrices_agrees_with_the_reference() {
    if !gpu().facts().cooperative_matrix {
        return;
    }
    for (weight, ending) in [(WeightType::F32, Ending::Add), (q4(32), Ending::SwiGlu)] {
        let sizes = LinearProblem { rows: 130, in_features: 288, out_features: 100, ..PLAIN };
        let layer = Layer::random(LinearProblem { weight, ending, has_bias: true, ..sizes });
        for way in linear_matrix::Shape::all(ending).map(Way::Matrix) {
            layer.assert_rows_close(&format!("{:?}, {way:?}", layer.problem), &layer.run(way), &layer.wanted(way));
        }
    }
}

#[test]
fn layers_of_a_model_agree_with_the_reference() {
    for (in_features, out_features, ending) in
        [(576, 960, Ending::Plain), (576, 576, Ending::Add), (192, 512, Ending::SwiGlu)]
    {
        let layer = LinearProblem { rows: 40, in_features, out_features, weight: q4(32), ending, ..PLAIN };
        Layer::random(layer).check();
    }
}

#[test]
fn what_is_no_number_stays_in_its_row_and_column() {
    for (weight, [in_features, out_features]) in [SIZES[1], SIZES[3], SIZES[6], SIZES[8]] {
        for ending in ENDINGS {
            let problem = LinearProblem { rows: 9, in_features, out_features, weight, ending, ..PLAIN };
            let mut layer = Layer::random(problem);
            layer.row_of_x(4).fill(f32::NAN);
            layer.row_of_x(6)[1] = f32::INFINITY;
            // Of the gate, where there is one.
            layer.spoil_weight_row(2);
            for way in layer.ways() {
                let (case, got) = (format!("{problem:?}, {way:?}"), layer.run(way));
                let wanted = layer.wanted(way);
                let is_sound = |index: usize| {
                    let [row, output] = [index / out_features as usize, index % out_features as usize];
                    row != 4 && row != 6 && output != 2
                };
                for (index, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                    let sound = is_sound(index) || wanted.is_finite();
                    assert_eq!(got.is_finite(), sound, "{case}: element {index} is {got}, wanted {wanted}");
                }
                if let Way::Tile(..) = way {
                    let sound = |values: Vec<f64>| -> Vec<f64> {
                        values.into_iter().enumerate().filter(|(index, _)| is_sound(*index)).map(|(_, it)| it).collect()
                    };
                    let got: Vec<f32> = sound(compare::widen(&got)).into_iter().map(|value| value as f32).collect();
                    compare::assert_close(case, &got, &sound(wanted), SUMS);
                }
            }
        }
    }
}

#[test]
fn values_beyond_f16_are_right_by_every_way() {
    for (weight, [in_features, out_features]) in [SIZES[2], SIZES[7]] {
        for ending in ENDINGS {
            let problem = LinearProblem { rows: 20, in_features, out_features, weight, ending, ..PLAIN };
            let mut layer = Layer::random(problem);
            // One element just beyond, a row far beyond, a row below.
            layer.row_of_x(1)[3] = 65520.0;
            layer.row_of_x(2).iter_mut().for_each(|x| *x *= 1e7);
            layer.row_of_x(3).iter_mut().for_each(|x| *x *= 1e-3);
            layer.check();
        }
    }
    // A weight beyond it, too.
    let mut layer = Layer::random(LinearProblem { rows: 6, ..PLAIN });
    layer.floats[70] = -1e5;
    layer.check();
}
