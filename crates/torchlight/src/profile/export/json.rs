//! The whole profile as JSON, in a schema with a version, and back.
//!
//! `docs/profile-schema.md` describes every field.

use std::io::{self, BufWriter, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::error::Category;

use crate::profile::Profile;

/// The value of the field `schema`.
pub const PROFILE_SCHEMA: &str = "torchlight-profile";

/// The value of the field `version`. It grows when a reader of the version before would misread a file.
pub const PROFILE_VERSION: u64 = 1;

/// Why bytes are not a profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The JSON ends too early.
    #[error("the JSON is cut off at line {line}, column {column}")]
    Truncated {
        /// Line of the last byte, from 1.
        line: usize,
        /// Column of the last byte, from 1; 0 where the line is empty.
        column: usize,
    },

    /// It is no JSON at all.
    #[error("not JSON: {0}")]
    NotJson(serde_json::Error),

    /// It is JSON of another kind.
    #[error("not a profile: wanted an object with the schema {PROFILE_SCHEMA:?}, found {found}")]
    NotAProfile {
        /// What its schema is.
        found: String,
    },

    /// It is a profile of a version that this reader does not know.
    #[error("a profile of version {found}, and this reads version {PROFILE_VERSION}")]
    Version {
        /// The version it has.
        found: String,
    },

    /// It is a profile, and a field is missing or has a wrong value.
    #[error("a damaged profile: {0}")]
    Damaged(serde_json::Error),
}

impl ReadError {
    /// An error of the parser, where the text is `otherwise` if it is JSON.
    fn of(error: serde_json::Error, otherwise: impl FnOnce(serde_json::Error) -> Self) -> Self {
        match error.classify() {
            Category::Eof => Self::Truncated { line: error.line(), column: error.column() },
            Category::Data => otherwise(error),
            Category::Syntax | Category::Io => Self::NotJson(error),
        }
    }
}

/// A profile with what tells its file from others.
#[derive(Serialize)]
struct Document<'p> {
    schema: &'static str,
    version: u64,
    #[serde(flatten)]
    profile: &'p Profile,
}

/// What tells a file from others, whatever else is in it.
#[derive(Deserialize)]
struct Header {
    schema: Option<Value>,
    version: Option<Value>,
}

/// Writes a profile as one JSON object. Numbers survive exactly; what was not measured is null.
///
/// # Errors
/// The writer's.
pub fn write_json(profile: &Profile, out: &mut impl io::Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    serde_json::to_writer(&mut out, &Document { schema: PROFILE_SCHEMA, version: PROFILE_VERSION, profile })?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Reads what [`write_json`] wrote. Fields that it does not know are left out.
///
/// # Errors
/// [`ReadError`] says what the bytes are instead, or where they are damaged.
pub fn read_json(bytes: &[u8]) -> Result<Profile, ReadError> {
    let of_another_kind = |error: serde_json::Error| ReadError::NotAProfile { found: error.to_string() };
    let header: Header = serde_json::from_slice(bytes).map_err(|error| ReadError::of(error, of_another_kind))?;
    if header.schema.as_ref().and_then(Value::as_str) != Some(PROFILE_SCHEMA) {
        return Err(ReadError::NotAProfile { found: described(header.schema, "schema") });
    }
    if header.version.as_ref().and_then(Value::as_u64) != Some(PROFILE_VERSION) {
        return Err(ReadError::Version { found: described(header.version, "version") });
    }
    serde_json::from_slice(bytes).map_err(|error| ReadError::of(error, ReadError::Damaged))
}

/// A field of a header in words.
fn described(value: Option<Value>, field: &str) -> String {
    value.map_or_else(|| format!("no {field}"), |value| value.to_string())
}
