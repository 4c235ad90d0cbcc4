//! Tables of dispatches, one row each, separated by commas or by tabs.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io;

use csv::{QuoteStyle, Writer, WriterBuilder};

use crate::profile::{Profile, RunProfile, Sample};

/// Writes a value of a row, or nothing where it was not measured.
type Field = fn(&mut String, &RunProfile, &Sample);

/// The columns: names, as in the JSON export, and values.
const COLUMNS: [(&str, Field); 20] = [
    ("step", |field, run, _| put(field, Some(run.step))),
    ("run", |field, run, _| put(field, Some(run.run))),
    ("dispatch", |field, _, sample| put(field, Some(sample.timed.dispatch))),
    ("kernel", |field, _, sample| put(field, Some(&sample.timed.kernel))),
    ("route", |field, _, sample| put(field, sample.timed.route)),
    ("operator", |field, _, sample| put(field, Some(&sample.timed.operator))),
    ("node", |field, _, sample| put(field, Some(sample.timed.node))),
    ("shape", |field, _, sample| put(field, Some(&sample.timed.shape))),
    ("context_len", |field, _, sample| put(field, sample.timed.context_len)),
    ("workgroups_x", |field, _, sample| put(field, Some(sample.timed.workgroups[0]))),
    ("workgroups_y", |field, _, sample| put(field, Some(sample.timed.workgroups[1]))),
    ("workgroup_size", |field, _, sample| put(field, Some(sample.timed.workgroup_size))),
    ("bytes", |field, _, sample| put(field, Some(sample.timed.bytes))),
    ("flops", |field, _, sample| put(field, Some(sample.timed.flops))),
    ("begin_ticks", |field, _, sample| put(field, Some(sample.ticks.begin))),
    ("end_ticks", |field, _, sample| put(field, Some(sample.ticks.end))),
    ("begin_ns", |field, _, sample| put(field, sample.begin_ns)),
    ("end_ns", |field, _, sample| put(field, sample.end_ns)),
    ("duration_ns", |field, _, sample| put(field, sample.duration_ns)),
    ("quality", |field, _, sample| put(field, Some(sample.quality.name()))),
];

fn put(field: &mut String, value: Option<impl Display>) {
    if let Some(value) = value {
        write!(field, "{value}").expect("writing to a string does not fail");
    }
}

/// Writes a row a dispatch, separated by commas, quoted where a value needs it (RFC 4180, with newlines alone).
///
/// What was not measured is an empty field, never 0.
///
/// # Errors
/// The writer's.
pub fn write_csv(profile: &Profile, out: &mut impl io::Write) -> io::Result<()> {
    write_rows(profile, WriterBuilder::new().from_writer(out), |field| Cow::Borrowed(field))
}

/// Writes a row a dispatch, separated by tabs, each on one line: a backslash, tab, newline or carriage return inside of
/// a value is written as `\\`, `\t`, `\n` or `\r`, and nothing is quoted.
///
/// What was not measured is an empty field, never 0.
///
/// # Errors
/// The writer's.
pub fn write_tsv(profile: &Profile, out: &mut impl io::Write) -> io::Result<()> {
    let writer = WriterBuilder::new().delimiter(b'\t').quote_style(QuoteStyle::Never).from_writer(out);
    write_rows(profile, writer, escape)
}

fn write_rows(
    profile: &Profile,
    mut table: Writer<impl io::Write>,
    encode: fn(&str) -> Cow<'_, str>,
) -> io::Result<()> {
    table.write_record(COLUMNS.map(|(name, _)| name))?;
    let mut field = String::new();
    for run in &profile.runs {
        for sample in &run.samples {
            for (_, write) in COLUMNS {
                field.clear();
                write(&mut field, run, sample);
                table.write_field(encode(&field).as_bytes())?;
            }
            table.write_record(None::<&[u8]>)?;
        }
    }
    table.flush()
}

fn escape(field: &str) -> Cow<'_, str> {
    if !field.contains(['\\', '\t', '\n', '\r']) {
        return Cow::Borrowed(field);
    }
    let mut escaped = String::with_capacity(field.len());
    for character in field.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}
