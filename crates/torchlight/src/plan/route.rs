//! The routes of attention.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// A way to compute attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Route {
    /// Scores and weights are stored: QK, softmax, AV. Works on every device, with heads of any size.
    Materialised,
    /// For few new tokens: the keys are split over workgroups, and each is read once for all query heads that share it.
    Split,
    /// For many new tokens: tile by tile with an online softmax; nothing of the size of the scores is stored.
    Streaming,
    /// Streaming on cooperative matrices, over a cache of f16.
    Matrix,
}

impl Route {
    /// All routes, the plainest first.
    pub const ALL: [Self; 4] = [Self::Materialised, Self::Split, Self::Streaming, Self::Matrix];

    /// The name used in tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Materialised => "materialised",
            Self::Split => "split",
            Self::Streaming => "streaming",
            Self::Matrix => "matrix",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Route {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|route| route.name() == text).ok_or_else(|| Error::Setting {
            name: "route",
            value: text.to_owned(),
            wanted: "materialised, split, streaming or matrix",
        })
    }
}
