//! What a session does, as plain data: buffers, dispatches and where their params come from.
//!
//! [`Plan::new`] turns a graph and the facts of a device into a plan. It knows no GPU, and two equal plans do equal
//! things; everything that a device would refuse is refused here, with the numbers.

mod builder;
mod display;
mod facts;
mod launch;
mod limits;
mod memory;
mod route;

pub use facts::{DeviceFacts, DeviceLimits};
pub use launch::{Attention, Described, Launch};
pub use route::Route;

use crate::error::Result;
use crate::graph::{Graph, TensorId};
use crate::kernels::Variant;

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
    /// The route of attention that it belongs to, for operators that have routes.
    pub route: Option<Route>,
    /// How params and grid follow from live shapes.
    pub launch: Launch,
    /// Workgroups with every size at its upper bound.
    pub max_workgroups: u64,
}

/// One step of a run, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A kernel launch; its params slot is the number of dispatches before it.
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
    /// What a run does, in order.
    pub steps: Vec<Step>,
    /// The largest number of workgroups along one dimension of a grid.
    pub max_workgroups_per_dimension: u32,
}

impl Plan {
    /// Plans a graph for a device.
    ///
    /// # Errors
    /// [`Error::Limits`](crate::Error::Limits) where a buffer, a workgroup or a grid exceeds what the device allows.
    pub fn new(graph: &Graph<'_>, facts: &DeviceFacts) -> Result<Self> {
        builder::build(graph, facts)
    }

    /// The dispatches, in order.
    pub fn dispatches(&self) -> impl Iterator<Item = &Dispatch> {
        self.steps.iter().filter_map(|step| match step {
            Step::Dispatch(dispatch) => Some(dispatch),
            Step::Copy { .. } => None,
        })
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
