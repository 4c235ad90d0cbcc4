//! Tables for an 80-column terminal, and numbers as they stand in them.

use comfy_table::{Cell, CellAlignment, Table, presets};

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
    table.set_header(columns.iter().map(|column| match column {
        Column::Text(heading) => Cell::new(heading),
        Column::Number(heading) => Cell::new(heading).set_alignment(CellAlignment::Right),
    }));
    for (index, column) in columns.iter().enumerate() {
        if let Some(settings) = table.column_mut(index) {
            settings.set_padding((0, 2));
            if matches!(column, Column::Number(_)) {
                settings.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table
}

/// A table as text, without spaces at the ends of lines.
pub(crate) fn text(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Microseconds of nanoseconds, or a dash where nothing was measured.
pub(crate) fn microseconds(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns / 1000.0))
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
    fn bytes_have_units() {
        assert_eq!([bytes(0), bytes(1023), bytes(1024), bytes(3 << 29)], ["0 B", "1023 B", "1.0 KiB", "1.5 GiB"]);
    }
}
