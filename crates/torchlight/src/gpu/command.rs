//! The commands of a run as plain data: all that ever reaches the device between two params writes.

use std::ops::Range;

use crate::plan::{BufferId, VariantId};

/// A buffer that a copy reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A buffer of the plan.
    Plan(BufferId),
    /// Where outputs are read by the host.
    Readback,
    /// Where query sets are resolved to.
    Queries,
    /// Where resolved queries are read by the host.
    QueryReadback,
}

/// A pair of queries of one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryPair {
    /// Which query set.
    pub set: u32,
    /// The query for the begin; the end is the next one.
    pub begin: u32,
}

/// One command of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins a compute pass.
    BeginPass {
        /// The queries that the pass writes at its begin and end.
        timestamps: Option<QueryPair>,
    },
    /// Sets the pipeline of a kernel variant.
    SetPipeline(VariantId),
    /// Sets the bind group of a dispatch, with the offset of its params slot.
    SetBindGroup {
        /// Number of the dispatch.
        dispatch: u32,
        /// Bytes from the start of the params buffer.
        params_offset: u32,
    },
    /// Writes a timestamp inside a pass.
    WriteTimestamp {
        /// Which query set.
        set: u32,
        /// Which query of it.
        query: u32,
    },
    /// Launches x by y workgroups.
    Dispatch {
        /// Workgroups along x.
        x: u32,
        /// Workgroups along y.
        y: u32,
    },
    /// Ends the compute pass.
    EndPass,
    /// Resolves queries of a set.
    Resolve {
        /// Which query set.
        set: u32,
        /// Which queries of it.
        queries: Range<u32>,
        /// Where in [`Place::Queries`], in bytes.
        offset_bytes: u64,
    },
    /// Copies between buffers.
    Copy {
        /// Read.
        from: Place,
        /// Where in it, in bytes.
        from_offset: u64,
        /// Written.
        to: Place,
        /// Where in it, in bytes.
        to_offset: u64,
        /// How much.
        size_bytes: u64,
    },
    /// Hands everything so far to the queue.
    Submit,
}

/// What takes the commands of a run: the device, or a recorder.
pub trait Sink {
    /// Takes the next command.
    fn push(&mut self, command: Command);

    /// Whether a long run is to come in parts. What is not handed over at once has no use for them.
    fn takes_parts(&self) -> bool {
        true
    }
}

impl Sink for Vec<Command> {
    fn push(&mut self, command: Command) {
        Vec::push(self, command);
    }
}
