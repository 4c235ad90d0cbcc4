//! The device: the only module that says `wgpu::`.

mod adapter;
mod ahead;
mod clock;
mod command;
mod compile;
mod encode;
mod encoder;
mod engine;
mod parts;
mod pending;
mod pipeline_cache;
mod pipelines;
mod readback;
mod scope;
mod timestamps;
mod upload;

pub use adapter::{AdapterChoice, Gpu, GpuOptions, LimitsChoice};
pub(crate) use clock::Clock;
pub use command::{Command, Place, QueryPair, Sink};
pub(crate) use encode::passes;
pub use encode::{Download, QUERIES_PER_SET, encode, query_pair};
pub(crate) use engine::{Engine, Run, Submitted};
pub(crate) use pending::{Arrived, Pending};
pub use pipelines::BoundsChecks;
pub(crate) use timestamps::Stamps;
pub(crate) use upload::PIECE_BYTES;
