//! The device: the only module that says `wgpu::`.

mod adapter;
mod clock;
mod command;
mod encode;
mod engine;
mod parts;
mod pipelines;
mod readback;
mod timestamps;

pub use adapter::{AdapterChoice, Gpu, GpuOptions, LimitsChoice};
pub(crate) use clock::Clock;
pub use command::{Command, Place, QueryPair, Sink};
pub(crate) use encode::passes;
pub use encode::{Download, QUERIES_PER_SET, encode, query_pair};
pub(crate) use engine::{Engine, EngineOptions, Pending, Run, Submitted};
pub use pipelines::BoundsChecks;
pub(crate) use timestamps::Stamps;
