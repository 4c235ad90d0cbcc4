//! The device: the only module that says `wgpu::`.

mod adapter;
mod command;
mod encode;
mod engine;
mod pipelines;
mod readback;
mod timestamps;

pub use adapter::{AdapterChoice, Gpu, GpuOptions, LimitsChoice};
pub use command::{Command, Place, QueryPair, Sink};
pub use encode::{Download, QUERIES_PER_SET, encode, query_pair};
pub(crate) use engine::{Engine, Pending, Run};
