//! What kernels cost: samples from GPU timestamps, judged and summed up, as plain data.

mod compare;
pub mod export;
mod quality;
mod sample;
mod statistics;
mod summary;
mod switch;
#[cfg(test)]
pub(crate) mod testing;

pub use compare::{
    CompareError, CompareOptions, Comparison, Interval, KeyComparison, Note, Side, Total, Verdict, compare,
};
pub use quality::{Judged, Quality, Quantum, judge};
pub use sample::{DeviceClock, HostTimes, RunProfile, Sample, TickPair, Timed, TimestampMode, samples};
pub use statistics::{Durations, Key, RESERVOIR_CAPACITY};
pub use summary::{Adapter, KernelSummary, KeyStatistics, Peaks, Profile};
pub use switch::{TIMESTAMP_QUERY_VARIABLE, parse_switch};
