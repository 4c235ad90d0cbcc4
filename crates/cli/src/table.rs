//! Tables for an 80-column terminal, and numbers as they stand in them.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use torchlight::profile::Peaks;

/// How many columns a terminal has at least.
pub(crate) const WIDTH: u16 = 80;

/// A column: its heading, and on which side its cells stand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Text, on the left.
    Text(&'static str),
    /// Numbers, on the right.
    Number(&'static str),
}

/// An empty table with these columns.
pub(crate) fn table(columns: &[Column]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    // Long names are broken over several lines of their cell.
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(WIDTH + PADDING);
    table.set_header(columns.iter().map(|column| match column {
        Column::Text(heading) => Cell::new(heading),
        Column::Number(heading) => Cell::new(heading).set_alignment(CellAlignment::Right),
    }));
    for (index, column) in columns.iter().enumerate() {
        if let Some(settings) = table.column_mut(index) {
            settings.set_padding((0, PADDING));
            if matches!(column, Column::Number(_)) {
                settings.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table
}

/// Spaces between columns.
const PADDING: u16 = 2;

/// A line, broken at spaces where it is wider than the terminal; what follows the first line is indented by so much.
pub(crate) fn wrap(line: &str, indent: usize) -> String {
    let mut text = String::new();
    let mut width = 0;
    for (index, word) in line.split(' ').enumerate() {
        let length = word.chars().count();
        if index > 0 && !text.trim_start().is_empty() && width + 1 + length > usize::from(WIDTH) {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent));
            width = indent;
        } else if index > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text
}

/// A count with its noun, in the singular where it is 1.
pub(crate) fn counted(count: usize, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

/// A table as text, without spaces at the ends of lines.
pub(crate) fn text(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Microseconds of nanoseconds, or a dash where nothing was measured.
pub(crate) fn microseconds(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns / 1000.0))
}

/// What a device was measured to do, in words.
pub(crate) fn peaks_text(peaks: &Peaks) -> String {
    let arithmetic =
        [("f32", Some(peaks.f32_gflops)), ("f16", peaks.f16_gflops), ("cooperative matrices", peaks.matrix_gflops)];
    let rates = arithmetic.iter().filter(|(_, gflops)| gflops.is_some());
    let rates: Vec<String> = rates.map(|(name, gflops)| format!("{name}: {} GFLOP/s", rate(*gflops))).collect();
    format!("copy: {} GB/s, {}", rate(Some(peaks.copy_gbps)), rates.join(", "))
}

/// A rate with three digits that matter, or a dash where nothing was measured.
pub(crate) fn rate(rate: Option<f64>) -> String {
    let Some(rate) = rate else { return "-".to_owned() };
    let decimals = match rate {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{rate:.decimals$}")
}

/// A share as a percentage, or a dash.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Bytes in the largest binary unit that leaves at least 1.
pub(crate) fn bytes(count: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, shift)| count >= 1 << shift);
    unit.map_or_else(
        || format!("{count} B"),
        |(name, shift)| format!("{:.1} {name}", count as f64 / (1u64 << shift) as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_were_not_measured_are_dashes() {
        assert_eq!(
            (microseconds(None), microseconds(Some(0.0)), microseconds(Some(1234.5))),
            ("-".into(), "0.00".into(), "1.23".into())
        );
        assert_eq!((percent(None), percent(Some(0.125))), ("-".into(), "12.5 %".into()));
    }

    #[test]
    fn wide_lines_and_tables_are_broken() {
        assert_eq!(wrap("  short  line", 4), "  short  line");
        let words = "  one two three, four five six, seven eight nine, ten eleven twelve, thirteen fourteen, fifteen";
        let wanted =
            "  one two three, four five six, seven eight nine, ten eleven twelve, thirteen\n    fourteen, fifteen";
        assert_eq!(wrap(words, 4), wanted);
        assert_eq!(wrap(&"x".repeat(100), 4), "x".repeat(100));
        let mut table = table(&[Column::Text("name"), Column::Number("count")]);
        table.add_row(["long-name ".repeat(20), "7".into()]);
        let text = text(&table);
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn rates_have_three_digits() {
        let rates = [4277.3, 24.25, 1.333, 0.0213].map(|value| rate(Some(value)));
        assert_eq!(rates, ["4277", "24.2", "1.33", "0.021"]);
        assert_eq!(rate(None), "-");
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!([bytes(0), bytes(1023), bytes(1024), bytes(3 << 29)], ["0 B", "1023 B", "1.0 KiB", "1.5 GiB"]);
    }
}
