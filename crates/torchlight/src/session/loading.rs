//! How far a session has come while it is made.

/// What was reached while a session is made, for [`Session::new_with_progress`](super::Session::new_with_progress): a plan, then
/// pipeline after pipeline, then piece after piece of the program's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loading {
    /// The plan is made.
    Planned,
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
