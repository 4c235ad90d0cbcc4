//! How a session is made, and the one place that reads the environment.

use crate::error::Result;
use crate::profile::{TIMESTAMP_QUERY_VARIABLE, TimestampMode, parse_switch};

/// How a session is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// Where timestamps are taken.
    pub timestamps: TimestampMode,
    /// How many samples are kept for [`Session::take_profile`](super::Session::take_profile): those of the latest runs.
    /// Runs beyond that are counted, and stay in the statistics.
    pub profile_samples: usize,
    /// Whether the compiler checks the bounds of every kernel, also of those that argue for their own: slower, for tests.
    pub checked: bool,
}

impl Default for SessionOptions {
    /// No timestamps.
    fn default() -> Self {
        Self { timestamps: TimestampMode::Off, profile_samples: 1 << 18, checked: false }
    }
}

impl SessionOptions {
    /// Pass timestamps where the environment variable `WEBGPU_TIMESTAMP_QUERY` is on, else the defaults.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) where the variable's value means neither on nor off.
    pub fn from_env() -> Result<Self> {
        let value = std::env::var_os(TIMESTAMP_QUERY_VARIABLE).map(|value| value.to_string_lossy().into_owned());
        let on = parse_switch(value.as_deref())?;
        Ok(Self { timestamps: if on { TimestampMode::Pass } else { TimestampMode::Off }, ..Self::default() })
    }
}
