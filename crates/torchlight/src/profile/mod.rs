//! What kernels cost: samples from GPU timestamps, as plain data.

mod sample;
mod summary;
mod switch;

pub use sample::{Quality, RunProfile, Sample, TickPair, TimestampMode};
pub use summary::{KernelSummary, Profile};
pub use switch::{TIMESTAMP_QUERY_VARIABLE, parse_switch};
