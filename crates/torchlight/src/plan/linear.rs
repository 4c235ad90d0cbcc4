//! Linear layers as dispatches: those of every route that some run can take.

use super::buffers::Scratch;
use super::builder::{Builder, Draft, Operand};
use super::launch::{Described, Launch, write};
use super::linear_route::{LinearChoice, LinearRoute, LinearRules, WeightSizes, unsupported};
use crate::error::Result;
use crate::graph::{self, Live, Projection, TensorId, Weight};
use crate::kernels::linear::{self, Ending, Form, Loads, VECTOR_ROWS, WeightType};
use crate::kernels::sdpa_streaming::Processor;
use crate::kernels::{LinearProblem, Variant, linear_matrix, linear_tile, linear_vector, rms_norm};
use crate::tensor::Dims;

/// Where a linear layer finds its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearLayer {
    /// Rows to multiply.
    pub x: TensorId,
    /// A row for each element of a row of the product.
    pub weight: TensorId,
    /// The type of the weight.
    pub weight_type: WeightType,
    /// Whether a bias is added.
    pub has_bias: bool,
    /// What is added to the mean squares of the norm in front, where there is one.
    pub norm_eps: Option<f32>,
    /// What becomes of the product.
    pub ending: Ending,
}

impl LinearLayer {
    /// The problem of a run. Shapes were checked when they were inferred.
    pub fn problem(&self, live: &Live) -> LinearProblem {
        self.of(live.dims(self.x), live.dims(self.weight))
    }

    fn of(&self, x: Dims, weight: Dims) -> LinearProblem {
        let in_features = x.as_slice().last().copied().unwrap_or(1);
        let products = weight.as_slice().first().copied().unwrap_or(1);
        LinearProblem {
            rows: (x.elements() / u64::from(in_features.max(1))) as u32,
            in_features,
            out_features: match self.ending {
                Ending::Plain | Ending::Add => products,
                Ending::SwiGlu => products / 2,
            },
            weight: self.weight_type,
            has_bias: self.has_bias,
            has_norm: self.norm_eps.is_some(),
            ending: self.ending,
        }
    }
}

/// A kernel of a linear layer, and when it is launched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearLaunch {
    /// The layer.
    pub layer: LinearLayer,
    /// How routes are chosen.
    pub rules: LinearRules,
    /// The kernel.
    pub kernel: LinearKernel,
}

/// The kernels of linear layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearKernel {
    /// Few rows: from so many on, and as many as the shape has.
    Vector(linear_vector::Shape, u32),
    /// The norm in front, for routes that do not compute it themselves.
    Norm(rms_norm::Cut),
    /// Many rows, on every device.
    Tile(linear_tile::Shape),
    /// Many rows, on cooperative matrices.
    Matrix(linear_matrix::Shape),
}

impl LinearKernel {
    /// Whether it is launched where a run takes a route.
    const fn serves(self, route: LinearRoute, rows: u32) -> bool {
        match (self, route) {
            (Self::Vector(shape, least), LinearRoute::Vector) => least <= rows && rows <= shape.rows,
            (Self::Norm(_), LinearRoute::Tile | LinearRoute::Matrix) => true,
            (Self::Tile(_), LinearRoute::Tile) | (Self::Matrix(_), LinearRoute::Matrix) => true,
            (Self::Vector(..) | Self::Norm(_) | Self::Tile(_) | Self::Matrix(_), _) => false,
        }
    }
}

impl LinearLaunch {
    /// Writes the params of a run and returns the number of workgroups: 0 where another kernel takes it.
    pub(super) fn resolve(&self, live: &Live, slot: &mut [u8]) -> u64 {
        let problem = self.layer.problem(live);
        // A route that was asked for and does not serve was refused before.
        if !self.rules.choose(&problem).is_ok_and(|route| self.kernel.serves(route, problem.rows)) {
            return 0;
        }
        let eps = self.layer.norm_eps.unwrap_or(0.0);
        match self.kernel {
            LinearKernel::Norm(cut) => write(slot, &rms_norm::params(rows(&problem), cut, eps)),
            _ => write(slot, &linear::params(&problem, eps)),
        }
        self.workgroups(&problem)
    }

    fn workgroups(&self, problem: &LinearProblem) -> u64 {
        match self.kernel {
            LinearKernel::Vector(shape, _) => linear_vector::workgroups(problem, shape),
            LinearKernel::Norm(_) => rms_norm::workgroups(rows(problem)),
            LinearKernel::Tile(shape) => linear_tile::workgroups(problem, shape),
            LinearKernel::Matrix(shape) => linear_matrix::workgroups(problem, shape),
        }
    }

    /// The route whose runs launch it; nothing for a norm, which several launch.
    pub fn route(&self) -> Option<LinearRoute> {
        match self.kernel {
            LinearKernel::Vector(..) => Some(LinearRoute::Vector),
            LinearKernel::Norm(_) => None,
            LinearKernel::Tile(_) => Some(LinearRoute::Tile),
            LinearKernel::Matrix(_) => Some(LinearRoute::Matrix),
        }
    }

    pub(super) fn describe(&self, live: &Live) -> Described {
        let problem = self.layer.problem(live);
        let LinearProblem { rows: count, in_features, out_features, weight, .. } = problem;
        let numbers = match weight {
            WeightType::F32 => String::new(),
            WeightType::Q4 { group } => format!(" g{group}"),
        };
        let (shape, work) = match self.kernel {
            LinearKernel::Norm(_) => (format!("s{count} k{in_features}"), rms_norm::work(rows(&problem))),
            LinearKernel::Vector(..) => (format!("s{count} k{in_features} n{out_features}{numbers}"), problem.work()),
            // Their norm is a dispatch of its own.
            LinearKernel::Tile(_) | LinearKernel::Matrix(_) => {
                let work = LinearProblem { has_norm: false, ..problem }.work();
                (format!("s{count} k{in_features} n{out_features}{numbers}"), work)
            }
        };
        Described { shape, context_len: None, work }
    }
}

/// The rows that a norm in front has.
const fn rows(problem: &LinearProblem) -> rms_norm::Rows {
    rms_norm::Rows { rows: problem.rows, width: problem.in_features }
}

/// A kernel of a layer with the tensors that it touches.
struct Kernel {
    kernel: LinearKernel,
    variant: Variant,
    operands: Vec<Operand>,
}

impl Builder<'_, '_> {
    /// A linear layer by every route that some run can take.
    pub(super) fn projection(&mut self, node: u32, op: &Projection) -> Result<Vec<Draft>> {
        let layer = layer(op);
        let bound = |tensor| self.graph.tensor(tensor).bound;
        let largest = layer.of(bound(layer.x), bound(layer.weight));
        let smallest = LinearProblem { rows: if self.is_static(layer.x) { largest.rows } else { 1 }, ..largest };
        let sizes = if self.is_static(layer.weight) { WeightSizes::Planned } else { WeightSizes::Live };
        let rules = LinearRules::new(self.options, self.facts, (&largest, sizes));
        if let (Err(refusal), Err(_)) = (rules.choose(&smallest), rules.choose(&largest)) {
            return Err(unsupported(&self.graph.nodes[node as usize], &rules, &smallest, refusal));
        }
        let mut form = Form::of(&largest);
        if sizes == WeightSizes::Live {
            // Live sizes may be any.
            form.loads = Loads::any(layer.weight_type);
        }
        let mut kernels = Vec::new();
        if rules.reaches(LinearRoute::Vector, [&smallest, &largest]) {
            kernels.extend(self.vector(op, form, [&smallest, &largest]));
        }
        kernels.extend(self.many_rows(node, (op, form), &rules, [&smallest, &largest]));
        let draft = |Kernel { kernel, variant, operands }: Kernel| {
            let launch = LinearLaunch { layer, rules, kernel };
            Draft {
                variant,
                operands,
                alternative: None,
                max_workgroups: Some(launch.workgroups(&largest)),
                launch: Launch::Linear(launch),
            }
        };
        let drafts = kernels.into_iter().map(draft).collect();
        self.linears.push(LinearChoice { node, layer, smallest, largest, rules });
        Ok(drafts)
    }

    /// One row, and few: a kernel for few rows would do too much for one.
    fn vector(&self, op: &Projection, form: Form, [smallest, largest]: [&LinearProblem; 2]) -> Vec<Kernel> {
        let smallest_subgroup = self.facts.subgroup_sizes.map(|[smallest, _]| smallest);
        let processor = if self.facts.is_cpu { Processor::Cpu } else { Processor::Gpu };
        let kernel = |[least, most]: [u32; 2]| {
            let problem = LinearProblem { rows: most.min(largest.rows), ..*largest };
            let shape = linear_vector::shape(&problem, form.loads, processor, smallest_subgroup);
            Kernel {
                kernel: LinearKernel::Vector(shape, least),
                variant: linear_vector::variant(form, shape),
                operands: operands(op, Operand::Tensor(op.x)),
            }
        };
        let is_reached = |[least, most]: &[u32; 2]| smallest.rows <= *most && *least <= largest.rows;
        [[1, 1], [2, VECTOR_ROWS]].into_iter().filter(is_reached).map(kernel).collect()
    }

    /// Tiles or matrices of rows, which have gone through the norm before.
    fn many_rows(
        &mut self,
        node: u32,
        (op, form): (&Projection, Form),
        rules: &LinearRules,
        sizes: [&LinearProblem; 2],
    ) -> Vec<Kernel> {
        let reached: Vec<LinearRoute> =
            [LinearRoute::Tile, LinearRoute::Matrix].into_iter().filter(|&route| rules.reaches(route, sizes)).collect();
        if reached.is_empty() {
            return Vec::new();
        }
        let (norm, x) = self.normed(node, op, sizes[1]);
        let form = Form { has_norm: false, ..form };
        let kernel = |route| {
            let (kernel, variant) = match route {
                LinearRoute::Matrix => {
                    let shape = linear_matrix::Shape::of(sizes[1]);
                    (LinearKernel::Matrix(shape), linear_matrix::variant(form, shape))
                }
                LinearRoute::Tile | LinearRoute::Vector => {
                    let shape = linear_tile::Shape::of(sizes[1]);
                    (LinearKernel::Tile(shape), linear_tile::variant(form, shape))
                }
            };
            Kernel { kernel, variant, operands: operands(op, x) }
        };
        norm.into_iter().chain(reached.into_iter().map(kernel)).collect()
    }

    /// The norm in front of a layer as a dispatch into scratch, and the rows that the layer then reads.
    fn normed(&mut self, node: u32, op: &Projection, largest: &LinearProblem) -> (Option<Kernel>, Operand) {
        let x = Operand::Tensor(op.x);
        let Some(norm) = op.norm else { return (None, x) };
        let id = self.graph.nodes[node as usize].id;
        self.scratch.push(Scratch {
            size_bytes: 4 * u64::from(largest.rows) * u64::from(largest.in_features),
            what: format!(
                "{} (node {id}): {} normed rows",
                self.graph.nodes[node as usize].operator.name(),
                largest.rows
            ),
            hint: String::new(),
        });
        let normed = Operand::Scratch(self.scratch.len() - 1);
        let is_static = self.is_static(norm.weight);
        let cut = if is_static { rms_norm::Cut::new(largest.in_features) } else { rms_norm::Cut::ANY };
        let kernel = Kernel {
            kernel: LinearKernel::Norm(cut),
            variant: rms_norm::variant(cut),
            operands: vec![x, Operand::Tensor(norm.weight), normed],
        };
        (Some(kernel), normed)
    }
}

/// Where an operator finds its sizes.
fn layer(op: &Projection) -> LinearLayer {
    LinearLayer {
        x: op.x,
        weight: op.weight.rows(),
        weight_type: match op.weight {
            Weight::F32(_) => WeightType::F32,
            Weight::Q4(quantised) => WeightType::Q4 { group: quantised.group },
        },
        has_bias: op.bias.is_some(),
        norm_eps: op.norm.map(|norm| norm.eps),
        ending: match op.ending {
            graph::Ending::Plain => Ending::Plain,
            graph::Ending::Add(_) => Ending::Add,
            graph::Ending::SwiGlu => Ending::SwiGlu,
        },
    }
}

/// The tensors of a linear layer in the order of its kernels' bindings. The place of one that it does not have takes x.
fn operands(op: &Projection, x: Operand) -> Vec<Operand> {
    let residual = match op.ending {
        graph::Ending::Add(residual) => Some(residual),
        graph::Ending::Plain | graph::Ending::SwiGlu => None,
    };
    let or_x = |tensor: Option<TensorId>| tensor.map_or(x, Operand::Tensor);
    let norm = or_x(op.norm.map(|norm| norm.weight));
    let weight = Operand::Tensor(op.weight.rows());
    vec![x, norm, weight, or_x(op.weight.scales()), or_x(op.bias), or_x(residual), Operand::Tensor(op.out)]
}
