//! `torchlight profile`: where the GPU's time goes, step by step and kernel by kernel.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use torchlight::{Profile, TimestampMode};

use crate::Verdict;
use crate::attention::{AttentionArgs, write_choices};
use crate::calibration;
use crate::device::{GlobalArgs, Notices, TimestampArg, session_options};
use crate::export::{Format, write_profile, write_whole};
use crate::overhead;
use crate::profile_tables::{write_kernels, write_statistics, write_steps, write_times};
use crate::synthetic::InputArgs;
use crate::table::counted;
use crate::workload::Workload;

/// Options of `profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// A case folder, or a .pte file.
    #[arg(value_name = "CASE_DIR|FILE")]
    path: PathBuf,

    #[command(flatten)]
    inputs: InputArgs,

    #[command(flatten)]
    attention: AttentionArgs,

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

    /// Print quantiles, bandwidth and arithmetic rate as well, by shape and context.
    #[arg(long)]
    detail: bool,

    /// Write the profile to a file as well; its ending names the format.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// The format of --out, or of what is printed where there is none.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Say for each attention and each linear layer which route its smallest and its largest runs take, and why no other.
    #[arg(long, conflicts_with_all = ["json", "tsv", "format"])]
    explain: bool,

    /// Measure what timestamps cost: run without, with pass and with inside timestamps, alternately.
    #[arg(long, conflicts_with_all = ["tsv", "out", "format", "detail"])]
    overhead: bool,
}

/// Profiles a program or a case.
pub(crate) fn profile(global: &GlobalArgs, args: &ProfileArgs, out: &mut impl Write) -> Result<Verdict> {
    // What cannot be written is refused before anything is measured.
    let file = match (&args.out, args.format) {
        (Some(path), Some(format)) => Some((path, format)),
        (Some(path), None) => Some((path, Format::of(path)?)),
        (None, _) => None,
    };
    let options = session_options(Some(args.timestamps), &args.attention)?;
    let gpu = global.open()?;
    let mut workload = Workload::open(global, (&args.path, &args.inputs), &gpu, options)?;
    workload.show_notices(&mut Notices::default());
    if args.explain {
        for session in workload.sessions() {
            write_choices(session.plan(), session.graph(), out)?;
        }
    }
    if args.overhead {
        return profile_overhead(global, args, &mut workload, out);
    }
    let mode = workload.session_of(0).timestamps();
    let mut profile = measure(&mut workload, args, mode)?;
    profile.peaks = calibration::known(&profile.adapter);
    let title = args.path.display().to_string();
    if let Some((path, format)) = file {
        write_whole(path, |file| write_profile(&profile, format, &title, file))?;
    }
    let printed = match (args.format, global.json, args.tsv) {
        (Some(format), ..) if args.out.is_none() => Some(format),
        (_, true, _) => Some(Format::Json),
        (_, _, true) => Some(Format::Tsv),
        _ => None,
    };
    match printed {
        Some(format) => write_profile(&profile, format, &title, out)?,
        None => write_tables(&profile, args, (mode, workload.len()), out)?,
    }
    Ok(Verdict::Passed)
}

fn write_tables(
    profile: &Profile,
    args: &ProfileArgs,
    (mode, steps): (TimestampMode, usize),
    out: &mut impl Write,
) -> Result<()> {
    if mode == TimestampMode::Off {
        writeln!(out, "{} ran; no timestamps were taken", counted(steps, "step", "steps"))?;
        return Ok(());
    }
    if profile.statistics.is_empty() {
        writeln!(out, "no dispatch ran, so there is nothing to time")?;
        return Ok(());
    }
    write_steps(profile, out)?;
    writeln!(out)?;
    write_kernels(profile, out)?;
    write_times(profile, out)?;
    let (warmup, repeat) = (args.warmup, args.repeat);
    writeln!(out, "each step ran {repeat}x, after {warmup}x unmeasured")?;
    if args.detail {
        writeln!(out)?;
        write_statistics(profile, out)?;
    }
    Ok(())
}

fn profile_overhead(
    global: &GlobalArgs,
    args: &ProfileArgs,
    workload: &mut Workload,
    out: &mut impl Write,
) -> Result<Verdict> {
    let costs = overhead::measure(workload, args.warmup, args.repeat)?;
    if global.json {
        serde_json::to_writer_pretty(&mut *out, &costs)?;
        writeln!(out)?;
    } else {
        overhead::write_costs(&costs, out)?;
        let (warmup, repeat) = (args.warmup, args.repeat);
        writeln!(out, "each step ran {repeat}x in each mode, after {warmup}x unmeasured")?;
    }
    Ok(Verdict::Passed)
}

/// Runs all steps, first to warm up and then to measure.
fn measure(workload: &mut Workload, args: &ProfileArgs, mode: TimestampMode) -> Result<Profile> {
    let rounds = u64::from(args.warmup) + u64::from(args.repeat);
    // Hidden where stderr is no terminal.
    let progress = ProgressBar::new(rounds * workload.len() as u64);
    for round in 0..rounds {
        let measured = round >= u64::from(args.warmup);
        for session in workload.sessions() {
            session.reset();
            session.set_timestamps(if measured { mode } else { TimestampMode::Off });
        }
        for step in 0..workload.len() {
            workload.run(step)?;
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(Profile { warmup: args.warmup, ..workload.take_profile()? })
}
