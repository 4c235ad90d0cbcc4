//! The routes of attention.

use std::fmt;

/// A way to compute attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Route {
    /// Scores and weights are stored: update_cache, QK, softmax, AV. Works on every device.
    Materialised,
}

impl Route {
    /// The name used in tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Materialised => "materialised",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
