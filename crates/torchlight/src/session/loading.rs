//! How far a session has come while it is made.

use crate::plan::Plan;

/// What was reached while a session is made, for [`Session::new_with_progress`](super::Session::new_with_progress): a plan, then
/// pipeline after pipeline, then piece after piece of the program's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Loading<'p> {
    /// The plan is made. Whoever has threads may share out its variants among calls of `Gpu::compile_blocking` now: the
    /// session takes the pipelines that are there, and makes the others one by one.
    Planned(&'p Plan),
    /// So many of the plan's pipelines are made.
    Compiled {
        /// Made, or known from another session.
        pipelines: usize,
        /// All that the plan needs.
        all: usize,
    },
    /// So much of the program's constants was handed to the device.
    Uploaded {
        /// Bytes of the program so far.
        bytes: u64,
        /// All that the plan uploads.
        all_bytes: u64,
    },
}
