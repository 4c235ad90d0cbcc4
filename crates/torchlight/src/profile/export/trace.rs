//! A time line for Perfetto and chrome://tracing, in Chrome's trace event format.
//!
//! The host has a track with an event a run and its phases inside; the device has a track with an event a dispatch.
//! Events are written one by one: a trace of any length takes no memory.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use super::timeline::timeline;
use crate::profile::{Adapter, Profile, RunProfile, TimestampMode};

/// What a reader of the trace must know about its two clocks.
const CLOCKS: &str = "The host and the device have clocks of their own, and only times on one track can be compared. \
    The earliest stamp of a run is drawn at the end of the run's submit, or at the end of the dispatches before it where \
    that is later. Dispatches are drawn without the time in which they overlap an earlier one. A run that begins before \
    the one before it has ended is of another session, and is drawn behind it.";

/// A process and thread of the trace.
#[derive(Clone, Copy)]
struct Track {
    pid: u32,
    tid: u32,
}

const HOST: Track = Track { pid: 1, tid: 1 };
const DEVICE: Track = Track { pid: 2, tid: 1 };

/// What an event is, by its phase letter.
#[derive(Serialize)]
#[serde(tag = "ph")]
enum Phase {
    /// The name of a process or thread.
    #[serde(rename = "M")]
    Metadata,
    /// Something that takes time. Both are microseconds.
    #[serde(rename = "X")]
    Complete { ts: f64, dur: f64 },
    /// Something of which only the place is known, on its thread alone.
    #[serde(rename = "i")]
    Mark { ts: f64, s: &'static str },
}

impl Phase {
    /// From begin to end in ns. Both are rounded to whole ns, so that what fits into something still does.
    fn complete(begin_ns: f64, end_ns: f64) -> Self {
        Self::Complete { ts: microseconds(begin_ns), dur: microseconds(end_ns.round() - begin_ns.round()) }
    }

    fn instant(at_ns: f64) -> Self {
        Self::Mark { ts: microseconds(at_ns), s: "t" }
    }
}

fn microseconds(ns: f64) -> f64 {
    ns.round() / 1e3
}

#[derive(Serialize)]
struct Event<'p, A> {
    name: &'p str,
    #[serde(flatten)]
    phase: Phase,
    pid: u32,
    tid: u32,
    args: A,
}

#[derive(Serialize)]
struct Name<'p> {
    name: &'p str,
}

/// The details of an event.
#[derive(Serialize)]
struct InRun<T> {
    run: u64,
    step: u64,
    #[serde(flatten)]
    details: T,
}

/// The details of a run.
#[derive(Serialize)]
struct Wall {
    wall_ns: f64,
    unattributed_ns: f64,
}

/// A phase of a run has no more to tell.
#[derive(Serialize)]
struct Nothing {}

/// What holds for the whole trace.
#[derive(Serialize)]
struct OtherData<'p> {
    producer: &'static str,
    #[serde(flatten)]
    adapter: &'p Adapter,
    mode: TimestampMode,
    dropped_runs: u64,
    untimed_runs: u64,
    clocks: &'static str,
}

/// Writes the runs of a profile as a trace.
///
/// A dispatch without a begin is an instant event behind the one before it, and its `quality` says why.
///
/// # Errors
/// The writer's.
pub fn write_trace(profile: &Profile, out: &mut impl io::Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let other_data = OtherData {
        producer: "torchlight",
        adapter: &profile.adapter,
        mode: profile.mode,
        dropped_runs: profile.dropped_runs,
        untimed_runs: profile.untimed_runs,
        clocks: CLOCKS,
    };
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
    serde_json::to_writer(&mut out, &other_data)?;
    out.write_all(b",\"traceEvents\":[")?;
    let mut events = Events { out, separator: "\n", host_end_ns: 0.0, shift_ns: 0.0, device_end_ns: 0.0 };
    events.names(&profile.adapter)?;
    for run in &profile.runs {
        let submitted_ns = events.host(run)?;
        events.device(run, submitted_ns)?;
    }
    events.out.write_all(b"\n]}\n")?;
    events.out.flush()
}

/// The events on their way out, and how far the tracks are filled.
struct Events<W> {
    out: W,
    separator: &'static str,
    host_end_ns: f64,
    /// What is added to the host's clock, which begins anew in every session.
    shift_ns: f64,
    device_end_ns: f64,
}

impl<W: Write> Events<W> {
    fn write(&mut self, name: &str, phase: Phase, Track { pid, tid }: Track, args: impl Serialize) -> io::Result<()> {
        self.out.write_all(self.separator.as_bytes())?;
        self.separator = ",\n";
        Ok(serde_json::to_writer(&mut self.out, &Event { name, phase, pid, tid, args })?)
    }

    fn names(&mut self, adapter: &Adapter) -> io::Result<()> {
        let device = if adapter.name.is_empty() { "device" } else { &adapter.name };
        for (track, process, thread) in [(HOST, "host", "runs"), (DEVICE, device, "dispatches")] {
            self.write("process_name", Phase::Metadata, track, Name { name: process })?;
            self.write("thread_name", Phase::Metadata, track, Name { name: thread })?;
        }
        Ok(())
    }

    /// A run and its phases on the host's track. Gives the end of its submit.
    fn host(&mut self, run: &RunProfile) -> io::Result<f64> {
        let &RunProfile { run: number, step, host, .. } = run;
        self.shift_ns = self.shift_ns.max(self.host_end_ns - run.start_ns);
        let begin_ns = run.start_ns + self.shift_ns;
        let mut end_ns = begin_ns;
        let phases = [
            ("prepare", host.prepare_ns),
            ("encode", host.encode_ns),
            ("submit", host.submit_ns),
            ("wait", host.wait_ns),
            ("readback", host.readback_ns),
        ]
        .map(|(name, duration_ns)| {
            let begin_ns = end_ns;
            end_ns += duration_ns.max(0.0);
            (name, begin_ns, end_ns)
        });
        self.host_end_ns = end_ns.max(begin_ns + host.wall_ns);
        let wall = Wall { wall_ns: host.wall_ns, unattributed_ns: host.unattributed_ns() };
        let args = InRun { run: number, step, details: wall };
        self.write(&format!("run {number}"), Phase::complete(begin_ns, self.host_end_ns), HOST, args)?;
        for (name, begin_ns, end_ns) in phases {
            let args = InRun { run: number, step, details: Nothing {} };
            self.write(name, Phase::complete(begin_ns, end_ns), HOST, args)?;
        }
        let [_, _, (_, _, submitted_ns), _, _] = phases;
        Ok(submitted_ns)
    }

    /// The dispatches of a run on the device's track.
    fn device(&mut self, run: &RunProfile, submitted_ns: f64) -> io::Result<()> {
        let origin_ns = self.device_end_ns.max(submitted_ns);
        self.device_end_ns = origin_ns;
        for (sample, span) in timeline(run) {
            let phase = match span {
                Some(span) => {
                    self.device_end_ns = origin_ns + span.end_ns;
                    Phase::complete(origin_ns + span.begin_ns, self.device_end_ns)
                }
                None => Phase::instant(self.device_end_ns),
            };
            let args = InRun { run: run.run, step: run.step, details: sample };
            self.write(&sample.timed.kernel, phase, DEVICE, args)?;
        }
        Ok(())
    }
}
