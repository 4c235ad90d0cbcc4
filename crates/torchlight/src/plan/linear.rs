//! Linear layers as dispatches: a vector kernel for few rows, a tile kernel for more, both where a run may have either.

use super::builder::{Builder, Draft, Operand};
use super::launch::{Described, Launch, write};
use crate::graph::{Linear, LinearQ4, Live, TensorId};
use crate::kernels::linear::{self, Alignment, Ending, Form, Loads, VECTOR_ROWS, WeightType};
use crate::kernels::linear_tile::Shape;
use crate::kernels::quantised::Packing;
use crate::kernels::{LinearProblem, Variant, linear_q4_vector, linear_tile, linear_vector};
use crate::tensor::Dims;

/// A kernel of a linear layer, and where it finds its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearLaunch {
    /// Rows to multiply.
    pub x: TensorId,
    /// A row for each output feature.
    pub weight: TensorId,
    /// Whether a bias is added.
    pub has_bias: bool,
    /// The kernel.
    pub kernel: LinearKernel,
}

/// The kernels of linear layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearKernel {
    /// Few rows, f32 weight.
    Vector,
    /// Many rows, f32 weight.
    Tile(Shape),
    /// Few rows, 4-bit weight in groups of so many columns.
    Q4Vector(u32),
    /// Many rows, 4-bit weight in groups of so many columns.
    Q4Tile(u32, Shape),
}

impl LinearKernel {
    const fn is_vector(self) -> bool {
        matches!(self, Self::Vector | Self::Q4Vector(_))
    }

    const fn weight(self) -> WeightType {
        match self {
            Self::Vector | Self::Tile(_) => WeightType::F32,
            Self::Q4Vector(group) | Self::Q4Tile(group, _) => WeightType::Q4 { group },
        }
    }
}

impl LinearLaunch {
    /// The problem of a run. Shapes were checked when they were inferred.
    fn problem(&self, live: &Live) -> LinearProblem {
        problem((live.dims(self.x), live.dims(self.weight)), self.kernel.weight(), self.has_bias)
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
            LinearKernel::Vector => linear_vector::workgroups(problem),
            LinearKernel::Tile(shape) | LinearKernel::Q4Tile(_, shape) => linear_tile::workgroups(problem, shape),
            LinearKernel::Q4Vector(_) => linear_q4_vector::workgroups(problem),
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
    scales: Option<TensorId>,
    bias: Option<TensorId>,
    out: TensorId,
}

impl Builder<'_, '_> {
    pub(super) fn linear(&self, op: &Linear) -> Vec<Draft> {
        let tensors = Tensors { x: op.x, weight: op.weight, scales: None, bias: op.bias, out: op.out };
        let largest = self.largest(&tensors, WeightType::F32);
        let alignment = match self.is_static(op.weight) {
            true => Alignment::of(largest.in_features, largest.out_features),
            // Live sizes may be any.
            false => Alignment::One,
        };
        let vector = linear_vector::variant(alignment, largest.rows.min(VECTOR_ROWS));
        let shape = Shape::of(&largest);
        let form = Form { loads: Loads::F32(alignment), has_norm: false, ending: Ending::Plain };
        let tile = linear_tile::variant(form, shape);
        self.routes(&tensors, [(LinearKernel::Vector, vector), (LinearKernel::Tile(shape), tile)])
    }

    pub(super) fn linear_q4(&self, op: &LinearQ4) -> Vec<Draft> {
        let weight = op.weight;
        let scales = Some(weight.scales);
        let tensors = Tensors { x: op.x, weight: weight.weight, scales, bias: op.bias, out: op.out };
        let largest = self.largest(&tensors, WeightType::Q4 { group: weight.group });
        let packing = match self.is_static(weight.weight) {
            true => Packing::of(largest.in_features, largest.out_features, weight.group),
            false => Packing::Any,
        };
        let vector = linear_q4_vector::variant(packing, largest.rows.min(VECTOR_ROWS));
        let shape = Shape::of(&largest);
        let form = Form { loads: Loads::Q4(packing), has_norm: false, ending: Ending::Plain };
        let tile = linear_tile::variant(form, shape);
        let kernels = (LinearKernel::Q4Vector(weight.group), LinearKernel::Q4Tile(weight.group, shape));
        self.routes(&tensors, [(kernels.0, vector), (kernels.1, tile)])
    }

    /// The problem with every size at its upper bound.
    fn largest(&self, tensors: &Tensors, weight: WeightType) -> LinearProblem {
        let bound = |tensor| self.graph.tensor(tensor).bound;
        problem((bound(tensors.x), bound(tensors.weight)), weight, tensors.bias.is_some())
    }

    /// The kernels, few rows first, that some run can take.
    fn routes(&self, tensors: &Tensors, kernels: [(LinearKernel, Variant); 2]) -> Vec<Draft> {
        let &Tensors { x, weight, scales, bias, out } = tensors;
        let largest = self.largest(tensors, kernels[0].0.weight());
        let is_static = self.is_static(x);
        let can_run = |kernel: LinearKernel| match kernel.is_vector() {
            true => largest.is_vector() || !is_static,
            false => !largest.is_vector(),
        };
        let draft = |(kernel, variant)| {
            let launch = LinearLaunch { x, weight, has_bias: bias.is_some(), kernel };
            // What is not there takes any tensor that is read.
            let operands: Vec<TensorId> = match kernel.is_vector() {
                true => [x, weight].into_iter().chain(scales).chain([bias.unwrap_or(x), out]).collect(),
                false => [x, x, weight, scales.unwrap_or(x), bias.unwrap_or(x), x, out].into(),
            };
            Draft {
                variant,
                operands: operands.into_iter().map(Operand::Tensor).collect(),
                alternative: None,
                max_workgroups: Some(launch.workgroups(&largest)),
                launch: Launch::Linear(launch),
            }
        };
        kernels.into_iter().filter(|(kernel, _)| can_run(*kernel)).map(draft).collect()
    }
}
