//! Time against context as an SVG: a panel for each family of steps, a line for each route, and what the device allows.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use torchlight::Route;

use super::report::{Report, Row};
use super::tables::families;

const WIDTH: u32 = 760;
const PANEL_HEIGHT: u32 = 380;
const FONT: &str = "sans-serif";

/// The steps of a panel: their title, and a row each.
type Panel<'r> = (String, Vec<&'r Row>);

/// A name for the legend, its colour, and points of context and microseconds.
type Line = (String, RGBColor, Vec<(f64, f64)>);

/// The plot as the text of an SVG file.
pub(crate) fn svg(report: &Report) -> Result<String> {
    let panels = panels(report);
    let mut svg = String::new();
    {
        let size = (WIDTH, PANEL_HEIGHT * panels.len().max(1) as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let failed = |error: &dyn std::fmt::Display| anyhow!("drawing the plot: {error}");
        root.fill(&WHITE).map_err(|error| failed(&error))?;
        for (area, panel) in root.split_evenly((panels.len().max(1), 1)).iter().zip(&panels) {
            draw(area, panel).map_err(|error| failed(&error))?;
        }
        root.present().map_err(|error| failed(&error))?;
    }
    Ok(svg)
}

/// Decode steps together, prefills of a whole prompt together, and what else has the same number of tokens.
fn panels(report: &Report) -> Vec<Panel<'_>> {
    let mut panels = Vec::new();
    for (title, rows) in families(report) {
        let mut kinds: BTreeMap<(bool, u32), Vec<&Row>> = BTreeMap::new();
        for row in rows {
            let (tokens, is_whole) = (row.shape.new_tokens, row.shape.new_tokens == row.shape.context_len);
            let is_prompt = is_whole && tokens > 1;
            kinds.entry((is_prompt, if is_prompt { 0 } else { tokens })).or_default().push(row);
        }
        for ((is_prompt, tokens), rows) in kinds {
            let kind = match (is_prompt, tokens) {
                (true, _) => "prefill of all keys".to_owned(),
                (false, 1) => "decode".to_owned(),
                (false, tokens) => format!("{tokens} new tokens"),
            };
            panels.push((format!("{title}: {kind} on {}", report.adapter), rows));
        }
    }
    panels
}

/// A line a route, then the limits: one of each kind that bounds a row, since matrices allow more than f32 does.
fn lines(rows: &[&Row]) -> Vec<Line> {
    let colours = [RGBColor(148, 103, 189), RGBColor(31, 119, 180), RGBColor(44, 160, 44), RGBColor(214, 39, 40)];
    let mut lines: Vec<Line> = Vec::new();
    for (route, colour) in Route::ALL.into_iter().zip(colours) {
        let of_route = || rows.iter().filter(|row| row.route == route);
        let points = |us: fn(&Row) -> f64| sorted(of_route().map(|row| (f64::from(row.shape.context_len), us(row))));
        if of_route().next().is_some() {
            lines.push((route.to_string(), colour, points(|row| row.amortised_us_p50)));
        }
    }
    let limit = |is_matrix: bool| {
        let of_units = rows.iter().filter(|row| (row.route == Route::Matrix) == is_matrix);
        sorted(of_units.map(|row| (f64::from(row.shape.context_len), row.limit_us)))
    };
    let [matrix, other] = [limit(true), limit(false)];
    let grey = RGBColor(120, 120, 120);
    if !matrix.is_empty() && matrix != other {
        lines.push(("limit with matrices".to_owned(), RGBColor(180, 180, 180), matrix));
    }
    if !other.is_empty() {
        lines.push(("limit".to_owned(), grey, other));
    } else if let Some((name, ..)) = lines.last_mut() {
        "limit".clone_into(name);
    }
    lines
}

fn sorted(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by(|a, b| a.0 == b.0);
    points
}

fn draw<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    (title, rows): &Panel<'_>,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
    let lines = lines(rows);
    let points = || lines.iter().flat_map(|(_, _, points)| points);
    let [x_range, y_range] = [around(points().map(|point| point.0)), around(points().map(|point| point.1))];
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .caption(title, (FONT, 18))
        .x_label_area_size(38)
        .y_label_area_size(62)
        .build_cartesian_2d(x_range.log_scale().base(2.0), y_range.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("keys in the cache")
        .y_desc("µs a step")
        .label_style((FONT, 15))
        .x_label_formatter(&|keys| format!("{keys:.0}"))
        .y_label_formatter(&|us| format!("{}", (us * 1000.0).round() / 1000.0))
        .light_line_style(RGBColor(240, 240, 240))
        .bold_line_style(RGBColor(225, 225, 225))
        .draw()?;
    for (name, colour, points) in &lines {
        let colour = *colour;
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, 15))
        .draw()
}

/// A range with all values well inside: an axis of logarithms needs two ends that differ.
fn around(values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    if least > most { 1.0..2.0 } else { least / 1.5..most * 1.5 }
}

#[cfg(test)]
mod tests {
    use super::super::report::testing::report;
    use super::*;

    #[test]
    fn every_route_and_limit_has_a_line_in_its_panel() {
        let svg = svg(&report(&[
            (Route::Split, 1, 512, 6.3),
            (Route::Split, 1, 32768, 27.0),
            (Route::Streaming, 2048, 2048, 738.0),
            (Route::Matrix, 2048, 2048, 97.4),
        ]))
        .unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
        let lines = svg.lines().map(str::trim);
        let count = |text: &str| lines.clone().filter(|line| *line == text).count();
        assert_eq!(
            ["split", "streaming", "matrix", "limit", "limit with matrices"].map(count),
            [1, 1, 1, 2, 1],
            "{svg}"
        );
        assert!(svg.contains("head_dim 64, f16 KV: decode on Testing GPU"), "{svg}");
    }

    #[test]
    fn a_report_without_rows_is_an_empty_plot() {
        assert!(svg(&report(&[])).unwrap().contains("</svg>"));
    }
}
