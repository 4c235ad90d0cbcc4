//! A benchmark of attention as text, Markdown and CSV.

use std::io::Write;

use anyhow::Result;
use torchlight::profile::Adapter;

use super::report::{Report, Row, Unserved};
use super::shapes::Heads;
use super::timing::{Clock, OwnPass};
use crate::device::write_adapter;
use crate::table::{Column, bytes, peaks_text, percent, rate, table, text, wrap};

const COLUMNS: [Column; 8] = [
    Column::Number("s/keys"),
    Column::Text("route"),
    Column::Number("µs p50"),
    Column::Number("p90"),
    Column::Number("GB/s"),
    Column::Number("TFLOP/s"),
    Column::Number("limit µs"),
    Column::Number("of limit"),
];

/// Tables for a terminal, and how they were made.
pub(crate) fn write_text(report: &Report, out: &mut impl Write) -> Result<()> {
    for (title, rows) in families(report) {
        writeln!(out, "{title}")?;
        let mut times = table(&COLUMNS);
        for row in &rows {
            times.add_row(cells(row));
        }
        writeln!(out, "{}", text(&times))?;
        write_stages(&rows, out)?;
    }
    write_unserved("refused", &report.refused, out)?;
    write_unserved("FAILED", &report.failed, out)?;
    for line in notes(report) {
        writeln!(out, "{}", wrap(&line, 4))?;
    }
    let Report { adapter: name, backend, driver, is_cpu, .. } = report;
    let adapter = Adapter { name: name.clone(), backend: backend.clone(), driver: driver.clone(), is_cpu: *is_cpu };
    write_adapter(&adapter, out)
}

/// What each kernel takes in a pass of its own.
fn write_stages(rows: &[&Row], out: &mut impl Write) -> Result<()> {
    if rows.iter().all(|row| row.own_pass_us.is_empty()) {
        return Ok(());
    }
    let mut stages = table(&[
        Column::Number("s/keys"),
        Column::Text("route"),
        Column::Number("own passes µs"),
        Column::Text("kernels"),
    ]);
    for row in rows {
        let kernels: Vec<String> = row
            .own_pass_us
            .iter()
            .map(|OwnPass { kernel, us_p50 }| format!("{kernel} {}", rate(Some(*us_p50))))
            .collect();
        stages.add_row([step(row), row.route.to_string(), rate(row.own_pass_us_sum), kernels.join(", ")]);
    }
    writeln!(out, "{}", text(&stages))?;
    Ok(())
}

/// Rows of the same heads and type of cache, in the order in which they were timed.
pub(crate) fn families(report: &Report) -> Vec<(String, Vec<&Row>)> {
    let mut families: Vec<((Heads, &str), Vec<&Row>)> = Vec::new();
    for row in &report.rows {
        let family = (row.shape.heads, row.kv);
        match families.iter_mut().find(|(known, _)| *known == family) {
            Some((_, rows)) => rows.push(row),
            None => families.push((family, vec![row])),
        }
    }
    families.into_iter().map(|((heads, kv), rows)| (format!("{heads}, {kv} KV"), rows)).collect()
}

fn step(row: &Row) -> String {
    format!("{}/{}", row.shape.new_tokens, row.shape.context_len)
}

fn cells(row: &Row) -> [String; COLUMNS.len()] {
    [
        step(row),
        row.route.to_string(),
        rate(Some(row.amortised_us_p50)),
        rate(Some(row.amortised_us_p90)),
        rate(Some(row.gbps)),
        rate(Some(row.tflops)),
        format!("{} {}", rate(Some(row.limit_us)), row.limit.name()),
        percent(Some(row.of_limit)),
    ]
}

fn write_unserved(verdict: &str, unserved: &[Unserved], out: &mut impl Write) -> Result<()> {
    for (what, steps, reason) in together(unserved) {
        writeln!(out, "{}", wrap(&format!("{verdict} {what}, {steps}: {reason}"), 4))?;
    }
    if !unserved.is_empty() {
        writeln!(out)?;
    }
    Ok(())
}

/// Route and heads, steps, and the reason that all of them share.
fn together(unserved: &[Unserved]) -> Vec<(String, String, &str)> {
    let mut groups: Vec<(String, String, &str)> = Vec::new();
    for Unserved { route, shape, reason } in unserved {
        let what = format!("{route}, {}", shape.heads);
        let step = format!("{}/{}", shape.new_tokens, shape.context_len);
        match groups.iter_mut().find(|(known, _, because)| *known == what && because == reason) {
            Some((_, steps, _)) => *steps += &format!(", {step}"),
            None => groups.push((what, step, reason)),
        }
    }
    groups
}

/// How the figures were made.
fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(worst) = report.rows.iter().map(|row| row.verified.rel_l2).reduce(f64::max) {
        notes.push(format!("every row was held against f64 before it was timed: relative error at most {worst:.1e}"));
    }
    let rotated = report.rows.iter().map(|row| row.rotated_bytes).min().map_or_else(String::new, bytes);
    notes.push(format!("µs: a step, of a pass of many that go round over {rotated} of K/V or more"));
    notes.push("own passes: each kernel in a pass by itself, with what its timestamps cost".to_owned());
    if report.rows.iter().any(|row| row.clock == Clock::Host) {
        notes.push("without timestamps: the host's clock, so submitting and waiting are in the times".into());
    }
    let limit = "limit: K, V, q and output once at the rate of a copy, or the products at that of";
    notes.push(format!("{limit} f32 or of matrices ({})", peaks_text(&report.peaks)));
    notes.extend(report.probe.as_ref().map(ToString::to_string));
    notes
}

/// The same as Markdown.
pub(crate) fn write_markdown(report: &Report, out: &mut impl Write) -> Result<()> {
    writeln!(out, "# Attention on {} ({}, {})\n", report.adapter, report.backend, report.driver)?;
    if report.is_cpu {
        writeln!(out, "This adapter is a CPU: its times say nothing about GPUs.\n")?;
    }
    for (title, rows) in families(report) {
        writeln!(out, "## {title}\n")?;
        writeln!(out, "| s | keys | route | µs p50 | p90 | own passes µs | GB/s | TFLOP/s | limit µs | of limit |")?;
        writeln!(out, "|{}", "---|".repeat(10))?;
        for row in rows {
            let [_, route, p50, p90, gbps, tflops, limit, of_limit] = cells(row);
            let (seq, keys, own) = (row.shape.new_tokens, row.shape.context_len, rate(row.own_pass_us_sum));
            writeln!(
                out,
                "| {seq} | {keys} | {route} | {p50} | {p90} | {own} | {gbps} | {tflops} | {limit} | {of_limit} |"
            )?;
        }
        writeln!(out)?;
    }
    for (verdict, unserved) in [("refused", &report.refused), ("FAILED", &report.failed)] {
        for (what, steps, reason) in together(unserved) {
            writeln!(out, "- {verdict} {what}, {steps}: {reason}")?;
        }
    }
    for note in notes(report) {
        writeln!(out, "- {note}")?;
    }
    Ok(())
}

/// One line a row; kernels of a step are separated by semicolons.
pub(crate) fn write_csv(report: &Report, out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "route,q_heads,kv_heads,head_dim,new_tokens,context_len,kv,amortised_us_p50,amortised_us_p90,own_pass_us_sum,\
         own_pass_us,gbps,tflops,limit,limit_us,of_limit,verified_rel_l2"
    )?;
    for row in &report.rows {
        let Heads { q_heads, kv_heads, head_dim } = row.shape.heads;
        let (new_tokens, context_len) = (row.shape.new_tokens, row.shape.context_len);
        write!(out, "{},{q_heads},{kv_heads},{head_dim},{new_tokens},{context_len},{},", row.route, row.kv)?;
        let kernels: Vec<String> =
            row.own_pass_us.iter().map(|OwnPass { kernel, us_p50 }| format!("{kernel}={us_p50:.3}")).collect();
        let sum = row.own_pass_us_sum.map_or(String::new(), |us| format!("{us:.3}"));
        let (p50, p90, kernels) = (row.amortised_us_p50, row.amortised_us_p90, kernels.join(";"));
        write!(out, "{p50:.3},{p90:.3},{sum},{kernels},{:.2},{:.3},", row.gbps, row.tflops)?;
        writeln!(out, "{},{:.3},{:.4},{:e}", row.limit.name(), row.limit_us, row.of_limit, row.verified.rel_l2)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::report::testing::report;
    use super::*;
    use torchlight::Route;

    #[test]
    fn tables_of_slow_and_fast_rows_fit_80_columns() {
        let report = report(&[
            (Route::Materialised, 128, 131_072, 123_456.8),
            (Route::Split, 1, 32768, 27.0),
            (Route::Matrix, 4096, 4096, 345.0),
        ]);
        let mut out = Vec::new();
        write_text(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        // No cell was broken over lines: a table has a line for its heading and one for each row.
        let rows = text.lines().skip(1).take_while(|line| !line.is_empty()).count();
        assert_eq!(rows, 4, "{text}");
    }

    #[test]
    fn csv_has_as_many_fields_in_each_line() {
        let mut out = Vec::new();
        write_csv(&report(&[(Route::Split, 1, 512, 6.0), (Route::Matrix, 16, 512, 9.0)]), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let fields: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(fields, [17; 3], "{text}");
    }

    #[test]
    fn markdown_has_a_table_a_family() {
        let mut out = Vec::new();
        write_markdown(&report(&[(Route::Split, 1, 512, 6.0)]), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("## 32 heads, 8 KV heads, head_dim 64, f16 KV\n"), "{text}");
        assert!(text.contains("| 1 | 512 | split | 6.00 |"), "{text}");
    }
}
