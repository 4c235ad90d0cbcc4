//! `torchlight bench linear`: which layers by which route, one after the other, and what becomes of them.

mod job;
mod layers;
mod report;

use std::io::Write;

use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use torchlight::graph::Fusion;
use torchlight::{Gpu, SessionOptions};

use self::job::{Job, planned_route};
use self::layers::{Layer, LayerArgs, Weights};
use self::report::{Report, Row, Unserved};
use super::clocks::{Clocks, peaks};
use crate::Verdict;
use crate::attention::AUTO;
use crate::device::GlobalArgs;
use crate::linear::{LinearArg, linear_parser};

/// Options of `bench linear`.
#[derive(Debug, Args)]
pub(crate) struct LinearArgs {
    #[command(flatten)]
    layers: LayerArgs,

    /// The route to time; auto is what a session would take.
    #[arg(long, value_name = "ROUTE", default_value = AUTO, value_parser = linear_parser())]
    route: LinearArg,

    /// How often each pass is timed.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,

    /// Tiny layers of every kind, timed twice: shows in seconds that all of it works here.
    #[arg(long, conflicts_with_all = ["preset", "k", "rows", "weights", "repeats"])]
    smoke: bool,
}

/// Times linear layers.
pub(crate) fn linear(global: &GlobalArgs, args: &LinearArgs, out: &mut impl Write) -> Result<Verdict> {
    let layers = if args.smoke { Layer::smoke() } else { args.layers.layers()? };
    let gpu = global.open()?;
    let report = Bench::new(&gpu, args)?.measure(&layers)?;
    global.keep_pipelines(&gpu)?;
    if global.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        report::write_text(&report, out)?;
    }
    Ok(if report.failed.is_empty() { Verdict::Passed } else { Verdict::Missed })
}

/// A benchmark under way.
struct Bench<'a> {
    gpu: &'a Gpu,
    args: &'a LinearArgs,
    options: SessionOptions,
    report: Report,
    clocks: Clocks<'a>,
}

impl<'a> Bench<'a> {
    fn new(gpu: &'a Gpu, args: &'a LinearArgs) -> Result<Self> {
        // Layers are given as what they are: fused across steps, they would be others.
        let fusion = Fusion::Off;
        let options =
            SessionOptions { linear: args.route.0, fusion, profile_samples: 1 << 22, ..SessionOptions::default() };
        Ok(Self { gpu, args, options, report: Report::new(gpu.facts(), peaks(gpu)?), clocks: Clocks::new(gpu)? })
    }

    /// Times every layer.
    fn measure(mut self, layers: &[Layer]) -> Result<Report> {
        let progress = ProgressBar::new(layers.len() as u64);
        progress.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}")?);
        for layer in layers {
            progress.set_message(layer.to_string());
            self.one(layer);
            progress.inc(1);
        }
        progress.finish_and_clear();
        self.report.probe = self.clocks.into_probe();
        match self.report.refused.first() {
            Some(first) if self.report.rows.is_empty() && self.report.failed.is_empty() => {
                bail!("nothing could be timed: {}: {}", first.layer, first.reason)
            }
            _ => Ok(self.report),
        }
    }

    /// Times a layer, or notes why not.
    fn one(&mut self, layer: &Layer) {
        let unserved = |reason: String| Unserved { layer: layer.to_string(), reason: reason.replace('\n', " ") };
        match planned_route(self.gpu, layer, self.options) {
            Err(error) => self.report.refused.push(unserved(error.to_string())),
            Ok(route) => {
                if let Err(error) = self.row(layer, route) {
                    self.report.failed.push(unserved(format!("{error:#}")));
                }
            }
        }
    }

    fn row(&mut self, layer: &Layer, route: torchlight::plan::LinearRoute) -> Result<()> {
        let weights = Weights::new(layer, self.gpu.facts().is_cpu);
        let (repeats, is_smoke) = if self.args.smoke { (2, true) } else { (self.args.repeats, false) };
        let job = Job { gpu: self.gpu, layer, weights: &weights, options: self.options, repeats, is_smoke };
        let correct = job.verify(route)?;
        let checked = correct.checked;
        if !checked.passed() {
            let (rel_l2, tolerance) = (checked.rel_l2, checked.tolerance);
            bail!("wrong, so it was not timed: relative error {rel_l2:.1e}, where {tolerance:.0e} passes");
        }
        let timed = job.time(&correct, || self.clocks.warm_up())?;
        // Whether the clocks stayed where they were.
        let after = self.clocks.note();
        self.report.rows.push(Row::new((layer, route), checked, timed, &self.report.peaks));
        after
    }
}
