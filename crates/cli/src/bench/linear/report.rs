//! What a benchmark of linear layers found, as plain data: what `--json` prints, and what the tables are made of.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;
use torchlight::DeviceFacts;
use torchlight::kernels::linear::Ending;
use torchlight::plan::LinearRoute;
use torchlight::profile::{Adapter, Peaks};

use super::super::check::Checked;
use super::super::quantile;
use super::super::report::{Limit, Probe, limit};
use super::super::timing::{Clock, OwnPass};
use super::job::Timed;
use super::layers::{Layer, type_name};
use crate::device::write_adapter;
use crate::table::{Column, bytes, peaks_text, percent, rate, table, text, wrap};

/// All of a benchmark.
#[derive(Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    adapter: Adapter,
    /// What the device was measured to do.
    pub(crate) peaks: Peaks,
    pub(crate) probe: Option<Probe>,
    pub(crate) rows: Vec<Row>,
    /// Layers that the device or the route refused.
    pub(crate) refused: Vec<Unserved>,
    /// Layers that were computed wrongly, or not at all.
    pub(crate) failed: Vec<Unserved>,
}

/// A layer without a time.
#[derive(Serialize)]
pub(crate) struct Unserved {
    pub(crate) layer: String,
    pub(crate) reason: String,
}

/// A layer, checked and timed.
#[derive(Serialize)]
pub(crate) struct Row {
    layer: &'static str,
    route: &'static str,
    rows: u32,
    in_features: u32,
    out_features: u32,
    weights: String,
    has_norm: bool,
    ending: &'static str,
    amortised_us_p50: f64,
    amortised_us_p90: f64,
    own_pass_us: Vec<OwnPass>,
    gbps: f64,
    /// Those over the measured rate of a copy.
    of_copy: f64,
    tflops: f64,
    /// What bounds the layer on this device.
    limit: Limit,
    /// The time that it allows.
    limit_us: f64,
    /// That time over the time taken: 1 is all that the device can.
    of_limit: f64,
    bytes: u64,
    flops: u64,
    clock: Clock,
    /// Layers of a pass, and weights that they go round over.
    pass_steps: usize,
    weight_sets: usize,
    /// Bytes of all these weights.
    rotated_bytes: u64,
    verified: Checked,
}

impl Report {
    /// Nothing found yet.
    pub(crate) fn new(facts: &DeviceFacts, peaks: Peaks) -> Self {
        let (rows, refused, failed) = (Vec::new(), Vec::new(), Vec::new());
        Self { adapter: facts.into(), peaks, probe: None, rows, refused, failed }
    }
}

impl Row {
    /// A row of what was timed.
    pub(crate) fn new((layer, route): (&Layer, LinearRoute), verified: Checked, timed: Timed, peaks: &Peaks) -> Self {
        let problem = layer.problem;
        let work = problem.work();
        let unit = if route == LinearRoute::Matrix { Limit::Matrix } else { Limit::F32 };
        let (limit, limit_us) = limit(work.bytes, work.flops, unit, peaks);
        let us = quantile(&timed.amortised_us, 0.5);
        let gbps = work.bytes as f64 / us / 1e3;
        Self {
            layer: layer.name,
            route: route.name(),
            rows: problem.rows,
            in_features: problem.in_features,
            out_features: problem.out_features,
            weights: type_name(problem.weight),
            has_norm: problem.has_norm,
            ending: match problem.ending {
                Ending::Plain => "plain",
                Ending::Add => "add",
                Ending::SwiGlu => "swiglu",
            },
            amortised_us_p50: us,
            amortised_us_p90: quantile(&timed.amortised_us, 0.9),
            own_pass_us: timed.passes.own_pass,
            gbps,
            of_copy: gbps / peaks.copy_gbps,
            tflops: work.flops as f64 / us / 1e6,
            limit,
            limit_us,
            of_limit: limit_us / us,
            bytes: work.bytes,
            flops: work.flops,
            clock: timed.passes.clock,
            pass_steps: timed.steps,
            weight_sets: timed.sets,
            rotated_bytes: timed.rotated_bytes,
            verified,
        }
    }
}

const COLUMNS: [Column; 9] = [
    Column::Text("layer"),
    Column::Number("k"),
    Column::Number("n"),
    Column::Text("route"),
    Column::Number("µs p50"),
    Column::Number("p90"),
    Column::Number("GB/s"),
    Column::Number("of copy"),
    Column::Number("TFLOP/s"),
];

/// Tables for a terminal, and how they were made.
pub(crate) fn write_text(report: &Report, out: &mut impl Write) -> Result<()> {
    let mut rest = report.rows.as_slice();
    while let Some(first) = rest.first() {
        let together = |row: &Row| row.rows == first.rows && row.weights == first.weights;
        let count = rest.iter().take_while(|row| together(row)).count();
        let rows = crate::table::counted(first.rows as usize, "row", "rows");
        writeln!(out, "{rows}, weights of {}", first.weights)?;
        let mut times = table(&COLUMNS);
        for row in &rest[..count] {
            times.add_row(cells(row));
        }
        writeln!(out, "{}", text(&times))?;
        rest = &rest[count..];
    }
    for (verdict, unserved) in [("refused", &report.refused), ("FAILED", &report.failed)] {
        for Unserved { layer, reason } in unserved {
            writeln!(out, "{}", wrap(&format!("{verdict} {layer}: {reason}"), 4))?;
        }
    }
    for line in notes(report) {
        writeln!(out, "{}", wrap(&line, 4))?;
    }
    write_adapter(&report.adapter, out)
}

fn cells(row: &Row) -> [String; COLUMNS.len()] {
    [
        row.layer.to_owned(),
        row.in_features.to_string(),
        row.out_features.to_string(),
        row.route.to_owned(),
        rate(Some(row.amortised_us_p50)),
        rate(Some(row.amortised_us_p90)),
        rate(Some(row.gbps)),
        percent(Some(row.of_copy)),
        rate(Some(row.tflops)),
    ]
}

/// How the figures were made.
fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(worst) = report.rows.iter().map(|row| row.verified.rel_l2).reduce(f64::max) {
        notes.push(format!("every row was held against f64 before it was timed: relative error at most {worst:.1e}"));
    }
    let rotated = report.rows.iter().map(|row| row.rotated_bytes).min().map_or_else(String::new, bytes);
    notes.push(format!("µs: a layer, of a pass of many that go round over {rotated} of weights or more"));
    notes.push(
        "out, down: with a residual; q+k+v, gate+up, logits: with a norm in front; gate+up: with SwiGLU".to_owned(),
    );
    if report.rows.iter().any(|row| row.clock == Clock::Host) {
        notes.push("without timestamps: the host's clock, so submitting and waiting are in the times".into());
    }
    notes.push(format!("GB/s: of what must move, x, weights and result, each once ({})", peaks_text(&report.peaks)));
    notes.extend(report.probe.as_ref().map(ToString::to_string));
    notes
}
