//! Runs programs that ExecuTorch delegates to the GPU on any GPU, through WebGPU, and shows what every kernel costs.
//!
//! The way of the data: bytes → [`Program`] → [`Graph`] → [`Plan`] → [`Session`] → outputs and a [`Profile`]. All but
//! the session is plain data. See [`Session`] for an example.

/// Opens a span for the rest of the scope, where the feature `tracing` is on.
macro_rules! span {
    ($name:literal) => {
        #[cfg(feature = "tracing")]
        let _span = tracing::debug_span!(target: "torchlight", $name).entered();
    };
}

mod error;
pub mod gpu;
pub mod graph;
pub mod kernels;
pub mod plan;
pub mod profile;
pub mod reference;
mod session;
mod tensor;

pub use error::{Error, Result};
pub use gpu::{AdapterChoice, Gpu, GpuOptions, LimitsChoice};
pub use graph::{Graph, GraphBuilder};
pub use plan::{DeviceFacts, Plan, Route};
pub use profile::{Profile, RunProfile, Sample, TimestampMode};
pub use session::{
    Attention, AttentionShape, Generator, Input, Loading, Output, Session, SessionOptions, WarmUp, calibrate_async,
    warm_up_async,
};
#[cfg(not(target_arch = "wasm32"))]
pub use session::{calibrate, warm_up};
pub use tensor::{DType, Dims, HostTensor, MAX_RANK, TensorView};
pub use torchlight_pte::{FlatTensor, Program};
