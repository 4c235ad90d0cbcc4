//! Tables of a profile: by step, by kernel, and by shape and context.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use torchlight::profile::{Durations, KernelSummary, Key, Peaks, Quality};
use torchlight::{Profile, RunProfile, TimestampMode};

use crate::device::write_adapter;
use crate::table::{Column, counted, microseconds, peaks_text, percent, rate, table, text, wrap};

/// One row a step and kernel. Microseconds are the mean over repetitions of what the step spent in the kernel.
pub(crate) fn write_steps(profile: &Profile, out: &mut impl Write) -> Result<()> {
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
        TimestampMode::Run => "run: all dispatches in one pass, stamped at its begin and end",
        TimestampMode::Off => "off",
    };
    writeln!(out, "\ntimestamps {method}")?;
    write_adapter(&profile.adapter, out)?;
    if profile.dropped_runs > 0 {
        let runs = counted(profile.dropped_runs as usize, "early run", "early runs");
        writeln!(out, "{runs} beyond what is kept: in the figures by kernel, not in those by step")?;
    }
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

/// Where the time of a run goes, kernels and host: medians over the kept runs.
pub(crate) fn write_times(profile: &Profile, out: &mut impl Write) -> Result<()> {
    let us = |value: fn(&RunProfile) -> Option<f64>| microseconds(median(profile.runs.iter().filter_map(value)));
    let (sum, span, wall) = (us(RunProfile::sum_ns), us(RunProfile::span_ns), us(|run| Some(run.host.wall_ns)));
    writeln!(out, "a run, medians in µs: sum of kernels {sum}, first begin to last end {span}")?;
    let named = [
        ("prepare", us(|run| Some(run.host.prepare_ns))),
        ("encode", us(|run| Some(run.host.encode_ns))),
        ("submit", us(|run| Some(run.host.submit_ns))),
        ("wait", us(|run| Some(run.host.wait_ns))),
        ("readback", us(|run| Some(run.host.readback_ns))),
        ("unnamed", us(|run| Some(run.host.unattributed_ns()))),
    ];
    let parts: Vec<String> = named.iter().map(|(name, time)| format!("{name} {time}")).collect();
    writeln!(out, "{}", wrap(&format!("host: wall {wall} of {}", parts.join(", ")), 4))?;
    Ok(())
}

/// The middle of some values, the upper one of two.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// One block a kernel, route and shape, and in it one row a range of contexts.
pub(crate) fn write_statistics(profile: &Profile, out: &mut impl Write) -> Result<()> {
    let mut blocks: BTreeMap<Key, Vec<(&Key, &Durations)>> = BTreeMap::new();
    for entry in &profile.statistics {
        let block = Key { context_bucket: None, ..entry.key.clone() };
        blocks.entry(block).or_default().push((&entry.key, &entry.durations));
    }
    for (block, rows) in blocks {
        let route = block.route.map_or(String::new(), |route| format!(", {route}"));
        writeln!(out, "{}", wrap(&format!("{}{route}, {}", block.kernel, block.shape), 2))?;
        let mut table = table(&[
            Column::Number("context"),
            Column::Number("n"),
            Column::Number("min µs"),
            Column::Number("p50"),
            Column::Number("p90"),
            Column::Number("p99"),
            Column::Number("mean"),
            Column::Number("GB/s"),
            Column::Number("GFLOP/s"),
            Column::Number("of peak"),
        ]);
        for (key, durations) in rows {
            let [p50, p90, p99] = durations.quantiles_ns([0.5, 0.9, 0.99]);
            table.add_row([
                key.context_bucket.map_or_else(|| "-".to_owned(), context_range),
                durations.dispatches.to_string(),
                microseconds(durations.min_ns),
                microseconds(p50),
                microseconds(p90),
                microseconds(p99),
                microseconds(durations.mean_ns()),
                rate(durations.bandwidth_gbps()),
                rate(durations.gflops().filter(|_| durations.flops > 0.0)),
                percent(profile.peaks.and_then(|peaks| of_peak(key, durations, peaks))),
            ]);
        }
        writeln!(out, "{}", text(&table))?;
    }
    match profile.peaks {
        Some(peaks) => {
            let text = format!(
                "of peak: the larger of GB/s and GFLOP/s over what was measured here ({}), the arithmetic of a kernel \
                 over the kind that it uses",
                peaks_text(&peaks)
            );
            writeln!(out, "{}", wrap(&text, 0))?;
        }
        None => writeln!(out, "of peak: unknown until `torchlight devices --measure` has run")?,
    }
    Ok(())
}

/// The contexts from a power of two up to the next.
fn context_range(bucket: u32) -> String {
    if bucket == 1 { "1".to_owned() } else { format!("{bucket}..{}", u64::from(bucket) * 2 - 1) }
}

/// How close a kernel comes to what the device was measured to do, by the resource that it uses most.
fn of_peak(key: &Key, durations: &Durations, peaks: Peaks) -> Option<f64> {
    let bandwidth = durations.bandwidth_gbps()? / peaks.copy_gbps;
    let arithmetic = durations.gflops()? / arithmetic_peak(key, peaks)?;
    Some(bandwidth.max(arithmetic))
}

/// The rate that bounds a kernel's arithmetic: that of the matrix units for what runs on them.
fn arithmetic_peak(key: &Key, peaks: Peaks) -> Option<f64> {
    // Its kernel has several names; what joins their parts has another.
    if key.kernel.starts_with("sdpa_matrix") { peaks.matrix_gflops } else { Some(peaks.f32_gflops) }
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
    fn what_was_not_measured_is_a_dash_and_is_counted() {
        let mut out = Vec::new();
        write_kernels(&profile(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("2 dispatches have no timestamps"), "{text}");
        assert!(!text.contains("0.00"), "{text}");
    }

    #[test]
    fn statistics_of_what_was_not_measured_are_dashes() {
        let mut out = Vec::new();
        write_statistics(&profile(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let row: Vec<&str> =
            text.lines().find(|line| line.trim_start().starts_with('-')).unwrap().split_whitespace().collect();
        assert_eq!(row, ["-", "2", "-", "-", "-", "-", "-", "-", "-", "-"], "{text}");
    }

    #[test]
    fn contexts_are_ranges_between_powers_of_two() {
        assert_eq!([1, 2, 1024].map(context_range), ["1", "2..3", "1024..2047"]);
    }
}
