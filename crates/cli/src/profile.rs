//! `torchlight profile`: where the GPU's time goes, step by step and kernel by kernel.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use torchlight::profile::KernelSummary;
use torchlight::{DeviceFacts, Profile, RunProfile, TimestampMode};

use crate::Verdict;
use crate::device::{GlobalArgs, Notices, TimestampArg, session_options, write_adapter};
use crate::synthetic::InputArgs;
use crate::table::{Column, counted, microseconds, percent, table, text};
use crate::workload::Workload;

/// Options of `profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// A case folder, or a .pte file.
    #[arg(value_name = "CASE_DIR|FILE")]
    path: PathBuf,

    #[command(flatten)]
    inputs: InputArgs,

    /// How often to run all steps, each time from the program's own caches.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// How often to run all steps before that, without timestamps: drivers compile on first use.
    #[arg(long, default_value_t = 1)]
    warmup: u32,

    /// Where to take timestamps.
    #[arg(long, value_name = "MODE", default_value = "pass")]
    timestamps: TimestampArg,

    /// Print one line for each dispatch, its fields separated by tabs.
    #[arg(long, conflicts_with = "json")]
    tsv: bool,
}

/// The runs of one step.
#[derive(Debug, Serialize)]
pub(crate) struct StepProfile {
    /// Number of the step.
    pub(crate) step: usize,
    /// One entry a repetition.
    pub(crate) runs: Vec<RunProfile>,
}

#[derive(Serialize)]
struct Report<'r> {
    adapter: &'r DeviceFacts,
    mode: TimestampMode,
    warmup: u32,
    repeat: u32,
    steps: &'r [StepProfile],
    kernels: Vec<KernelSummary>,
}

/// Profiles a program or a case.
pub(crate) fn profile(global: &GlobalArgs, args: &ProfileArgs, out: &mut impl Write) -> Result<Verdict> {
    let options = session_options(Some(args.timestamps))?;
    let gpu = global.open()?;
    let mut workload = Workload::open(global, (&args.path, &args.inputs), &gpu, options)?;
    workload.show_notices(&mut Notices::default());
    let mode = workload.session_of(0).timestamps();
    let steps = measure(&mut workload, args, mode)?;
    let facts = gpu.facts();
    if global.json {
        let (warmup, repeat) = (args.warmup, args.repeat);
        let kernels = all_runs(&steps).kernels();
        let report = Report { adapter: facts, mode, warmup, repeat, steps: &steps, kernels };
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else if args.tsv {
        write_tsv(&steps, out)?;
    } else if mode == TimestampMode::Off {
        writeln!(out, "{} ran; no timestamps were taken", counted(workload.len(), "step", "steps"))?;
    } else if steps.iter().all(|step| step.runs.iter().all(|run| run.samples.is_empty())) {
        writeln!(out, "no dispatch ran, so there is nothing to time")?;
    } else {
        write_steps(&steps, out)?;
        writeln!(out)?;
        write_kernels(&steps, facts, out)?;
        let (warmup, repeat) = (args.warmup, args.repeat);
        writeln!(out, "each step ran {repeat}x, after {warmup}x unmeasured")?;
    }
    Ok(Verdict::Passed)
}

/// Runs all steps, first to warm up and then to measure.
fn measure(workload: &mut Workload, args: &ProfileArgs, mode: TimestampMode) -> Result<Vec<StepProfile>> {
    let rounds = u64::from(args.warmup) + u64::from(args.repeat);
    // Hidden where stderr is no terminal.
    let progress = ProgressBar::new(rounds * workload.len() as u64);
    let mut steps: Vec<StepProfile> = (0..workload.len()).map(|step| StepProfile { step, runs: Vec::new() }).collect();
    for round in 0..rounds {
        let measured = round >= u64::from(args.warmup);
        for session in workload.sessions() {
            session.reset();
            session.set_timestamps(if measured { mode } else { TimestampMode::Off });
        }
        for (step, profile) in steps.iter_mut().enumerate() {
            workload.run(step)?;
            profile.runs.extend(workload.session_of(step).take_profile().runs);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(steps)
}

fn all_runs(steps: &[StepProfile]) -> Profile {
    let runs = steps.iter().flat_map(|step| step.runs.iter().cloned()).collect();
    Profile { runs, dropped_runs: 0 }
}

/// One row a step and kernel. Microseconds are the mean over repetitions of what the step spent in the kernel.
fn write_steps(steps: &[StepProfile], out: &mut impl Write) -> Result<()> {
    let mut table = table(&[
        Column::Number("step"),
        Column::Text("kernel"),
        Column::Number("dispatches"),
        Column::Number("workgroups"),
        Column::Number("µs"),
    ]);
    for step in steps {
        let repeats = step.runs.len() as u64;
        let profile = Profile { runs: step.runs.clone(), dropped_runs: 0 };
        for (index, kernel) in profile.kernels().iter().enumerate() {
            let workgroups: u64 = (step.runs.iter().take(1).flat_map(|run| &run.samples))
                .filter(|sample| sample.kernel == kernel.kernel)
                .map(|sample| sample.workgroups.iter().map(|&size| u64::from(size)).product::<u64>())
                .sum();
            table.add_row([
                if index == 0 { step.step.to_string() } else { String::new() },
                kernel.kernel.clone(),
                (kernel.dispatches / repeats).to_string(),
                workgroups.to_string(),
                microseconds(kernel.total_ns.map(|total| total / repeats as f64)),
            ]);
        }
    }
    write!(out, "{}", text(&table))?;
    Ok(())
}

/// One row a kernel over all steps, and how it was measured.
pub(crate) fn write_kernels(steps: &[StepProfile], facts: &DeviceFacts, out: &mut impl Write) -> Result<()> {
    let profile = all_runs(steps);
    let mut table = table(&[
        Column::Text("kernel"),
        Column::Number("dispatches"),
        Column::Number("mean µs"),
        Column::Number("total µs"),
        Column::Number("share"),
    ]);
    let kernels = profile.kernels();
    for kernel in &kernels {
        table.add_row([
            kernel.kernel.clone(),
            kernel.dispatches.to_string(),
            microseconds(kernel.mean_ns),
            microseconds(kernel.total_ns),
            percent(kernel.share),
        ]);
    }
    write!(out, "{}", text(&table))?;
    let method = match profile.mode() {
        Some(TimestampMode::Pass) => "pass: each dispatch in a pass of its own, stamped at begin and end",
        Some(TimestampMode::Inside) => "inside: all dispatches in one pass, stamped before and after each",
        Some(TimestampMode::Off) | None => "off",
    };
    writeln!(out, "\ntimestamps {method}")?;
    write_adapter(facts, out)?;
    let unmeasured: u64 = kernels.iter().map(|kernel| kernel.unmeasured).sum();
    if unmeasured > 0 {
        let dispatches = counted(unmeasured as usize, "dispatch has", "dispatches have");
        writeln!(out, "{dispatches} no usable timestamps: no figure counts them")?;
    }
    Ok(())
}

/// One line a dispatch. A name's tabs, newlines and backslashes are escaped, so that every line has all columns.
fn write_tsv(steps: &[StepProfile], out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "step\trepeat\tdispatch\tkernel\troute\toperator\tnode\tworkgroups_x\tworkgroups_y\tworkgroup_size\t\
         begin_ns\tend_ns\tduration_ns\tquality"
    )?;
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for step in steps {
        for (repeat, sample) in step
            .runs
            .iter()
            .enumerate()
            .flat_map(|(repeat, run)| run.samples.iter().map(move |sample| (repeat, sample)))
        {
            let quality = serde_json::to_value(sample.quality)?;
            let fields = [
                step.step.to_string(),
                repeat.to_string(),
                sample.dispatch.to_string(),
                escape(&sample.kernel),
                sample.route.map_or(String::new(), |route| route.to_string()),
                escape(&sample.operator),
                sample.node.to_string(),
                sample.workgroups[0].to_string(),
                sample.workgroups[1].to_string(),
                sample.workgroup_size.to_string(),
                number(sample.begin_ns),
                number(sample.end_ns),
                number(sample.duration_ns),
                quality.as_str().unwrap_or_default().to_owned(),
            ];
            writeln!(out, "{}", fields.join("\t"))?;
        }
    }
    Ok(())
}

fn escape(name: &str) -> String {
    name.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

#[cfg(test)]
mod tests {
    use super::*;
    use torchlight::Sample;
    use torchlight::profile::{Quality, TickPair};

    const AWKWARD: &str = "a \"quoted\" \\ back\tslash,\nnew line, größe 核";

    fn steps() -> Vec<StepProfile> {
        let sample = Sample {
            dispatch: 0,
            kernel: AWKWARD.into(),
            route: None,
            operator: AWKWARD.into(),
            node: 3,
            workgroups: [2, 1],
            workgroup_size: 64,
            ticks: TickPair { begin: 0, end: 0 },
            quality: Quality::NotMeasured,
            begin_ns: None,
            end_ns: None,
            duration_ns: None,
        };
        let run = RunProfile { run: 0, mode: TimestampMode::Pass, period_ns: 1.0, samples: vec![sample; 2] };
        vec![StepProfile { step: 0, runs: vec![run] }]
    }

    #[test]
    fn awkward_names_leave_every_line_whole() {
        let mut out = Vec::new();
        write_tsv(&steps(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        for line in lines {
            assert_eq!(line.split('\t').count(), 14, "{line}");
        }
    }

    #[test]
    fn awkward_names_survive_json() {
        let text = serde_json::to_string(&steps()).unwrap();
        let back: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back[0]["runs"][0]["samples"][1]["kernel"], AWKWARD);
        assert!(back[0]["runs"][0]["samples"][0]["duration_ns"].is_null());
    }

    #[test]
    fn what_was_not_measured_is_a_dash_and_is_counted() {
        let mut out = Vec::new();
        write_kernels(&steps(), &DeviceFacts::webgpu_defaults(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("2 dispatches have no usable timestamps"), "{text}");
        assert!(!text.contains("0.00"), "{text}");
    }
}
