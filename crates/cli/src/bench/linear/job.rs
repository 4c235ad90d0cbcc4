//! A linear layer on the device: checked, then timed.
//!
//! The time of a layer is that of a pass over many, divided: what a model pays for each. They write one result after the other
//! to the same place, so that none begins before the one before has ended, as in a model.

use anyhow::{Context, Result};
use torchlight::graph::{self, Around, Norm, Quantised, TensorId, Weight};
use torchlight::kernels::LinearProblem;
use torchlight::kernels::linear::{Ending, WeightType};
use torchlight::plan::LinearRoute;
use torchlight::reference::linear_vector::{self, Operands};
use torchlight::{DType, Gpu, Graph, GraphBuilder, Input, Plan, Session, SessionOptions, TensorView, reference};

use super::super::check::Checked;
use super::super::data::floats;
use super::super::timing::{PassTimes, Passes, rounds};
use super::layers::{Layer, Weights};

/// Products that the reference computes at most for a check: a fraction of a second.
const BUDGET: u32 = 1 << 24;
const EPS: f32 = 1e-5;

/// What to time, and how thoroughly.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) layer: &'a Layer,
    pub(crate) weights: &'a Weights,
    pub(crate) options: SessionOptions,
    /// How often the pass is timed.
    pub(crate) repeats: u32,
    /// Whether two sets are enough.
    pub(crate) is_smoke: bool,
}

/// A layer that ran correctly, and about how long it took.
pub(crate) struct Correct {
    pub(crate) checked: Checked,
    estimate_ns: f64,
}

/// What was found of a correct layer.
pub(crate) struct Timed {
    /// Microseconds of a layer within a pass, one value a repeat.
    pub(crate) amortised_us: Vec<f64>,
    pub(crate) passes: PassTimes,
    pub(crate) steps: usize,
    pub(crate) sets: usize,
    pub(crate) rotated_bytes: u64,
}

/// The route that a layer takes, found without a byte of its weight, or why it cannot be served.
pub(crate) fn planned_route(gpu: &Gpu, layer: &Layer, options: SessionOptions) -> torchlight::Result<LinearRoute> {
    let mut graph = GraphBuilder::new("layer without a weight");
    let inputs = inputs(&mut graph, layer)?;
    let [weight, scales] = weight_dims(&layer.problem);
    let weight = match layer.problem.weight {
        WeightType::F32 => Weight::F32(graph.static_input(DType::F32, &weight)?),
        WeightType::Q4 { group } => {
            let (weight, scales) = (graph.static_input(DType::U8, &weight)?, graph.static_input(DType::F32, &scales)?);
            Weight::Q4(Quantised { weight, scales, group })
        }
    };
    step(&mut graph, layer, (&inputs, weight))?;
    let plan = Plan::new(&graph.finish()?, gpu.facts(), options.plan())?;
    // A plan has every route that some run takes: of a fixed number of rows there is one.
    let route = plan.linears.first().and_then(|choice| choice.rules.choose(&choice.largest).ok());
    Ok(route.unwrap_or(LinearRoute::Tile))
}

/// What every step reads besides a weight.
struct Inputs {
    x: TensorId,
    norm: Option<TensorId>,
    residual: Option<TensorId>,
}

fn inputs(graph: &mut GraphBuilder<'_>, layer: &Layer) -> torchlight::Result<Inputs> {
    let LinearProblem { rows, in_features, out_features, has_norm, ending, .. } = layer.problem;
    let x = graph.static_input(DType::F32, &[rows, in_features])?;
    let norm = has_norm.then(|| graph.static_input(DType::F32, &[in_features])).transpose()?;
    let residual =
        (ending == Ending::Add).then(|| graph.static_input(DType::F32, &[rows, out_features])).transpose()?;
    Ok(Inputs { x, norm, residual })
}

/// Shapes of a weight, and of its scales.
fn weight_dims(problem: &LinearProblem) -> [[u32; 2]; 2] {
    let (columns, rows) = (problem.in_features, problem.weight_rows());
    match problem.weight {
        WeightType::F32 => [[rows, columns], [1, 1]],
        WeightType::Q4 { group } => [[rows, columns / 2], [columns / group, rows]],
    }
}

fn step(
    graph: &mut GraphBuilder<'_>,
    layer: &Layer,
    (inputs, weight): (&Inputs, Weight),
) -> torchlight::Result<TensorId> {
    let ending = match (layer.problem.ending, inputs.residual) {
        (Ending::SwiGlu, _) => graph::Ending::SwiGlu,
        (Ending::Add, Some(residual)) => graph::Ending::Add(residual),
        (Ending::Add | Ending::Plain, _) => graph::Ending::Plain,
    };
    let norm = inputs.norm.map(|weight| Norm { weight, eps: EPS });
    graph.projection(inputs.x, weight, Around { norm, bias: None, ending })
}

impl Job<'_> {
    /// A graph of some steps that go round over sets of weights. Each is a tensor that nobody reads, but the last with an
    /// output.
    fn graph(&self, sets: usize, steps: usize) -> torchlight::Result<(Graph<'_>, TensorId)> {
        let mut graph = GraphBuilder::new("layers over rotated weights");
        let inputs = inputs(&mut graph, self.layer)?;
        let [weight_dims, scale_dims] = weight_dims(&self.layer.problem);
        let mut weights = Vec::new();
        for set in 0..sets {
            let [weight, scales] = self.weights.set(set);
            weights.push(match self.layer.problem.weight {
                WeightType::F32 => Weight::F32(graph.constant(DType::F32, &weight_dims, weight)?),
                WeightType::Q4 { group } => {
                    let weight = graph.constant(DType::U8, &weight_dims, weight)?;
                    Weight::Q4(Quantised { weight, scales: graph.constant(DType::F32, &scale_dims, scales)?, group })
                }
            });
        }
        let mut last = inputs.x;
        for index in 0..steps {
            last = step(&mut graph, self.layer, (&inputs, weights[index % sets]))?;
        }
        Ok((graph.finish()?, last))
    }

    /// The inputs' values: x, the norm's weight and the residual, all of them numbers between -1 and 1.
    fn values(&self) -> [Vec<f32>; 3] {
        let LinearProblem { rows, in_features, out_features, .. } = self.layer.problem;
        [rows * in_features, in_features, rows * out_features].map(|count| self.weights.floats(count))
    }

    /// Runs the layer and holds it against f64.
    pub(crate) fn verify(&self, route: LinearRoute) -> Result<Correct> {
        let (mut graph, out) = self.graph(1, 1)?;
        graph.outputs.push(torchlight::graph::GraphOutput::Tensor {
            tensor: out,
            host_dtype: DType::F32,
            mutates_input: None,
        });
        let mut session = Session::new(self.gpu, &graph, self.options)?;
        let values = self.values();
        let inputs = self.inputs(&values)?;
        let outputs = session.run(&inputs)?;
        let got = outputs.first().and_then(|output| output.tensor()).context("the layer gave no tensor")?.to_f32()?;
        let checked = self.check(&values, &got, route);
        let estimate_ns = Passes::new(self.gpu, session, &inputs)?.estimate()?.max(1.0);
        Ok(Correct { checked, estimate_ns })
    }

    fn inputs<'v>(&self, [x, norm, residual]: &'v [Vec<f32>; 3]) -> torchlight::Result<Vec<Input<'v>>> {
        let LinearProblem { rows, in_features, out_features, has_norm, ending, .. } = self.layer.problem;
        let mut inputs = vec![Input::Host(TensorView::f32(&[rows, in_features], x)?)];
        if has_norm {
            inputs.push(Input::Host(TensorView::f32(&[in_features], norm)?));
        }
        if ending == Ending::Add {
            inputs.push(Input::Host(TensorView::f32(&[rows, out_features], residual)?));
        }
        Ok(inputs)
    }

    /// Holds a result against f64: all of a small layer, of a large one some rows and elements of each, spread evenly.
    fn check(&self, [x, norm, residual]: &[Vec<f32>; 3], got: &[f32], route: LinearRoute) -> Checked {
        let problem = self.layer.problem;
        let LinearProblem { in_features, out_features, .. } = problem;
        let rows = spread(problem.rows, 8);
        let products = BUDGET / in_features / rows.len() as u32 / (problem.weight_rows() / out_features);
        let elements = spread(out_features, products.max(8));
        let pick = |values: &[f32], width: u32, rows: &[u32]| -> Vec<f32> {
            rows.iter().flat_map(|&row| values[(row * width) as usize..][..width as usize].iter().copied()).collect()
        };
        let part = LinearProblem { rows: rows.len() as u32, out_features: elements.len() as u32, ..problem };
        let x = pick(x, in_features, &rows);
        let of_part = |values: &[f32]| -> Vec<f32> {
            let of_row = |&row: &u32| elements.iter().map(move |element| (row * out_features + element) as usize);
            rows.iter().flat_map(of_row).map(|index| values[index]).collect()
        };
        let weight_rows: Vec<u32> = match problem.ending {
            Ending::Plain | Ending::Add => elements.clone(),
            Ending::SwiGlu => elements.iter().copied().chain(elements.iter().map(|row| out_features + row)).collect(),
        };
        let gathered = Gathered::new(&problem, self.weights.set(0), &weight_rows);
        let residual = of_part(residual);
        let operands = Operands {
            x: &x,
            norm: problem.has_norm.then_some((norm.as_slice(), EPS)),
            weight: gathered.weight(),
            bias: None,
            residual: (problem.ending == Ending::Add).then_some(&residual),
        };
        let wanted = linear_vector::reference(&part, operands);
        let (mut error, mut square) = (0.0, 0.0);
        for (wanted, got) in wanted.iter().zip(of_part(got)) {
            error += (wanted - f64::from(got)).powi(2);
            square += wanted * wanted;
        }
        // Elements that were not computed again are at least numbers.
        let rel_l2 = if got.iter().all(|value| value.is_finite()) { f64::sqrt(error / square) } else { f64::NAN };
        // What rounding explains: matrices take x and weights in f16.
        let tolerance = if route == LinearRoute::Matrix { 4e-3 } else { 1e-5 };
        Checked { rows: rows.len(), rel_l2, tolerance }
    }

    /// Times a layer that was found correct. `warm` is called when all is built, before the clock counts.
    pub(crate) fn time(&self, correct: &Correct, warm: impl FnOnce() -> Result<()>) -> Result<Timed> {
        let is_cpu = self.gpu.facts().is_cpu;
        let (sets, steps) = match self.is_smoke {
            true => (2, 2),
            false => rounds(self.weights.sets, correct.estimate_ns, is_cpu),
        };
        let (graph, _) = self.graph(sets, steps)?;
        let session = Session::new(self.gpu, &graph, self.options)?;
        let values = self.values();
        let passes = Passes::new(self.gpu, session, &self.inputs(&values)?)?.time(self.repeats, warm)?;
        let amortised_us = passes.ns.iter().map(|ns| ns / 1000.0 / steps as f64).collect();
        Ok(Timed { amortised_us, passes, steps, sets, rotated_bytes: self.weights.rotated_bytes(sets) })
    }
}

/// So many of the first numbers at most, evenly from the first to the last.
fn spread(count: u32, most: u32) -> Vec<u32> {
    let picked = count.min(most);
    let last = u64::from(picked.saturating_sub(1).max(1));
    (0..u64::from(picked)).map(|index| (index * u64::from(count - 1) / last) as u32).collect()
}

/// Some rows of a weight.
enum Gathered {
    F32(Vec<f32>),
    Q4 { numbers: Vec<u8>, scales: Vec<f32> },
}

impl Gathered {
    fn new(problem: &LinearProblem, [weight, scales]: [&[u8]; 2], rows: &[u32]) -> Self {
        let row_bytes = weight.len() / problem.weight_rows() as usize;
        let of_rows = rows.iter().flat_map(|&row| &weight[row as usize * row_bytes..][..row_bytes]).copied();
        match problem.weight {
            WeightType::F32 => Self::F32(floats(&of_rows.collect::<Vec<u8>>()).collect()),
            WeightType::Q4 { .. } => {
                let scales: Vec<f32> = floats(scales).collect();
                let groups = scales.chunks_exact(problem.weight_rows() as usize);
                let scales = groups.flat_map(|group| rows.iter().map(|&row| group[row as usize])).collect();
                Self::Q4 { numbers: of_rows.collect(), scales }
            }
        }
    }

    fn weight(&self) -> reference::linear_vector::Weight<'_> {
        match self {
            Self::F32(values) => linear_vector::Weight::F32(values),
            Self::Q4 { numbers, scales } => linear_vector::Weight::Q4 { numbers, scales },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_spread_from_the_first_to_the_last() {
        assert_eq!(spread(1, 8), [0]);
        assert_eq!(spread(3, 8), [0, 1, 2]);
        assert_eq!(spread(101, 3), [0, 50, 100]);
    }
}
