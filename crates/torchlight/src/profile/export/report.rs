//! A profile as one HTML page that needs nothing else: no server, no network, no fonts.
//!
//! The page is a template with its styles and scripts, and the profile as JSON in it. Every name reaches the page as data,
//! so no name is ever read as markup.

mod columns;
mod data;
mod table;
mod timeline;

use std::io::{self, Write};

use data::Data;

use crate::profile::Profile;

/// The page, with `{{name}}` where parts go.
const PAGE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/page.css");
/// In the order of use: they share one scope.
const SCRIPTS: [&str; 6] = [
    include_str!("report/common.js"),
    include_str!("report/head.js"),
    include_str!("report/bars.js"),
    include_str!("report/columns.js"),
    include_str!("report/timeline.js"),
    include_str!("report/table.js"),
];

/// No page is larger, whatever the profile.
const MOST_BYTES: usize = 500_000;

/// Writes a profile as a self-contained HTML page: what ran where, the kernels' times by step, a timeline of the runs that
/// were kept and a table of all statistics.
///
/// The page stays within 500,000 bytes. So the timeline holds at most 10,000 dispatches, or two runs: of more, whole runs
/// evenly from the first to the last. What does not fit then, such as 10,000 dispatches that have no name in common, is
/// left out too, and so are the table's lines with the least time. The page says so in each case. Kernels beyond the 64 with
/// the most time are shown as one, and of a name at most 200 characters.
///
/// # Errors
/// Those of `out`.
pub fn write_report(profile: &Profile, title: &str, out: &mut impl Write) -> io::Result<()> {
    let title = escape_html(&data::short(title));
    // The title is there twice, and all but the data in every page.
    let frame = [PAGE, &title, &title, STYLE].into_iter().chain(SCRIPTS).map(str::len).sum::<usize>();
    let mut rest = PAGE;
    while let Some((text, (part, after))) = next_part(rest) {
        out.write_all(text.as_bytes())?;
        match part {
            "title" => out.write_all(title.as_bytes())?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "data" => {
                let data = Data::of(profile, MOST_BYTES - frame);
                out.write_all(escape_json(&serde_json::to_string(&data)?).as_bytes())?;
            }
            "script" => SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes()))?,
            _ => unreachable!("the page has a part {part}"),
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

/// Splits a template at its next `{{name}}`: what is before, the name, what is after.
fn next_part(template: &str) -> Option<(&str, (&str, &str))> {
    let (text, rest) = template.split_once("{{")?;
    Some((text, rest.split_once("}}")?))
}

/// Text that may stand in an element or a quoted attribute.
fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// JSON that may stand in a script element: without `<` no tag and no comment begins in it, and the two line ends that only
/// JavaScript knows are written out. Outside of strings JSON has none of these.
fn escape_json(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_page_is_known_and_used_once() {
        let mut parts = Vec::new();
        let mut rest = PAGE;
        while let Some((_, (part, after))) = next_part(rest) {
            parts.push(part);
            rest = after;
        }
        parts.sort_unstable();
        assert_eq!(parts, ["data", "script", "style", "title", "title"]);
    }

    #[test]
    fn escapes_leave_nothing_that_ends_an_element() {
        assert_eq!(escape_html("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
        assert_eq!(escape_json("\"</script \u{2028}\u{2029}\""), "\"\\u003c/script \\u2028\\u2029\"");
    }
}
