//! `torchlight bench dispatch`: what a dispatch costs by itself, host and device, and what looking at it adds.

use std::io::Write;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use torchlight::profile::Adapter;
use torchlight::{
    DType, Gpu, Graph, GraphBuilder, Input, RunProfile, Session, SessionOptions, TensorView, TimestampMode,
};

use super::quantile;
use crate::Verdict;
use crate::device::{GlobalArgs, write_adapter};
use crate::table::{Column, rate, table, text, wrap};

/// Elements of the tensor: one workgroup, so little work that only the dispatch counts.
const ELEMENTS: usize = 64;

/// Options of `bench dispatch`.
#[derive(Debug, Args)]
pub(crate) struct DispatchArgs {
    /// Dispatches of a run: a chain of additions, each of which needs the one before.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    dispatches: u32,

    /// How often the chain runs in each mode.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
}

#[derive(Serialize)]
struct DispatchReport {
    #[serde(flatten)]
    adapter: Adapter,
    dispatches: u32,
    repeats: u32,
    rows: Vec<ModeRow>,
}

/// A mode; microseconds are medians, divided by the number of dispatches.
#[derive(Serialize)]
struct ModeRow {
    timestamps: TimestampMode,
    /// Whether each dispatch has a pass of its own.
    own_passes: bool,
    /// From the call to its return: sizes, params, commands, submission.
    host_us: f64,
    /// Of these recording commands, where the profile knows, and handing them over.
    encode_us: Option<f64>,
    submit_us: Option<f64>,
    /// From the call until the device has done it.
    wall_us: f64,
    /// From the first stamp to the last.
    gpu_us: Option<f64>,
}

/// What the runs of a mode took, in ns.
#[derive(Default)]
struct Seen {
    host: Vec<f64>,
    wall: Vec<f64>,
    encode: Vec<f64>,
    submit: Vec<f64>,
    gpu: Vec<f64>,
}

/// Measures dispatches.
pub(crate) fn dispatch(global: &GlobalArgs, args: &DispatchArgs, out: &mut impl Write) -> Result<Verdict> {
    let gpu = global.open()?;
    let rows = measure(&gpu, args)?;
    global.keep_pipelines(&gpu)?;
    let (dispatches, repeats) = (args.dispatches, args.repeats);
    let report = DispatchReport { adapter: gpu.facts().into(), dispatches, repeats, rows };
    if global.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        write_report(&report, out)?;
    }
    Ok(Verdict::Passed)
}

/// Runs the chain in each mode alternately, so that a drift of clocks meets all modes alike.
fn measure(gpu: &Gpu, args: &DispatchArgs) -> Result<Vec<ModeRow>> {
    let mut session = Session::new(gpu, &chain(args.dispatches)?, SessionOptions::default())?;
    let modes = [TimestampMode::Off, TimestampMode::Run, TimestampMode::Inside, TimestampMode::Pass];
    let offered = |mode: &TimestampMode| {
        session.set_timestamps(*mode);
        session.timestamps() == *mode
    };
    let modes: Vec<TimestampMode> = modes.into_iter().filter(offered).collect();
    let mut seen: Vec<Seen> = modes.iter().map(|_| Seen::default()).collect();
    let progress = ProgressBar::new(u64::from(args.repeats));
    torchlight::warm_up(gpu)?;
    // A tenth more at first, which is not counted: drivers compile on first use.
    let warmup = args.repeats.div_ceil(10);
    for round in 0..args.repeats + warmup {
        for (mode, seen) in modes.iter().zip(&mut seen) {
            session.set_timestamps(*mode);
            let run = run(gpu, &mut session)?;
            if round >= warmup {
                seen.add(run);
            }
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    let per_dispatch = f64::from(args.dispatches) * 1000.0;
    Ok(modes.into_iter().zip(seen).map(|(mode, seen)| seen.row(mode, per_dispatch)).collect())
}

/// Nothing is downloaded, so a run returns when it is submitted.
fn chain(dispatches: u32) -> torchlight::Result<Graph<'static>> {
    let mut graph = GraphBuilder::new("chain");
    let x = graph.static_input(DType::F32, &[ELEMENTS as u32])?;
    let mut sum = x;
    for _ in 0..dispatches {
        sum = graph.add(sum, x, 1.0)?;
    }
    graph.finish()
}

/// Nanoseconds to the return of the call and to the end of the work, and what was stamped.
fn run(gpu: &Gpu, session: &mut Session) -> Result<(f64, f64, Option<RunProfile>)> {
    let x = [1.0; ELEMENTS];
    let x = TensorView::f32(&[ELEMENTS as u32], &x)?;
    let start = Instant::now();
    session.run(&[Input::Host(x)])?;
    let host_ns = start.elapsed().as_nanos() as f64;
    gpu.wait()?;
    let wall_ns = start.elapsed().as_nanos() as f64;
    Ok((host_ns, wall_ns, session.take_profile()?.runs.pop()))
}

impl Seen {
    fn add(&mut self, (host_ns, wall_ns, profile): (f64, f64, Option<RunProfile>)) {
        self.host.push(host_ns);
        self.wall.push(wall_ns);
        if let Some(profile) = profile {
            self.encode.push(profile.host.encode_ns);
            self.submit.push(profile.host.submit_ns);
            self.gpu.extend(profile.span_ns());
        }
    }

    fn row(&self, mode: TimestampMode, per_dispatch: f64) -> ModeRow {
        let us = |values: &[f64]| (!values.is_empty()).then(|| quantile(values, 0.5) / per_dispatch);
        ModeRow {
            timestamps: mode,
            own_passes: mode == TimestampMode::Pass,
            host_us: us(&self.host).unwrap_or(f64::NAN),
            encode_us: us(&self.encode),
            submit_us: us(&self.submit),
            wall_us: us(&self.wall).unwrap_or(f64::NAN),
            gpu_us: us(&self.gpu),
        }
    }
}

fn write_report(report: &DispatchReport, out: &mut impl Write) -> Result<()> {
    let mut table = table(&[
        Column::Text("timestamps"),
        Column::Text("passes"),
        Column::Number("host µs"),
        Column::Number("encode µs"),
        Column::Number("submit µs"),
        Column::Number("wall µs"),
        Column::Number("GPU µs"),
    ]);
    for row in &report.rows {
        table.add_row([
            row.timestamps.to_string(),
            if row.own_passes { "one each" } else { "shared" }.to_owned(),
            rate(Some(row.host_us)),
            rate(row.encode_us),
            rate(row.submit_us),
            rate(Some(row.wall_us)),
            rate(row.gpu_us),
        ]);
    }
    writeln!(out, "{}", text(&table))?;
    let DispatchReport { dispatches, repeats, .. } = report;
    let notes = [
        format!("a dispatch, medians of {repeats} runs of a chain of {dispatches} small additions"),
        "host: the call that submits them, of which encode and submit; wall: until the device has done them; GPU: from \
         the first stamp to the last"
            .to_owned(),
        "timestamps run: two in all; inside: before and after each; pass: at begin and end of its pass".to_owned(),
    ];
    for note in notes {
        writeln!(out, "{}", wrap(&note, 4))?;
    }
    write_adapter(&report.adapter, out)
}
