//! Loops of known length, written out.
//!
//! Drivers keep a small array in registers where every index is a literal, and not always where a loop counts. A kernel
//! marks such a loop, and stays valid WGSL by itself:
//!
//! ```wgsl
//! for (var i = 0u; i < ROWS; i += 1u) { // unrolled
//!     sum += values[i];
//! }
//! ```
//!
//! `ROWS` is a constant of the file. The loop becomes `ROWS` blocks with literals in the place of `i`.

use std::collections::HashMap;

const MARK: &str = "{ // unrolled\n";

/// The text with every marked loop written out.
///
/// A loop that does not have the form above, or whose bound is no constant, stays as it is: it is valid by itself. A test
/// holds that none is left in any variant.
pub(super) fn unroll(wgsl: &str) -> String {
    if !wgsl.contains(MARK) {
        return wgsl.to_owned();
    }
    expand(wgsl, &constants(wgsl))
}

fn expand(wgsl: &str, constants: &HashMap<&str, u32>) -> String {
    let mut out = String::with_capacity(wgsl.len());
    let mut rest = wgsl;
    while let Some(mark) = rest.find(MARK) {
        let line = rest[..mark].rfind('\n').map_or(0, |newline| newline + 1);
        let after = &rest[mark + MARK.len()..];
        let (Some((name, count)), Some(end)) = (header(&rest[line..mark], constants), block_end(after)) else {
            out.push_str(&rest[..mark + MARK.len()]);
            rest = after;
            continue;
        };
        out.push_str(&rest[..line]);
        let body = &after[..end];
        for index in 0..count {
            out.push_str("{\n");
            out.push_str(&expand(&substitute(body, name, index), constants));
            out.push_str("}\n");
        }
        rest = after[end + 1..].strip_prefix('\n').unwrap_or(&after[end + 1..]);
    }
    out.push_str(rest);
    out
}

/// Name and number of turns of `for (var i = 0u; i < BOUND; i += 1u)`.
fn header<'t>(line: &'t str, constants: &HashMap<&str, u32>) -> Option<(&'t str, u32)> {
    let (name, rest) = line.trim().strip_prefix("for (var ")?.split_once(" = 0u; ")?;
    let bound = rest.strip_prefix(name)?.strip_prefix(" < ")?.strip_suffix(" += 1u)")?.strip_suffix(name)?;
    Some((name, value(bound.strip_suffix("; ")?, constants)?))
}

/// Where the block that begins before `text` ends: the position of its closing brace.
fn block_end(text: &str) -> Option<usize> {
    let mut depth = 1;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let code = line.split_once("//").map_or(line, |(code, _)| code);
        for (index, byte) in code.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(offset + index);
            }
        }
        offset += line.len();
    }
    None
}

/// The text with a literal in the place of a name.
fn substitute(text: &str, name: &str, index: u32) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let length = rest[start..].find(|c| !is_word(c)).unwrap_or(rest.len() - start);
        let word = &rest[start..start + length];
        // A member of the same name, as in `v.i`, is another thing.
        let is_member = rest[..start].ends_with('.') || (start == 0 && out.ends_with('.'));
        out.push_str(&rest[..start]);
        if word == name && !is_member {
            out.push_str(&format!("{index}u"));
        } else {
            out.push_str(word);
        }
        rest = &rest[start + length..];
    }
    out.push_str(rest);
    out
}

/// The constants of type u32, in order.
fn constants(wgsl: &str) -> HashMap<&str, u32> {
    let mut known = HashMap::new();
    for line in wgsl.lines() {
        let declared = line.trim().strip_prefix("const ").and_then(|rest| rest.split_once(": u32 = "));
        if let Some((name, expression)) = declared
            && let Some(value) = expression.split_once(';').and_then(|(expression, _)| value(expression, &known))
        {
            known.insert(name, value);
        }
    }
    known
}

/// A sum, difference, product or quotient of literals and constants, from left to right; products bind closer.
fn value(expression: &str, constants: &HashMap<&str, u32>) -> Option<u32> {
    let expression = expression.trim();
    let Some(at) = expression.rfind(['+', '-']).or_else(|| expression.rfind(['*', '/'])) else {
        let literal = || expression.strip_suffix('u').unwrap_or(expression).parse().ok();
        return constants.get(expression).copied().or_else(literal);
    };
    let (left, right) = (value(&expression[..at], constants)?, value(&expression[at + 1..], constants)?);
    match &expression[at..=at] {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        _ => left.checked_div(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_loops_are_written_out() {
        let text = "const A: u32 = 2u;\nconst B: u32 = A * 3u - 4u;\nfn f() {\n  for (var i = 0u; i < B; i += 1u) { // unrolled\n    \
                    x[i] = v.i + ii + i; // not i of {\n  }\n  y();\n}\n";
        let wanted = "const A: u32 = 2u;\nconst B: u32 = A * 3u - 4u;\nfn f() {\n{\n    x[0u] = v.i + ii + 0u; // not 0u of {\n  }\n\
                      {\n    x[1u] = v.i + ii + 1u; // not 1u of {\n  }\n  y();\n}\n";
        assert_eq!(unroll(text), wanted);
    }

    #[test]
    fn loops_inside_loops_are_written_out() {
        let text = "for (var i = 0u; i < 2u; i += 1u) { // unrolled\nfor (var j = 0u; j < 2u; j += 1u) { // unrolled\n\
                    a[i][j]\n}\n}\nend";
        let flat: String = unroll(text).split_whitespace().collect();
        assert_eq!(flat, "{{a[0u][0u]}{a[0u][1u]}}{{a[1u][0u]}{a[1u][1u]}}end");
    }

    #[test]
    fn other_loops_stay() {
        for text in [
            "for (var i = 0u; i < n; i += 1u) { // unrolled\nx[i]\n}\n",
            "for (var i = 1u; i < 4u; i += 1u) { // unrolled\nx[i]\n}\n",
            "for (var i = 0u; i < 4u; i += 2u) { // unrolled\nx[i]\n}\n",
            "for (var i = 0u; i < 4u; i += 1u) {\nx[i]\n}\n",
        ] {
            assert_eq!(unroll(text), text);
        }
    }

    #[test]
    fn expressions_have_the_values_of_wgsl() {
        let constants = HashMap::from([("A", 10), ("B", 4)]);
        for (text, wanted) in [
            ("7u", Some(7)),
            ("A", Some(10)),
            ("A - B - 1u", Some(5)),
            ("A + B * 2", Some(18)),
            ("A / B * 2", Some(4)),
            ("A * B / 3u", Some(13)),
            ("B - A", None),
            ("C", None),
        ] {
            assert_eq!(value(text, &constants), wanted, "{text}");
        }
    }
}
