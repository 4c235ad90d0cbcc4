//! The one error of this crate: what is wrong with a file, with the numbers, on one line.

/// Why a file was refused.
///
/// The message is one line; text that comes from the file is quoted, escaped and cut to a readable length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are of another kind.
    #[error("not {kind}: identifier is \"{found}\", wanted \"{wanted}\"")]
    WrongIdentifier {
        /// The kind that was asked for.
        kind: &'static str,
        /// The identifier that the bytes carry, escaped.
        found: String,
        /// The identifier of that kind.
        wanted: &'static str,
    },
    /// The file ends before the size that its header promises.
    #[error("truncated: {claim} {needed} bytes, the {container} has {available}")]
    Truncated {
        /// The start of a sentence that the number of bytes completes, such as "the header says the program is".
        claim: &'static str,
        /// Bytes that have to be there.
        needed: u128,
        /// What ends too early, such as "file" or "delegate".
        container: &'static str,
        /// Bytes that are there.
        available: usize,
    },
    /// A byte range does not lie inside what it points into.
    #[error("{what}: bytes {start}..{end} lie outside the {container} of {available} bytes")]
    OutsideOf {
        /// What the range holds.
        what: String,
        /// First byte of the range.
        start: u128,
        /// One past the last byte of the range.
        end: u128,
        /// What the range points into.
        container: &'static str,
        /// Bytes in the container.
        available: usize,
    },
    /// The content contradicts itself or the format.
    #[error("{what}: {detail}")]
    Malformed {
        /// The part of the file, from the outside in.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The content is valid, but this crate does not read it.
    #[error("{what}: unsupported: {detail}")]
    Unsupported {
        /// The part of the file, from the outside in.
        what: String,
        /// What is not read.
        detail: String,
    },
    /// The content decodes to far more bytes than it has, so parts of it are used many times over.
    #[error(
        "decodes to more than {limit_bytes} bytes, {factor} times its own size: parts of it are used many times over"
    )]
    Oversized {
        /// The most bytes that this content may decode to.
        limit_bytes: usize,
        /// How many times the content's size that is.
        factor: usize,
    },
}

impl Error {
    pub(crate) fn malformed(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Malformed { what: what.into(), detail: detail.into() }
    }

    pub(crate) fn unsupported(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into(), detail: detail.into() }
    }
}

/// A flatbuffer field that the reader refused.
impl From<planus::Error> for Error {
    fn from(error: planus::Error) -> Self {
        let at = error.source_location;
        let what = format!("{}.{}", at.type_, at.method);
        match error.error_kind {
            // A newer exporter may write values or instructions that did not exist here.
            planus::errors::ErrorKind::UnknownUnionTag { tag } => Self::unsupported(what, format!("variant {tag}")),
            kind => Self::malformed(what, format!("{} at byte {}", kind.to_string().to_lowercase(), at.byte_offset)),
        }
    }
}

/// Says where in the file an error happened.
pub(crate) trait Within {
    /// Puts the part of the file in front of what the error already names.
    fn within(self, part: impl FnOnce() -> String) -> Self;
}

impl<T> Within for Result<T, Error> {
    fn within(mut self, part: impl FnOnce() -> String) -> Self {
        if let Err(Error::Malformed { what, .. } | Error::Unsupported { what, .. } | Error::OutsideOf { what, .. }) =
            &mut self
        {
            what.insert_str(0, &format!("{}, ", part()));
        }
        self
    }
}

/// Text from a file, fit for a message of one line.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 64;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_one_short_line() {
        assert_eq!(quoted("a\n\"b"), r#""a\n\"b""#);
        let long = quoted(&"ä".repeat(1000));
        assert!(long.ends_with("\"...") && long.chars().count() < 80, "{long}");
    }

    #[test]
    fn within_names_parts_from_the_outside_in() {
        let error = Err::<(), _>(Error::malformed("value 3", "no content")).within(|| "method \"forward\"".into());
        assert_eq!(error.unwrap_err().to_string(), "method \"forward\", value 3: no content");
    }
}
