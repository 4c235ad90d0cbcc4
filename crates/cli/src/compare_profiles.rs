//! `torchlight compare`: two profiles of `torchlight profile`, and which kernels became faster or slower.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use torchlight::Profile;
use torchlight::profile::export::read_json;
use torchlight::profile::{self, CompareOptions, Comparison, Interval, Key, KeyComparison};

use crate::Verdict;
use crate::device::GlobalArgs;
use crate::table::{Column, counted, microseconds, table, text, wrap};

/// Options of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The profile before: a file of `torchlight profile --out before.json`.
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// The profile after.
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// Exit with 1 where a kernel became slower by more than this, beyond noise: 5% or 0.05.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true)]
    fail_above: Option<f64>,

    /// Compare profiles of different adapters or back ends.
    #[arg(long)]
    different_adapters: bool,
}

/// Reads `5%` or `0.05`. A bare number above 1 is refused, since whoever writes 5 means 5 % and not five times.
fn share(text: &str) -> Result<f64> {
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim_end().parse().ok().map(|percent: f64| percent / 100.0),
        None => text.trim().parse().ok().filter(|share: &f64| *share <= 1.0),
    };
    share.filter(|share| share.is_finite() && *share >= 0.0).context("wanted a share of 0 or more, such as 5% or 0.05")
}

#[derive(Serialize)]
struct Report<'r> {
    #[serde(flatten)]
    comparison: &'r Comparison,
    fail_above: Option<f64>,
    regressions: Vec<&'r Key>,
}

/// Compares two profiles.
pub(crate) fn compare(global: &GlobalArgs, args: &CompareArgs, out: &mut impl Write) -> Result<Verdict> {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let options = CompareOptions { allow_different_adapters: args.different_adapters, ..CompareOptions::default() };
    let comparison = match profile::compare(&before, &after, &options) {
        Err(error @ profile::CompareError::Adapters { .. }) => bail!("{error}; --different-adapters allows that"),
        other => other?,
    };
    // A gate that has nothing to look at must not open.
    if args.fail_above.is_some() && comparison.total.is_none() {
        let few = options.min_durations;
        bail!("nothing to judge: no kernel was measured {few} times or more on the same shapes in both profiles");
    }
    let regressions: Vec<&KeyComparison> =
        args.fail_above.map_or_else(Vec::new, |threshold| comparison.regressions(threshold).collect());
    if global.json {
        let keys = regressions.iter().map(|regression| &regression.key).collect();
        let report = Report { comparison: &comparison, fail_above: args.fail_above, regressions: keys };
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        write_keys(&comparison, out)?;
        let mut lines = summary(&comparison, &options);
        lines.extend(args.fail_above.into_iter().flat_map(|threshold| gate(threshold, &regressions)));
        for line in lines {
            writeln!(out, "{}", wrap(&line, 4))?;
        }
    }
    Ok(if regressions.is_empty() { Verdict::Passed } else { Verdict::Missed })
}

fn read(path: &Path) -> Result<Profile> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    read_json(&bytes).with_context(|| path.display().to_string())
}

/// One row a key: slower ones first, then faster ones, each with the most time first.
fn write_keys(comparison: &Comparison, out: &mut impl Write) -> Result<()> {
    if comparison.keys.is_empty() {
        writeln!(out, "the profiles have no kernel on the same shapes in common\n")?;
        return Ok(());
    }
    let mut rows: Vec<&KeyComparison> = comparison.keys.iter().collect();
    rows.sort_by(|a, b| by_weight(a, b));
    let routes: BTreeSet<_> = rows.iter().filter_map(|row| row.key.route).collect();
    let several_routes = routes.len() > 1;
    let mut table = table(&[
        Column::Text("kernel, shape, context"),
        Column::Number("before µs"),
        Column::Number("after µs"),
        Column::Number("ratio"),
        Column::Number("interval"),
        Column::Text(""),
    ]);
    for row in rows {
        table.add_row([
            cell(&row.key, several_routes),
            microseconds(row.before.median_ns),
            microseconds(row.after.median_ns),
            row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
            row.interval.map_or_else(|| "-".to_owned(), |Interval { low, high }| format!("{low:.3}-{high:.3}")),
            row.verdict.name().to_owned(),
        ]);
    }
    writeln!(out, "{}", text(&table))?;
    Ok(())
}

fn by_weight(a: &KeyComparison, b: &KeyComparison) -> Ordering {
    let rank = |row: &KeyComparison| match row.verdict {
        profile::Verdict::Slower => 0,
        profile::Verdict::Faster => 1,
        profile::Verdict::Noise => 2,
        profile::Verdict::TooFew => 3,
    };
    // What changed weighs by what the change costs or saves, the others by what they take.
    let weight = |row: &KeyComparison| match row.verdict {
        profile::Verdict::Slower | profile::Verdict::Faster => row.cost_ns().map_or(0.0, f64::abs),
        profile::Verdict::Noise | profile::Verdict::TooFew => row.before_ns().unwrap_or(0.0),
    };
    rank(a).cmp(&rank(b)).then(weight(b).total_cmp(&weight(a))).then_with(|| a.key.cmp(&b.key))
}

/// A key in one line.
fn line(key: &Key) -> String {
    format!("{} {}", key.kernel, place(key, true).join(", "))
}

/// What a key says besides its kernel.
fn place(key: &Key, with_route: bool) -> Vec<String> {
    let context = key.context_bucket.map(|context| format!("context {context}+"));
    let route = key.route.filter(|_| with_route).map(|route| route.to_string());
    [Some(key.shape.to_string()), context, route].into_iter().flatten().collect()
}

/// A key in a cell: the kernel, and below it the rest, in as few lines as the column has room for.
fn cell(key: &Key, with_route: bool) -> String {
    const ROOM: usize = 28;
    let mut lines: Vec<String> = Vec::new();
    for part in place(key, with_route) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + ", ".len() + part.chars().count() <= ROOM => {
                line.push_str(", ");
                line.push_str(&part);
            }
            _ => lines.push(format!("  {part}")),
        }
    }
    format!("{}\n{}", key.kernel, lines.join("\n"))
}

/// What changed in all, in plain words, and how that was judged.
fn summary(comparison: &Comparison, options: &CompareOptions) -> Vec<String> {
    let mut lines = vec![in_all(comparison)];
    let few = comparison.keys.iter().filter(|key| key.verdict == profile::Verdict::TooFew).count();
    if few > 0 {
        let few = counted(few, "row has", "rows have");
        lines.push(format!("{few} fewer than {} durations in a profile: too few to judge", options.min_durations));
    }
    for (side, keys) in [("before", &comparison.only_before), ("after", &comparison.only_after)] {
        if !keys.is_empty() {
            lines.push(format!("only {side}:"));
            lines.extend(keys.iter().map(|key| format!("  {}", line(key))));
        }
    }
    lines.extend(comparison.notes.iter().map(|note| format!("note: {note}")));
    if comparison.before.is_cpu || comparison.after.is_cpu {
        lines.push("an adapter is a CPU: its times say nothing about GPUs".to_owned());
    }
    let (confidence, least) = (comparison.confidence * 100.0, comparison.resolution * 100.0);
    let step = comparison.clock_step_ns.map(|step| (step * 10.0).round() / 10.0);
    let step = step.map_or_else(String::new, |step| format!(" or one clock step of {step} ns"));
    lines.push(format!(
        "a ratio is that of the medians, its interval holds {confidence:.0} % of {} resamples; noise is what includes 1, \
         or is within {least:.0} %{step}",
        options.resamples
    ));
    lines.push(
        "the intervals know the noise within each profile, and not what became of the machine between them: two profiles \
         of the same program show that"
            .to_owned(),
    );
    lines
}

/// How many rows changed, and by how much all of them together.
fn in_all(comparison: &Comparison) -> String {
    let Some(total) = comparison.total else { return "nothing can be judged".to_owned() };
    let count = |verdict| comparison.keys.iter().filter(|key| key.verdict == verdict).count();
    let rows = counted(total.keys, "row", "rows");
    let changed = match (count(profile::Verdict::Slower), count(profile::Verdict::Faster)) {
        (0, 0) => format!("none of {rows} changed beyond noise"),
        (slower, faster) => format!("beyond noise {slower} of {rows} became slower and {faster} faster"),
    };
    // Adding 0 makes -0 to 0.
    let change = |ratio: f64| format!("{:+.1} %", ((ratio - 1.0) * 1000.0).round() / 10.0 + 0.0);
    let (ratio, low, high) = (change(total.ratio), change(total.interval.low), change(total.interval.high));
    let noise = if total.verdict == profile::Verdict::Noise { ", which is noise" } else { "" };
    format!("{changed}; the time of all together changed by {ratio} ({low} to {high}){noise}")
}

/// Whether a regression is beyond the threshold, and which.
fn gate(threshold: f64, regressions: &[&KeyComparison]) -> Vec<String> {
    let mut lines = Vec::new();
    for KeyComparison { key, interval, .. } in regressions {
        let least =
            interval.map_or_else(String::new, |interval| format!(" by {:.1} % at least", (interval.low - 1.0) * 100.0));
        lines.push(format!("REGRESSED {}: slower{least}", line(key)));
    }
    // Rounded, since 7 % is 7.000000000000001 % by way of 0.07.
    let percent = (threshold * 1e6).round() / 1e4;
    lines.push(match regressions.len() {
        0 => format!("no row became slower by more than {percent} % beyond noise"),
        count => format!("{} slower by more than {percent} % beyond noise", counted(count, "row is", "rows are")),
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages_or_fractions() {
        for (text, wanted) in [("5%", 0.05), ("0.05", 0.05), ("2.5 %", 0.025), ("0", 0.0), ("1", 1.0), ("150%", 1.5)] {
            assert_eq!(share(text).unwrap(), wanted, "{text}");
        }
        for text in ["5", "-5%", "-0.1", "nan", "NaN%", "inf", "inf%", "%", "", "5%%", "five"] {
            let error = share(text).unwrap_err().to_string();
            assert_eq!(error, "wanted a share of 0 or more, such as 5% or 0.05", "{text}");
        }
    }
}
