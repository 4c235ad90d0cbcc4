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
    /// The fewest rows and the most of a run that it serves.
    pub rows: [u32; 2],
}

/// The kernels of linear layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearKernel {
    /// Few rows.
    Vector(linear_vector::Shape),
    /// The norm in front, for routes that do not compute it themselves.
    Norm(rms_norm::Cut),
    /// Many rows, on every device.
    Tile(linear_tile::Shape),
    /// Many rows, on cooperative matrices.
    Matrix(linear_matrix::Shape),
}

impl LinearKernel {
    /// The route that it belongs to; nothing for a norm, which belongs to several.
    const fn route(self) -> Option<LinearRoute> {
        match self {
            Self::Vector(_) => Some(LinearRoute::Vector),
            Self::Norm(_) => None,
            Self::Tile(_) => Some(LinearRoute::Tile),
            Self::Matrix(_) => Some(LinearRoute::Matrix),
        }
    }
}

impl LinearLaunch {
    /// Writes the params of a run and returns the number of workgroups: 0 where another kernel takes it.
    pub(super) fn resolve(&self, live: &Live, slot: &mut [u8]) -> u64 {
        let problem = self.layer.problem(live);
        if !self.serves(&problem) {
            return 0;
        }
        let eps = self.layer.norm_eps.unwrap_or(0.0);
        match self.kernel {
            LinearKernel::Norm(cut) => write(slot, &rms_norm::params(rows(&problem), cut, eps)),
            _ => write(slot, &linear::params(&problem, eps)),
        }
        self.workgroups(&problem)
    }

    /// Whether a run of a problem launches it.
    fn serves(&self, problem: &LinearProblem) -> bool {
        let [least, most] = self.rows;
        // A route that was asked for and does not serve was refused before.
        let Ok(route) = self.rules.choose(problem) else { return false };
        let is_own = match self.kernel.route() {
            Some(own) => own == route,
            None => route != LinearRoute::Vector,
        };
        is_own && least <= problem.rows && problem.rows <= most
    }

    fn workgroups(&self, problem: &LinearProblem) -> u64 {
        match self.kernel {
            LinearKernel::Vector(shape) => linear_vector::workgroups(problem, shape),
            LinearKernel::Norm(_) => rms_norm::workgroups(rows(problem)),
            LinearKernel::Tile(shape) => linear_tile::workgroups(problem, shape),
            LinearKernel::Matrix(shape) => linear_matrix::workgroups(problem, shape),
        }
    }

    /// The route whose runs launch it; nothing for a norm, which those of several do.
    pub const fn route(&self) -> Option<LinearRoute> {
        self.kernel.route()
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
            LinearKernel::Vector(_) => (format!("s{count} k{in_features} n{out_features}{numbers}"), problem.work()),
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
    rows: [u32; 2],
    variant: Variant,
    operands: Vec<Operand>,
}

/// The most rows of runs that share the shapes of their kernels. Beyond the last of them all do.
const CLASSES: [u32; 4] = [16, 64, 256, 1024];

impl Builder<'_, '_> {
    /// A linear layer by every route that some run can take.
    pub(super) fn projection(&mut self, node: u32, op: &Projection) -> Result<Vec<Draft>> {
        let layer = layer(op);
        let bound = |tensor| self.graph.tensor(tensor).bound;
        let largest = layer.of(bound(layer.x), bound(layer.weight));
        let smallest = LinearProblem { rows: if self.is_static(layer.x) { largest.rows } else { 1 }, ..largest };
        let sizes = if self.is_static(layer.weight) { WeightSizes::Planned } else { WeightSizes::Live };
        let rows = [smallest.rows, largest.rows];
        let problems = classes(&CLASSES, rows).into_iter().map(|class| LinearProblem { rows: class[1], ..largest });
        let problems: Vec<LinearProblem> = problems.collect();
        let rules = LinearRules::new(self.options, self.facts, (&problems, sizes));
        if let (Err(refusal), Err(_)) = (rules.choose(&smallest), rules.choose(&largest)) {
            return Err(unsupported(&self.graph.nodes[node as usize], &rules, &smallest, refusal));
        }
        let mut form = Form::of(&largest);
        if sizes == WeightSizes::Live {
            // Live sizes may be any.
            form.loads = Loads::any(layer.weight_type);
        }
        let mut kernels = self.vector(op, form, (&rules, &largest, rows));
        kernels.extend(self.many_rows(node, (op, form), (&rules, &largest, rows)));
        let draft = |Kernel { kernel, rows, variant, operands }: Kernel| {
            let launch = LinearLaunch { layer, rules, kernel, rows };
            Draft {
                variant,
                operands,
                alternative: None,
                max_workgroups: Some(launch.workgroups(&LinearProblem { rows: rows[1], ..largest })),
                launch: Launch::Linear(launch),
            }
        };
        let drafts = kernels.into_iter().map(draft).collect();
        self.linears.push(LinearChoice { node, layer, smallest, largest, rules });
        Ok(drafts)
    }

    /// One row, and few: a kernel for few rows would do too much for one.
    fn vector(&self, op: &Projection, form: Form, (rules, largest, rows): Runs<'_>) -> Vec<Kernel> {
        let smallest_subgroup = self.facts.subgroup_sizes.map(|[smallest, _]| smallest);
        let processor = if self.facts.is_cpu { Processor::Cpu } else { Processor::Gpu };
        let kernel = |rows: [u32; 2]| {
            let problem = LinearProblem { rows: rows[1], ..*largest };
            let shape = linear_vector::shape(&problem, form.loads, processor, smallest_subgroup);
            Kernel {
                kernel: LinearKernel::Vector(shape),
                rows,
                variant: linear_vector::variant(form, shape),
                operands: operands(op, Operand::Tensor(op.x)),
            }
        };
        let classes = classes(&[1, VECTOR_ROWS], rows).into_iter();
        classes.filter(|&class| rules.reaches(LinearRoute::Vector, largest, class)).map(kernel).collect()
    }

    /// Tiles or matrices of rows, which have gone through the norm before: of each class of runs in the shape that suits it.
    fn many_rows(&mut self, node: u32, (op, form): (&Projection, Form), runs: Runs<'_>) -> Vec<Kernel> {
        let (rules, largest, rows) = runs;
        let form = Form { has_norm: false, ..form };
        let mut shapes: Vec<(LinearKernel, Variant, [u32; 2])> = Vec::new();
        for route in [LinearRoute::Tile, LinearRoute::Matrix] {
            for class in classes(&CLASSES, rows).into_iter().filter(|&class| rules.reaches(route, largest, class)) {
                let (kernel, variant) = of_many(route, form, &LinearProblem { rows: class[1], ..*largest });
                match shapes.last_mut() {
                    Some((last, _, rows)) if *last == kernel => rows[1] = class[1],
                    _ => shapes.push((kernel, variant, class)),
                }
            }
        }
        if shapes.is_empty() {
            return Vec::new();
        }
        let (norm, x) = self.normed(node, op, largest);
        let kernel = |(kernel, variant, rows)| Kernel { kernel, rows, variant, operands: operands(op, x) };
        norm.into_iter().chain(shapes.into_iter().map(kernel)).collect()
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
            rows: [1, largest.rows],
            variant: rms_norm::variant(cut),
            operands: vec![x, Operand::Tensor(norm.weight), normed],
        };
        (Some(kernel), normed)
    }
}

/// The kernel of a route of many rows, in the shape that suits a problem.
fn of_many(route: LinearRoute, form: Form, problem: &LinearProblem) -> (LinearKernel, Variant) {
    match route {
        LinearRoute::Matrix => {
            let shape = linear_matrix::Shape::of(problem);
            (LinearKernel::Matrix(shape), linear_matrix::variant(form, shape))
        }
        LinearRoute::Tile | LinearRoute::Vector => {
            let shape = linear_tile::Shape::of(problem);
            (LinearKernel::Tile(shape), linear_tile::variant(form, shape))
        }
    }
}

/// The runs of a layer: how they are served, the largest of them, and the fewest rows and the most.
type Runs<'r> = (&'r LinearRules, &'r LinearProblem, [u32; 2]);

/// Numbers of rows from the fewest to the most in classes, each up to one of `ends`, or beyond the last.
fn classes(ends: &[u32], [least, most]: [u32; 2]) -> Vec<[u32; 2]> {
    let ends = ends.iter().copied().chain([u32::MAX]);
    let classes = ends.scan(0, |before, end| Some([std::mem::replace(before, end) + 1, end]));
    let inside = classes.map(|[first, last]| [first.max(least), last.min(most)]);
    inside.filter(|[first, last]| first <= last).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphBuilder;
    use crate::plan::{DeviceFacts, PARAMS_SLOT_BYTES, Plan, PlanOptions};
    use crate::tensor::DType;

    const ROWS: u32 = 1500;
    const FEATURES: u32 = 64;

    /// A layer of up to [`ROWS`] rows with a norm in front.
    fn with_norm(zeros: &[u8]) -> graph::Graph<'_> {
        let mut graph = GraphBuilder::new("layer");
        let x = graph.input(DType::F32, &[ROWS, FEATURES]).unwrap();
        let weight = graph.constant(DType::F32, &[FEATURES; 2], zeros).unwrap();
        let factors = graph.constant(DType::F32, &[FEATURES], &zeros[..4 * FEATURES as usize]).unwrap();
        let normed = graph.rms_norm(x, factors, 1e-5).unwrap();
        let out = graph.linear(normed, weight, None).unwrap();
        graph.output(out);
        let graph = graph.finish().unwrap();
        graph.fused(u64::MAX)
    }

    fn matrices() -> DeviceFacts {
        let mut facts = DeviceFacts {
            shader_f16: true,
            subgroup_sizes: Some([32, 32]),
            cooperative_matrix: true,
            ..DeviceFacts::webgpu_defaults()
        };
        facts.limits.max_compute_workgroup_storage_size = 49152;
        facts.limits.max_compute_invocations_per_workgroup = 1024;
        facts
    }

    #[test]
    fn every_number_of_rows_launches_one_kernel_and_perhaps_its_norm() {
        let zeros = vec![0; 4 * (FEATURES * FEATURES) as usize];
        let graph = with_norm(&zeros);
        for facts in [DeviceFacts::webgpu_defaults(), matrices()] {
            for linear in [None, Some(LinearRoute::Tile)] {
                let plan = Plan::new(&graph, &facts, PlanOptions { linear, ..PlanOptions::default() }).unwrap();
                let mut live = Live::new(&graph);
                for rows in 1..=ROWS {
                    live.set_dims(graph.inputs[0].tensor, Dims::new(&[rows, FEATURES]).unwrap());
                    let mut slot = [0; PARAMS_SLOT_BYTES as usize];
                    let launched = plan.dispatches().filter(|dispatch| dispatch.launch.resolve(&live, &mut slot) > 0);
                    let routes: Vec<Option<LinearRoute>> = launched.map(|dispatch| dispatch.linear_route()).collect();
                    let route = plan.linears[0].rules.choose(&plan.linears[0].layer.problem(&live)).unwrap();
                    let wanted = match route {
                        LinearRoute::Vector => vec![Some(route)],
                        _ => vec![None, Some(route)],
                    };
                    assert_eq!(routes, wanted, "{rows} rows on {}", facts.backend);
                }
            }
        }
    }

    #[test]
    fn classes_cover_every_number_once() {
        for rows in [[1, 1], [1, 4], [3, 5000], [17, 64], [1000, 1025]] {
            let classes = classes(&CLASSES, rows);
            assert_eq!((classes[0][0], classes[classes.len() - 1][1]), (rows[0], rows[1]));
            assert!(classes.windows(2).all(|pair| pair[0][1] + 1 == pair[1][0]), "{classes:?}");
        }
    }
}
