//! A performance dump (ETDump) that ExecuTorch's Inspector reads beside those of its own runtimes.

use std::collections::HashMap;
use std::io;

use planus::{Builder, Offset};

use super::generated::etdump::{EtDump, Event, ProfileEvent, RunData};
use super::timeline::{Span, timeline};
use crate::profile::{Profile, RunProfile, Sample};

const IDENTIFIER: &[u8; 4] = b"ED00";

/// The name under which the Inspector knows runs of a method.
const RUN_NAME: &str = "Execute";

/// What a flatbuffer can hold, with room for its last tables.
const MOST_BYTES: usize = (1 << 31) - (1 << 20);

/// Writes the kept runs of a profile as an ETDump, with an event a dispatch.
///
/// An event is named after its kernel and its dispatch, for the Inspector keeps one event a name and run. It points to the
/// program's instruction, and its times are whole nanoseconds from the earliest stamp of its run. The format has no room for
/// a sample's quality, so dispatches whose duration does not count are left out, and runs in which nothing counts.
///
/// # Errors
/// The writer's, and [`io::ErrorKind::FileTooLarge`] above the 2 GiB that the format can hold.
pub fn write_etdump(profile: &Profile, out: &mut impl io::Write) -> io::Result<()> {
    let mut builder = Builder::new();
    let mut names = HashMap::new();
    let mut runs = Vec::new();
    for run in &profile.runs {
        runs.extend(run_data(&mut builder, &mut names, run)?);
    }
    let runs = builder.create_vector(runs);
    let root = EtDump::create(&mut builder, 0u32, runs);
    write_size_prefixed(builder.finish(root, None), out)
}

/// A run with its events, where it has some.
fn run_data(
    builder: &mut Builder,
    names: &mut HashMap<String, Offset<str>>,
    run: &RunProfile,
) -> io::Result<Option<Offset<RunData>>> {
    let mut events = Vec::with_capacity(run.samples.len());
    for (sample, span) in timeline(run) {
        if let Some(span) = span.filter(|_| sample.counted_ns().is_some()) {
            events.push(event(builder, names, sample, span));
        }
        if builder.len() > MOST_BYTES {
            let message =
                format!("an ETDump holds at most 2 GiB: the profile has too many dispatches at run {}", run.run);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
    }
    if events.is_empty() {
        return Ok(None);
    }
    let events = builder.create_vector(events);
    Ok(Some(RunData::create(builder, RUN_NAME, -1, (), events)))
}

fn event(
    builder: &mut Builder,
    names: &mut HashMap<String, Offset<str>>,
    sample: &Sample,
    span: Span,
) -> Offset<Event> {
    let name = format!("{} #{}", sample.timed.kernel, sample.timed.dispatch);
    // Runs repeat the names of those before them.
    let name = *names.entry(name).or_insert_with_key(|name| builder.create_string(name));
    let profile_event = ProfileEvent::builder()
        .name(())
        .chain_index(0)
        .instruction_id(i32::try_from(sample.timed.instruction).unwrap_or(-1))
        .delegate_debug_id_int(-1)
        .delegate_debug_id_str(name)
        .delegate_debug_metadata(())
        .start_time(span.begin_ns.round() as u64)
        .end_time(span.end_ns.round() as u64)
        .finish(builder);
    Event::create(builder, profile_event)
}

/// Writes a finished flatbuffer with its size in front and its identifier behind the root's offset.
///
/// These eight bytes keep the alignment of what follows.
fn write_size_prefixed(flatbuffer: &[u8], out: &mut impl io::Write) -> io::Result<()> {
    let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
    let size = u32::try_from(flatbuffer.len() + IDENTIFIER.len()).map_err(too_large)?;
    let (root, content) = flatbuffer.split_at(size_of::<u32>());
    // It counts from where it stands, and the identifier is now between it and the root.
    let root = root.iter().rev().fold(0, |root, &byte| root << 8 | u32::from(byte)) + IDENTIFIER.len() as u32;
    out.write_all(&size.to_le_bytes())?;
    out.write_all(&root.to_le_bytes())?;
    out.write_all(IDENTIFIER)?;
    out.write_all(content)
}
