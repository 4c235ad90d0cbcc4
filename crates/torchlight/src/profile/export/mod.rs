//! Profiles as files: each format is one function from a profile to a writer, with no files and no clocks of its own.

mod delimited;
mod etdump;
mod generated;
mod json;
pub mod report;
mod timeline;
mod trace;

pub use delimited::{write_csv, write_tsv};
pub use etdump::write_etdump;
pub use json::{PROFILE_SCHEMA, PROFILE_VERSION, ReadError, read_json, write_json};
pub use trace::write_trace;
