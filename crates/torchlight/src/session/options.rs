//! How a session is made, and the one place that reads the environment.

use crate::error::Result;
use crate::gpu::BoundsChecks;
use crate::graph::Fusion;
use crate::kernels::KvType;
use crate::kernels::linear::Products;
use crate::kernels::sdpa_matrix::Scores;
use crate::plan::{LinearRoute, PlanOptions, Route};
use crate::profile::{TIMESTAMP_QUERY_VARIABLE, TimestampMode, parse_switch};

/// How a session is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// Where timestamps are taken.
    pub timestamps: TimestampMode,
    /// How many samples are kept for [`Session::take_profile`](super::Session::take_profile): those of the latest runs.
    /// Runs beyond that are counted, and stay in the statistics.
    pub profile_samples: usize,
    /// Which kernels the compiler checks the bounds of.
    pub checks: BoundsChecks,
    /// The type in which the device keeps KV caches. The caller gives and gets f32 all the same.
    pub kv: KvType,
    /// The route that all attention takes; `None` chooses the fastest for each step.
    pub route: Option<Route>,
    /// How exactly scores over f16 caches are computed: in f16 the matrix route sums them in f16, and the streaming route
    /// rounds queries to f16.
    pub scores: Scores,
    /// The type in which linear layers of many rows multiply: f16 is faster where the device has cooperative matrices, and rounds.
    pub products: Products,
    /// The route that all linear layers take; `None` chooses the fastest for each run.
    pub linear: Option<LinearRoute>,
    /// Whether operators are fused before they are planned.
    pub fusion: Fusion,
}

impl Default for SessionOptions {
    /// No timestamps, caches of f32, the fastest routes, operators fused.
    fn default() -> Self {
        Self {
            timestamps: TimestampMode::Off,
            profile_samples: 1 << 18,
            checks: BoundsChecks::default(),
            kv: KvType::F32,
            route: None,
            scores: Scores::default(),
            products: Products::default(),
            linear: None,
            fusion: Fusion::default(),
        }
    }
}

impl SessionOptions {
    /// Pass timestamps where the environment variable `WEBGPU_TIMESTAMP_QUERY` is on, else the defaults.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) where the variable's value means neither on nor off.
    pub fn from_env() -> Result<Self> {
        let value = std::env::var_os(TIMESTAMP_QUERY_VARIABLE).map(|value| value.to_string_lossy().into_owned());
        let on = parse_switch(value.as_deref())?;
        Ok(Self { timestamps: if on { TimestampMode::Pass } else { TimestampMode::Off }, ..Self::default() })
    }

    /// What the plan is made by.
    pub fn plan(&self) -> PlanOptions {
        PlanOptions {
            kv: self.kv,
            route: self.route,
            scores: self.scores,
            products: self.products,
            linear: self.linear,
        }
    }
}
