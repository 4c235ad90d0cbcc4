//! `torchlight bench sdpa`: which steps by which routes, one after the other, and what becomes of them.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use torchlight::{Gpu, Route, SessionOptions};

use super::clocks::{Clocks, peaks};
use super::data::Data;
use super::report::{Report, Row, Unserved};
use super::shapes::{Shape, ShapeArgs};
use super::timing::{Job, pairs, planned_route};
use super::{plot, tables};
use crate::Verdict;
use crate::attention::{AUTO, KvArg, ScoresArg};
use crate::device::GlobalArgs;
use crate::export::{check_place, write_whole};

/// Options of `bench sdpa`.
#[derive(Debug, Args)]
pub(crate) struct SdpaArgs {
    #[command(flatten)]
    shapes: ShapeArgs,

    /// The type of the KV caches.
    #[arg(long, value_name = "TYPE", default_value = "f16")]
    kv: KvArg,

    /// The route to time; auto is what a session would take, all is each of them.
    #[arg(long, value_name = "ROUTE", default_value = AUTO, value_parser = routes_parser())]
    route: Routes,

    /// The type in which the matrix route sums its scores.
    #[arg(long, value_name = "TYPE", default_value = "f16")]
    scores: ScoresArg,

    /// How often each pass is timed.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,

    /// Tiny steps by every route, timed twice: shows in seconds that all of it works here.
    #[arg(long, conflicts_with_all = ["preset", "heads", "seq", "repeats", "route"])]
    smoke: bool,

    /// Write the rows as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write the tables as Markdown.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// Plot time against context, a line a route, with what the device allows.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Which routes to time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Routes(Vec<Option<Route>>);

/// Takes auto, all, or the name of a route.
fn routes_parser() -> impl TypedValueParser<Value = Routes> {
    const ALL: &str = "all";
    let names = [AUTO, ALL].into_iter().chain(Route::ALL.map(Route::name));
    PossibleValuesParser::new(names).map(|name| match name.as_str() {
        ALL => Routes::all(),
        name => Routes(vec![name.parse().ok()]),
    })
}

impl Routes {
    fn all() -> Self {
        Self(Route::ALL.map(Some).to_vec())
    }
}

/// Times attention.
pub(crate) fn sdpa(global: &GlobalArgs, args: &SdpaArgs, out: &mut impl Write) -> Result<Verdict> {
    let shapes = if args.smoke { ShapeArgs::smoke() } else { args.shapes.shapes()? };
    // What cannot be written is refused before anything is measured.
    [&args.csv, &args.markdown, &args.svg].into_iter().flatten().try_for_each(|path| check_place(path))?;
    let gpu = global.open()?;
    let report = Bench::new(&gpu, args)?.measure(&shapes)?;
    global.keep_pipelines(&gpu)?;
    if global.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        tables::write_text(&report, out)?;
    }
    write_files(args, &report)?;
    Ok(if report.failed.is_empty() { Verdict::Passed } else { Verdict::Missed })
}

fn write_files(args: &SdpaArgs, report: &Report) -> Result<()> {
    if let Some(path) = &args.csv {
        write_whole(path, |file| tables::write_csv(report, file))?;
    }
    if let Some(path) = &args.markdown {
        write_whole(path, |file| tables::write_markdown(report, file))?;
    }
    if let Some(path) = &args.svg {
        let svg = plot::svg(report)?;
        write_whole(path, |file| Ok(file.write_all(svg.as_bytes())?))?;
    }
    Ok(())
}

/// A benchmark under way.
struct Bench<'a> {
    gpu: &'a Gpu,
    args: &'a SdpaArgs,
    options: SessionOptions,
    report: Report,
    clocks: Clocks<'a>,
}

impl<'a> Bench<'a> {
    fn new(gpu: &'a Gpu, args: &'a SdpaArgs) -> Result<Self> {
        let options = SessionOptions {
            kv: args.kv.into(),
            scores: args.scores.into(),
            profile_samples: 1 << 22,
            ..SessionOptions::default()
        };
        let report = Report::new(gpu.facts(), peaks(gpu)?);
        Ok(Self { gpu, args, options, report, clocks: Clocks::new(gpu)? })
    }

    /// Times every shape by every route that takes it.
    fn measure(mut self, shapes: &[Shape]) -> Result<Report> {
        let routes = if self.args.smoke { Routes::all() } else { self.args.route.clone() };
        let progress = ProgressBar::new((shapes.len() * routes.0.len()) as u64);
        progress.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}")?);
        for shape in shapes {
            progress.set_message(format!("{} over {}", shape.new_tokens, shape.context_len));
            let accepted = self.accepted(shape, &routes);
            progress.inc((routes.0.len() - accepted.len()) as u64);
            if accepted.is_empty() {
                continue;
            }
            let data = Data::new(&[*shape], pairs(shape, self.options.kv, self.gpu.facts().is_cpu));
            for (route, options) in accepted {
                self.one(&data, (shape, route), options);
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        self.report.probe = self.clocks.into_probe();
        match self.report.refused.first() {
            Some(first) if self.report.rows.is_empty() && self.report.failed.is_empty() => {
                bail!("nothing could be timed: {}: {}", first.shape, first.reason)
            }
            _ => Ok(self.report),
        }
    }

    /// The routes that take a shape, and notes of those that refuse it.
    fn accepted(&mut self, shape: &Shape, routes: &Routes) -> Vec<(Route, SessionOptions)> {
        let mut accepted = Vec::new();
        for &route in &routes.0 {
            let options = SessionOptions { route, ..self.options };
            match planned_route(self.gpu, shape, options) {
                Ok(route) => accepted.push((route, options)),
                Err(reason) => {
                    self.report.refused.push(Unserved { shape: *shape, route: route_name(route), reason });
                }
            }
        }
        accepted
    }

    /// Times a shape by a route, or notes why not.
    fn one(&mut self, data: &Data, (shape, route): (&Shape, Route), options: SessionOptions) {
        if let Err(error) = self.row(data, (shape, route), options) {
            let reason = format!("{error:#}").replace('\n', " ");
            self.report.failed.push(Unserved { shape: *shape, route: route.name(), reason });
        }
    }

    fn row(&mut self, data: &Data, (shape, route): (&Shape, Route), options: SessionOptions) -> Result<()> {
        let (repeats, is_smoke) = if self.args.smoke { (2, true) } else { (self.args.repeats, false) };
        let gpu = self.gpu;
        let job = Job { gpu, data, shape: *shape, options, repeats, is_smoke };
        let correct = job.verify(route)?;
        let checked = correct.checked;
        if !checked.passed() {
            let (rel_l2, tolerance) = (checked.rel_l2, checked.tolerance);
            bail!("wrong, so it was not timed: relative error {rel_l2:.1e}, where {tolerance:.0e} passes");
        }
        let timed = job.time(&correct, || self.clocks.warm_up())?;
        // Whether the clocks stayed where they were.
        let after = self.clocks.note();
        let row = Row::new((shape, options.kv, route), checked, timed, &self.report.peaks);
        self.report.rows.push(row);
        after
    }
}

/// What was asked for, by name.
fn route_name(route: Option<Route>) -> &'static str {
    route.map_or(AUTO, Route::name)
}
