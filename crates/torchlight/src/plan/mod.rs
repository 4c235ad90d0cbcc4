//! What a session does, as plain data: buffers, dispatches and where their params come from.
//!
//! [`Plan::new`] turns a graph and the facts of a device into a plan. It knows no GPU, and two equal plans do equal
//! things; everything that a device would refuse is refused here, with the numbers.

mod aliases;
mod alternatives;
mod attention;
mod buffers;
mod builder;
mod caches;
mod display;
mod drafts;
mod embedding;
mod facts;
mod launch;
mod limits;
mod linear;
mod linear_route;
mod memory;
mod refusal;
mod rotary;
mod route;
mod stage;
mod table;

pub use attention::{Implementation, Rules};
pub use embedding::EmbeddingLaunch;
pub use facts::{DeviceFacts, DeviceLimits};
pub use launch::{Attention, Described, Launch};
pub use linear::{LinearKernel, LinearLaunch, LinearLayer};
pub use linear_route::{LinearChoice, LinearReasons, LinearRefusal, LinearRoute, LinearRules, WeightSizes};
pub use refusal::Refusal;
pub use rotary::RotaryLaunch;
pub use route::Route;
pub use stage::{Parts, Stage};
pub use table::{Table, Tokens};

use std::sync::Arc;

use crate::error::Result;
use crate::graph::{Graph, Live, TensorId};
use crate::kernels::sdpa_matrix::Scores;
use crate::kernels::{AttentionProblem, KvType, Variant};
use crate::tensor::DType;

/// Bytes from one params slot to the next: WebGPU's alignment of dynamic uniform offsets.
pub const PARAMS_SLOT_BYTES: u32 = 256;

/// A buffer of a [`Plan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

/// A kernel variant of a [`Plan`], and so a pipeline of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VariantId(pub u32);

impl BufferId {
    /// The position in [`Plan::buffers`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl VariantId {
    /// The position in [`Plan::variants`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The program's input of this index. It keeps its content until the input is given again.
    Input(usize),
    /// Bytes of the program, uploaded once. Equal constants share a buffer.
    Constant(TensorId),
    /// Bytes of the program that operators write: uploaded once, and again by a reset.
    State(TensorId),
    /// Whatever is live: tensors and scratch whose lifetimes do not meet share it.
    Shared,
    /// Counters of dispatches that join their own parts: zero at first, and after each run.
    Counters,
}

/// A buffer to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPlan {
    /// Its size, a multiple of 16: the widest load never crosses the end.
    pub size_bytes: u64,
    /// What it holds.
    pub role: Role,
}

/// One kernel launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// The kernel variant.
    pub variant: VariantId,
    /// The buffers at binding 1 and on.
    pub buffers: Vec<BufferId>,
    /// Index of the node in [`Graph::nodes`] that it serves.
    pub node: u32,
    /// The choice that it belongs to: it is launched where a run chooses its implementation.
    pub alternative: Option<Alternative>,
    /// How params and grid follow from live shapes.
    pub launch: Launch,
    /// Workgroups with every size at its upper bound.
    pub max_workgroups: u64,
}

/// One way of several to serve a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternative {
    /// Index in [`Plan::choices`].
    pub choice: u32,
    /// The implementation that it belongs to.
    pub implementation: Implementation,
}

/// A node that each run serves in one of several ways.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Index of the node in [`Graph::nodes`].
    pub node: u32,
    /// Where the sizes of a run are found.
    pub attention: Attention,
    /// The largest step.
    pub largest: AttentionProblem,
    /// How implementations are chosen.
    pub rules: Rules,
    /// The choice for every step.
    pub table: Arc<Table>,
}

/// How a plan is made, besides the graph and the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// The type of KV caches on the device.
    pub kv: KvType,
    /// The route that all attention takes; `None` chooses the fastest for each step.
    pub route: Option<Route>,
    /// How exactly scores over f16 caches are computed: in f16 the matrix route sums them in f16, and the streaming route
    /// rounds queries to f16.
    pub scores: Scores,
    /// The route that all linear layers take; `None` chooses the fastest for each run.
    pub linear: Option<LinearRoute>,
}

impl Dispatch {
    /// The route of attention that it belongs to, where it belongs to one.
    pub fn route(&self) -> Option<Route> {
        self.alternative.map(|alternative| alternative.implementation.route())
    }

    /// The route of a linear layer that it belongs to, where it belongs to one.
    pub fn linear_route(&self) -> Option<LinearRoute> {
        match &self.launch {
            Launch::Linear(launch) => launch.route(),
            _ => None,
        }
    }

    /// Whether it is launched in a run that chose so.
    pub fn is_chosen(&self, chosen: &[Implementation]) -> bool {
        self.alternative
            .is_none_or(|Alternative { choice, implementation }| chosen.get(choice as usize) == Some(&implementation))
    }
}

/// One step of a run, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A kernel launch; its params slot in a run is the number of launches before it.
    Dispatch(Dispatch),
    /// A copy between whole buffers.
    Copy {
        /// Read.
        from: BufferId,
        /// Written.
        to: BufferId,
        /// How much.
        size_bytes: u64,
        /// Index of the node in [`Graph::nodes`].
        node: u32,
    },
}

/// Everything a session makes and does.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Kernel variants, each once.
    pub variants: Vec<Variant>,
    /// Buffers.
    pub buffers: Vec<BufferPlan>,
    /// The buffer of each tensor that the GPU touches, by [`TensorId`].
    pub tensor_buffers: Vec<Option<BufferId>>,
    /// The element type of each tensor on the device, by [`TensorId`].
    pub tensor_dtypes: Vec<DType>,
    /// The nodes that can be served in several ways.
    pub choices: Vec<Choice>,
    /// The linear layers, each of which can be served by several routes.
    pub linears: Vec<LinearChoice>,
    /// What a run does, in order.
    pub steps: Vec<Step>,
    /// The largest number of workgroups along one dimension of a grid.
    pub max_workgroups_per_dimension: u32,
}

impl Plan {
    /// Plans a graph for a device.
    ///
    /// # Errors
    /// [`Error::Limits`](crate::Error::Limits) where a buffer, a workgroup or a grid exceeds what the device allows,
    /// [`Error::Unsupported`](crate::Error::Unsupported) where a route or a type of cache cannot serve the graph.
    pub fn new(graph: &Graph<'_>, facts: &DeviceFacts, options: PlanOptions) -> Result<Self> {
        builder::build(graph, facts, options)
    }

    /// The element type of a tensor on the device.
    pub fn dtype(&self, tensor: TensorId) -> DType {
        self.tensor_dtypes[tensor.index()]
    }

    /// Bytes of a tensor on the device, at its upper bound.
    pub fn size_bytes(&self, graph: &Graph<'_>, tensor: TensorId) -> u64 {
        graph.tensor(tensor).bound.elements().saturating_mul(self.dtype(tensor).size_bytes() as u64)
    }

    /// The dispatches, in order.
    pub fn dispatches(&self) -> impl Iterator<Item = &Dispatch> {
        self.steps.iter().filter_map(|step| match step {
            Step::Dispatch(dispatch) => Some(dispatch),
            Step::Copy { .. } => None,
        })
    }

    /// Chooses how each node is served in a run with these live sizes.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) where the route that was asked for cannot serve a step.
    pub fn choose(&self, graph: &Graph<'_>, live: &Live, chosen: &mut Vec<Implementation>) -> Result<()> {
        chosen.clear();
        for Choice { node, attention, rules, table, .. } in &self.choices {
            let problem = attention.problem(live);
            let refuse = |refusal| {
                let node = graph.nodes[*node as usize].id;
                alternatives::unsupported(node, rules, &problem, refusal)
            };
            chosen.push(table.look_up(&problem).map_err(refuse)?);
        }
        self.check_linears(graph, live)
    }

    /// Refuses a run in which a linear layer cannot take the route that was asked for.
    fn check_linears(&self, graph: &Graph<'_>, live: &Live) -> Result<()> {
        let refused = self.linears.iter().find_map(|LinearChoice { node, layer, rules, .. }| {
            let problem = layer.problem(live);
            let refusal = rules.choose(&problem).err()?;
            Some(linear_route::unsupported(&graph.nodes[*node as usize], rules, &problem, refusal))
        });
        refused.map_or(Ok(()), Err)
    }

    /// The variant of an id.
    pub fn variant(&self, id: VariantId) -> &Variant {
        &self.variants[id.index()]
    }

    /// Bytes of all buffers that are shared by lifetime.
    pub fn shared_bytes(&self) -> u64 {
        self.buffers.iter().filter(|buffer| buffer.role == Role::Shared).map(|buffer| buffer.size_bytes).sum()
    }
}
