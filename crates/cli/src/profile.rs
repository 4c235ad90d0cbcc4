//! `torchlight profile`: where the GPU's time goes, step by step and kernel by kernel.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use torchlight::profile::{KernelSummary, Quality};
use torchlight::{Profile, RunProfile, TimestampMode};

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

/// Profiles a program or a case.
pub(crate) fn profile(global: &GlobalArgs, args: &ProfileArgs, out: &mut impl Write) -> Result<Verdict> {
    let options = session_options(Some(args.timestamps))?;
    let gpu = global.open()?;
    let mut workload = Workload::open(global, (&args.path, &args.inputs), &gpu, options)?;
    workload.show_notices(&mut Notices::default());
    let mode = workload.session_of(0).timestamps();
    let profile = measure(&mut workload, args, mode)?;
    if global.json {
        serde_json::to_writer_pretty(&mut *out, &profile)?;
        writeln!(out)?;
    } else if args.tsv {
        write_tsv(&profile, out)?;
    } else if mode == TimestampMode::Off {
        writeln!(out, "{} ran; no timestamps were taken", counted(workload.len(), "step", "steps"))?;
    } else if profile.runs.iter().all(|run| run.samples.is_empty()) {
        writeln!(out, "no dispatch ran, so there is nothing to time")?;
    } else {
        write_steps(&profile, out)?;
        writeln!(out)?;
        write_kernels(&profile, out)?;
        let (warmup, repeat) = (args.warmup, args.repeat);
        writeln!(out, "each step ran {repeat}x, after {warmup}x unmeasured")?;
    }
    Ok(Verdict::Passed)
}

/// Runs all steps, first to warm up and then to measure.
fn measure(workload: &mut Workload, args: &ProfileArgs, mode: TimestampMode) -> Result<Profile> {
    let rounds = u64::from(args.warmup) + u64::from(args.repeat);
    // Hidden where stderr is no terminal.
    let progress = ProgressBar::new(rounds * workload.len() as u64);
    let mut profile = Profile { warmup: args.warmup, ..Profile::default() };
    for round in 0..rounds {
        let measured = round >= u64::from(args.warmup);
        for session in workload.sessions() {
            session.reset();
            session.set_timestamps(if measured { mode } else { TimestampMode::Off });
        }
        for step in 0..workload.len() {
            workload.run(step)?;
            profile.merge(workload.take_profile(step)?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(profile)
}

/// One row a step and kernel. Microseconds are the mean over repetitions of what the step spent in the kernel.
fn write_steps(profile: &Profile, out: &mut impl Write) -> Result<()> {
    let mut table = table(&[
        Column::Number("step"),
        Column::Text("kernel"),
        Column::Number("dispatches"),
        Column::Number("workgroups"),
        Column::Number("µs"),
    ]);
    let mut steps: BTreeMap<u64, Vec<&RunProfile>> = BTreeMap::new();
    for run in &profile.runs {
        steps.entry(run.step).or_default().push(run);
    }
    for (step, runs) in steps {
        let repeats = runs.len() as u64;
        let first = &runs[0].samples;
        for (index, kernel) in profile.of_runs(runs.iter().copied()).kernels().iter().enumerate() {
            let workgroups: u64 = first
                .iter()
                .filter(|sample| sample.timed.kernel == kernel.kernel)
                .map(|sample| sample.timed.workgroups.iter().map(|&size| u64::from(size)).product::<u64>())
                .sum();
            let durations = &kernel.durations;
            let total_ns = (durations.counted > 0).then_some(durations.total_ns / repeats as f64);
            table.add_row([
                if index == 0 { step.to_string() } else { String::new() },
                kernel.kernel.to_string(),
                (durations.dispatches / repeats).to_string(),
                workgroups.to_string(),
                microseconds(total_ns),
            ]);
        }
    }
    write!(out, "{}", text(&table))?;
    Ok(())
}

/// One row a kernel over all steps, and how it was measured.
pub(crate) fn write_kernels(profile: &Profile, out: &mut impl Write) -> Result<()> {
    let mut table = table(&[
        Column::Text("kernel"),
        Column::Number("dispatches"),
        Column::Number("mean µs"),
        Column::Number("total µs"),
        Column::Number("share"),
    ]);
    let kernels = profile.kernels();
    for kernel in &kernels {
        let durations = &kernel.durations;
        table.add_row([
            kernel.kernel.to_string(),
            durations.dispatches.to_string(),
            microseconds(durations.mean_ns()),
            microseconds((durations.counted > 0).then_some(durations.total_ns)),
            percent(kernel.share),
        ]);
    }
    write!(out, "{}", text(&table))?;
    let method = match profile.mode {
        TimestampMode::Pass => "pass: each dispatch in a pass of its own, stamped at begin and end",
        TimestampMode::Inside => "inside: all dispatches in one pass, stamped before and after each",
        TimestampMode::Off => "off",
    };
    writeln!(out, "\ntimestamps {method}")?;
    write_adapter(&profile.adapter, out)?;
    write_flags(&kernels, out)
}

/// How many samples are not simply good, and why.
fn write_flags(kernels: &[KernelSummary], out: &mut impl Write) -> Result<()> {
    let mut flags: BTreeMap<Quality, u64> = BTreeMap::new();
    for (&quality, count) in kernels.iter().flat_map(|kernel| &kernel.durations.flagged) {
        *flags.entry(quality).or_default() += count;
    }
    for (quality, count) in flags {
        let dispatches = counted(count as usize, "dispatch", "dispatches");
        let what = match quality {
            Quality::OverlapRemoved => "overlapped the one before: counted from its end",
            Quality::OutOfOrder => "ended before an earlier one: in no figure",
            Quality::Negative => "ended before they began: in no figure",
            Quality::NotMeasured => "have no timestamps: in no figure",
            Quality::BelowQuantum => "took less than the clock can tell: in no figure",
            _ => quality.name(),
        };
        writeln!(out, "{dispatches} {what}")?;
    }
    Ok(())
}

/// One line a dispatch. A name's tabs, newlines and backslashes are escaped, so that every line has all columns.
fn write_tsv(profile: &Profile, out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "step\trun\tdispatch\tkernel\troute\toperator\tnode\tworkgroups_x\tworkgroups_y\tworkgroup_size\t\
         begin_ns\tend_ns\tduration_ns\tquality"
    )?;
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for run in &profile.runs {
        for sample in &run.samples {
            let timed = &sample.timed;
            let fields = [
                run.step.to_string(),
                run.run.to_string(),
                timed.dispatch.to_string(),
                escape(&timed.kernel),
                timed.route.map_or(String::new(), |route| route.to_string()),
                escape(&timed.operator),
                timed.node.to_string(),
                timed.workgroups[0].to_string(),
                timed.workgroups[1].to_string(),
                timed.workgroup_size.to_string(),
                number(sample.begin_ns),
                number(sample.end_ns),
                number(sample.duration_ns),
                sample.quality.name().to_owned(),
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
    use torchlight::profile::{DeviceClock, HostTimes, TickPair, Timed, samples};

    const AWKWARD: &str = "a \"quoted\" \\ back\tslash,\nnew line, größe 核";

    fn profile() -> Profile {
        let timed = Timed {
            dispatch: 0,
            kernel: AWKWARD.into(),
            route: None,
            operator: AWKWARD.into(),
            node: 3,
            instruction: 0,
            shape: AWKWARD.into(),
            context_len: None,
            workgroups: [2, 1],
            workgroup_size: 64,
            bytes: 0,
            flops: 0,
        };
        let clock = DeviceClock { period_ns: 1.0, quantum_ticks: 1 };
        let samples = samples(vec![timed; 2], &[TickPair { begin: 0, end: 0 }; 2], clock);
        let host = HostTimes::default();
        let run = RunProfile { run: 0, step: 0, mode: TimestampMode::Pass, clock, start_ns: 0.0, host, samples };
        Profile::default().of_runs([&run])
    }

    #[test]
    fn awkward_names_leave_every_line_whole() {
        let mut out = Vec::new();
        write_tsv(&profile(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        for line in lines {
            assert_eq!(line.split('\t').count(), 14, "{line}");
        }
    }

    #[test]
    fn awkward_names_survive_json() {
        let text = serde_json::to_string(&profile()).unwrap();
        let back: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["runs"][0]["samples"][1]["kernel"], AWKWARD);
        assert!(back["runs"][0]["samples"][0]["duration_ns"].is_null());
    }

    #[test]
    fn what_was_not_measured_is_a_dash_and_is_counted() {
        let mut out = Vec::new();
        write_kernels(&profile(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("2 dispatches have no timestamps"), "{text}");
        assert!(!text.contains("0.00"), "{text}");
    }
}
