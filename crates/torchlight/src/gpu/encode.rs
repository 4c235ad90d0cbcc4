//! The one encode loop: a plan and the grids of a run to commands. It knows no device, only a sink.

use super::command::{Command, Place, QueryPair, Sink};
use super::parts::ends_part;
use crate::kernels::Grid;
use crate::plan::{BufferId, Dispatch, PARAMS_SLOT_BYTES, Plan, Step};
use crate::profile::TimestampMode;

/// The most queries of one set, by WebGPU's limit.
pub const QUERIES_PER_SET: u32 = 4096;
/// Resolves write at multiples of this; 4096 queries of 8 bytes keep every set aligned.
pub(super) const QUERY_BYTES: u64 = 8;

/// A piece of an output to bring to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Download {
    /// Which output of the program.
    pub output: usize,
    /// Read.
    pub buffer: BufferId,
    /// Where in it, a multiple of 4.
    pub from_offset_bytes: u64,
    /// How much, a multiple of 4.
    pub size_bytes: u64,
    /// Where in the readback buffer.
    pub offset_bytes: u64,
}

/// The queries of what is timed after so many others, a dispatch or a pass: two neighbours, which never fall into two sets since a set's size is even.
pub fn query_pair(before: u32) -> QueryPair {
    let query = before * 2;
    QueryPair { set: query / QUERIES_PER_SET, begin: query % QUERIES_PER_SET }
}

/// Encodes a run.
///
/// With [`TimestampMode::Off`] consecutive dispatches share one pass, no command mentions a query, and a long run is
/// submitted in parts, so that the device begins before all is encoded. A timed run is submitted whole. `grids` has one entry
/// a dispatch; one without a grid has nothing to do in this run, and leaves no trace.
pub fn encode(
    plan: &Plan,
    grids: &[Option<Grid>],
    downloads: &[Download],
    timestamps: TimestampMode,
    sink: &mut impl Sink,
) {
    // What a pair of queries is written around: a dispatch, or in Run mode a pass.
    let (mut slot, mut timed) = (0, 0);
    let (mut launched, all) = (0, grids.iter().flatten().count() as u32);
    let mut in_pass = false;
    // A pass keeps its pipeline until another is set.
    let mut pipeline = None;
    for step in &plan.steps {
        match step {
            Step::Dispatch(step) => {
                let dispatch = slot;
                slot += 1;
                let Some(Grid { x, y }) = grids[dispatch as usize] else { continue };
                let begins_pass = !std::mem::replace(&mut in_pass, true);
                let queries = query_pair(timed);
                timed += u32::from(timestamps != TimestampMode::Run || begins_pass);
                if begins_pass {
                    pipeline = None;
                    let of_pass = matches!(timestamps, TimestampMode::Pass | TimestampMode::Run);
                    sink.push(Command::BeginPass { timestamps: of_pass.then_some(queries) });
                }
                if pipeline.replace(step.variant) != Some(step.variant) {
                    sink.push(Command::SetPipeline(step.variant));
                }
                sink.push(Command::SetBindGroup { dispatch, params_offset: launched * PARAMS_SLOT_BYTES });
                let inside = timestamps == TimestampMode::Inside;
                if inside {
                    sink.push(Command::WriteTimestamp { set: queries.set, query: queries.begin });
                }
                sink.push(Command::Dispatch { x, y });
                if inside {
                    sink.push(Command::WriteTimestamp { set: queries.set, query: queries.begin + 1 });
                }
                launched += 1;
                let ends_part = timestamps == TimestampMode::Off && ends_part(launched, all);
                if timestamps == TimestampMode::Pass || ends_part {
                    sink.push(Command::EndPass);
                    in_pass = false;
                }
                if ends_part {
                    sink.push(Command::Submit);
                }
            }
            Step::Copy { from, to, size_bytes, .. } => {
                if std::mem::take(&mut in_pass) {
                    sink.push(Command::EndPass);
                }
                copy((Place::Plan(*from), 0), (Place::Plan(*to), 0), *size_bytes, sink);
            }
        }
    }
    if in_pass {
        sink.push(Command::EndPass);
    }
    for download in downloads {
        let from = (Place::Plan(download.buffer), download.from_offset_bytes);
        copy(from, (Place::Readback, download.offset_bytes), download.size_bytes, sink);
    }
    if timestamps != TimestampMode::Off && timed > 0 {
        resolve(timed * 2, sink);
    }
    sink.push(Command::Submit);
}

/// How many pairs of queries a run writes.
pub(super) fn query_pairs(plan: &Plan, grids: &[Option<Grid>], timestamps: TimestampMode) -> u32 {
    match timestamps {
        TimestampMode::Off => 0,
        TimestampMode::Pass | TimestampMode::Inside => grids.iter().flatten().count() as u32,
        TimestampMode::Run => passes(plan, grids).len() as u32,
    }
}

/// The dispatches of each pass that a plan has by itself: those that follow one another without a copy between.
pub(crate) fn passes<'p>(plan: &'p Plan, grids: &[Option<Grid>]) -> Vec<Vec<(&'p Dispatch, Grid)>> {
    let mut passes = Vec::new();
    let mut open = false;
    let mut grids = grids.iter();
    for step in &plan.steps {
        match step {
            Step::Copy { .. } => open = false,
            Step::Dispatch(dispatch) => {
                let Some(Some(grid)) = grids.next() else { continue };
                if !std::mem::replace(&mut open, true) {
                    passes.push(Vec::new());
                }
                passes.last_mut().into_iter().for_each(|pass| pass.push((dispatch, *grid)));
            }
        }
    }
    passes
}

/// Resolves only the queries that were written, set by set.
fn resolve(queries: u32, sink: &mut impl Sink) {
    for set in 0..queries.div_ceil(QUERIES_PER_SET) {
        let first = set * QUERIES_PER_SET;
        let count = QUERIES_PER_SET.min(queries - first);
        sink.push(Command::Resolve { set, queries: 0..count, offset_bytes: u64::from(first) * QUERY_BYTES });
    }
    copy((Place::Queries, 0), (Place::QueryReadback, 0), u64::from(queries) * QUERY_BYTES, sink);
}

fn copy((from, from_offset): (Place, u64), (to, to_offset): (Place, u64), size_bytes: u64, sink: &mut impl Sink) {
    sink.push(Command::Copy { from, from_offset, to, to_offset, size_bytes });
}
