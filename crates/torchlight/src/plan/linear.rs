//! Linear layers as dispatches: a vector kernel for few rows, a tile kernel for more, both where a run may have either.

use super::builder::{Builder, Draft, Operand};
use super::launch::{Described, Launch, write};
use crate::graph::{Linear, LinearQ4, Live, Quantised, TensorId};
use crate::kernels::linear::{self, Ending, Form, Loads, WeightType};
use crate::kernels::{LinearProblem, linear_tile, linear_vector};
use crate::tensor::Dims;

/// A kernel of a linear layer, and where it finds its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearLaunch {
    /// Rows to multiply.
    pub x: TensorId,
    /// A row for each output feature.
    pub weight: TensorId,
    /// The type of the weight.
    pub weight_type: WeightType,
    /// Whether a bias is added.
    pub has_bias: bool,
    /// The kernel.
    pub kernel: LinearKernel,
}

/// The kernels of linear layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearKernel {
    /// Few rows.
    Vector(linear_vector::Shape),
    /// Many rows.
    Tile(linear_tile::Shape),
}

impl LinearKernel {
    const fn is_vector(self) -> bool {
        matches!(self, Self::Vector(_))
    }
}

impl LinearLaunch {
    /// The problem of a run. Shapes were checked when they were inferred.
    fn problem(&self, live: &Live) -> LinearProblem {
        problem((live.dims(self.x), live.dims(self.weight)), self.weight_type, self.has_bias)
    }

    /// Writes the params of a run and returns the number of workgroups: 0 where the other kernel takes it.
    pub(super) fn resolve(&self, live: &Live, slot: &mut [u8]) -> u64 {
        let problem = self.problem(live);
        if problem.is_vector() != self.kernel.is_vector() {
            return 0;
        }
        write(slot, &linear::params(&problem, 0.0));
        self.workgroups(&problem)
    }

    fn workgroups(&self, problem: &LinearProblem) -> u64 {
        match self.kernel {
            LinearKernel::Vector(shape) => linear_vector::workgroups(problem, shape),
            LinearKernel::Tile(shape) => linear_tile::workgroups(problem, shape),
        }
    }

    pub(super) fn describe(&self, live: &Live) -> Described {
        let problem = self.problem(live);
        let LinearProblem { rows, in_features, out_features, weight, .. } = problem;
        let numbers = match weight {
            WeightType::F32 => String::new(),
            WeightType::Q4 { group } => format!(" g{group}"),
        };
        Described {
            shape: format!("s{rows} k{in_features} n{out_features}{numbers}"),
            context_len: None,
            work: problem.work(),
        }
    }
}

fn problem((x, rows): (Dims, Dims), weight: WeightType, has_bias: bool) -> LinearProblem {
    let in_features = x.as_slice().last().copied().unwrap_or(1);
    LinearProblem {
        rows: (x.elements() / u64::from(in_features)) as u32,
        in_features,
        out_features: rows.as_slice().first().copied().unwrap_or(1),
        weight,
        has_bias,
        has_norm: false,
        ending: Ending::Plain,
    }
}

/// The tensors of a linear layer, in the order of its kernels' bindings.
struct Tensors {
    x: TensorId,
    weight: TensorId,
    weight_type: WeightType,
    scales: Option<TensorId>,
    bias: Option<TensorId>,
    out: TensorId,
}

impl Builder<'_, '_> {
    pub(super) fn linear(&self, op: &Linear) -> Vec<Draft> {
        let &Linear { x, weight, bias, out } = op;
        self.routes(&Tensors { x, weight, weight_type: WeightType::F32, scales: None, bias, out })
    }

    pub(super) fn linear_q4(&self, op: &LinearQ4) -> Vec<Draft> {
        let &LinearQ4 { x, weight: Quantised { weight, scales, group }, bias, out } = op;
        let weight_type = WeightType::Q4 { group };
        self.routes(&Tensors { x, weight, weight_type, scales: Some(scales), bias, out })
    }

    /// The kernels, few rows first, that some run can take.
    fn routes(&self, tensors: &Tensors) -> Vec<Draft> {
        let &Tensors { x, weight, weight_type, scales, bias, out } = tensors;
        let bound = |tensor| self.graph.tensor(tensor).bound;
        let largest = problem((bound(x), bound(weight)), weight_type, bias.is_some());
        let mut form = Form::of(&largest);
        if !self.is_static(weight) {
            // Live sizes may be any.
            form.loads = Loads::any(weight_type);
        }
        let shape = linear_vector::shape(&largest, self.facts.subgroup_sizes.map(|[smallest, _]| smallest));
        let draft = |(kernel, variant, operands): (_, _, Vec<TensorId>)| {
            let launch = LinearLaunch { x, weight, weight_type, has_bias: bias.is_some(), kernel };
            Draft {
                variant,
                operands: operands.into_iter().map(Operand::Tensor).collect(),
                alternative: None,
                max_workgroups: Some(launch.workgroups(&largest)),
                launch: Launch::Linear(launch),
            }
        };
        // The place of a tensor that a layer does not have takes any that is read.
        let operands = vec![x, x, weight, scales.unwrap_or(x), bias.unwrap_or(x), x, out];
        let mut drafts = Vec::new();
        if largest.is_vector() || !self.is_static(x) {
            drafts.push(draft((LinearKernel::Vector(shape), linear_vector::variant(form, shape), operands.clone())));
        }
        if !largest.is_vector() {
            let shape = linear_tile::Shape::of(&largest);
            drafts.push(draft((LinearKernel::Tile(shape), linear_tile::variant(form, shape), operands)));
        }
        drafts
    }
}
