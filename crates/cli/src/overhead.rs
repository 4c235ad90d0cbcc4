//! `torchlight profile --overhead`: what looking costs.

use std::io::Write;
use std::time::Instant;

use anyhow::Result;
use indicatif::ProgressBar;
use serde::Serialize;
use torchlight::TimestampMode;

use crate::profile_tables::median;
use crate::table::{Column, microseconds, table, text};
use crate::workload::Workload;

/// What runs in one mode cost.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ModeCost {
    mode: TimestampMode,
    /// Median wall time of a step, from the call to its return, in ns.
    wall_ns: f64,
    /// Median sum of a step's kernels, where it is timed.
    sum_ns: Option<f64>,
    /// Median span from the first begin to the last end, where it is timed.
    span_ns: Option<f64>,
    /// What a dispatch costs more than without timestamps, in wall time.
    per_dispatch_ns: Option<f64>,
}

/// Runs all steps in each mode alternately, so that a drift of clocks meets all modes alike.
pub(crate) fn measure(workload: &mut Workload, warmup: u32, repeat: u32) -> Result<Vec<ModeCost>> {
    let modes: Vec<TimestampMode> =
        [TimestampMode::Off, TimestampMode::Run, TimestampMode::Pass, TimestampMode::Inside]
            .into_iter()
            .filter(|&mode| {
                let session = workload.session_of(0);
                session.set_timestamps(mode);
                session.timestamps() == mode
            })
            .collect();
    let rounds = warmup + repeat;
    let progress = ProgressBar::new(u64::from(rounds) * modes.len() as u64);
    let mut seen: Vec<Seen> = modes.iter().map(|_| Seen::default()).collect();
    for round in 0..rounds {
        for (mode, seen) in modes.iter().zip(&mut seen) {
            for session in workload.sessions() {
                session.reset();
                session.set_timestamps(*mode);
            }
            for step in 0..workload.len() {
                let start = Instant::now();
                workload.run(step)?;
                let wall_ns = start.elapsed().as_nanos() as f64;
                let profile = workload.take_profile()?;
                if round >= warmup {
                    seen.wall.push(wall_ns);
                    seen.sum.extend(profile.runs.iter().filter_map(torchlight::RunProfile::sum_ns));
                    seen.span.extend(profile.runs.iter().filter_map(torchlight::RunProfile::span_ns));
                }
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let dispatches: usize = (0..workload.len()).map(|step| workload.session_of(step).plan().dispatches().count()).sum();
    let dispatches = dispatches as f64 / workload.len() as f64;
    let off = seen.first().and_then(|seen| median(seen.wall.iter().copied())).unwrap_or(f64::NAN);
    let cost = |(mode, seen): (&TimestampMode, &Seen)| {
        let of = |values: &[f64]| median(values.iter().copied());
        let wall_ns = of(&seen.wall).unwrap_or(f64::NAN);
        ModeCost {
            mode: *mode,
            wall_ns,
            sum_ns: of(&seen.sum),
            span_ns: of(&seen.span),
            per_dispatch_ns: (*mode != TimestampMode::Off && dispatches > 0.0).then(|| (wall_ns - off) / dispatches),
        }
    };
    Ok(modes.iter().zip(&seen).map(cost).collect())
}

#[derive(Default)]
struct Seen {
    wall: Vec<f64>,
    sum: Vec<f64>,
    span: Vec<f64>,
}

/// One row a mode.
pub(crate) fn write_costs(costs: &[ModeCost], out: &mut impl Write) -> Result<()> {
    let mut table = table(&[
        Column::Text("timestamps"),
        Column::Number("wall µs"),
        Column::Number("span µs"),
        Column::Number("sum µs"),
        Column::Number("more µs a dispatch"),
    ]);
    for cost in costs {
        table.add_row([
            cost.mode.to_string(),
            microseconds(Some(cost.wall_ns)),
            microseconds(cost.span_ns),
            microseconds(cost.sum_ns),
            microseconds(cost.per_dispatch_ns),
        ]);
    }
    write!(out, "{}", text(&table))?;
    writeln!(out, "\nmedians of a step; wall: from the call to its return, results included;")?;
    writeln!(out, "span: from the first kernel's begin to the last one's end; sum: kernels alone")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_timed_is_a_dash() {
        let cost =
            ModeCost { mode: TimestampMode::Off, wall_ns: 2000.0, sum_ns: None, span_ns: None, per_dispatch_ns: None };
        let mut out = Vec::new();
        write_costs(&[cost], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["off", "2.00", "-", "-", "-"]);
    }
}
