//! Why a route does not serve a step.

use std::fmt;

use super::Route;
use super::attention::{MAX_HEAD_DIM, SPLIT_TOKENS};

/// Why a route does not serve a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    /// The head is too large, or no multiple of so many elements.
    HeadDim {
        /// The head's.
        head_dim: u32,
        /// What divides those that are served.
        multiple_of: u32,
    },
    /// The head is larger than the route's registers hold.
    LargeHead {
        /// The head's.
        head_dim: u32,
        /// The largest that is served.
        most: u32,
    },
    /// Too many new tokens.
    Tokens(u32),
    /// The cache has the wrong type.
    KvType,
    /// The device lacks cooperative matrices.
    CooperativeMatrix,
    /// The device lacks 16-bit floats in shaders.
    ShaderF16,
    /// The device has no subgroups of so many invocations.
    Subgroup(u32),
    /// Workgroups are too large for the device.
    Workgroup {
        /// Bytes of workgroup memory that it needs.
        bytes: u32,
        /// Bytes that the device has.
        limit: u32,
    },
    /// No tile fits workgroups of the device.
    NoTile {
        /// Bytes of workgroup memory that the device has.
        bytes: u32,
        /// Invocations of a workgroup that the device allows.
        invocations: u32,
    },
    /// The loops over so many keys are longer than a software adapter runs them.
    LongLoops(u32),
    /// It would serve, and another was preferred.
    Slower(Route),
    /// It would serve, and another was asked for.
    NotAskedFor(Route),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeadDim { head_dim, multiple_of } => {
                write!(f, "head_dim {head_dim} is no multiple of {multiple_of} up to {MAX_HEAD_DIM}")
            }
            Self::LargeHead { head_dim, most } => write!(f, "head_dim {head_dim} is more than {most}"),
            Self::Tokens(tokens) => write!(f, "{tokens} new tokens are more than {SPLIT_TOKENS}"),
            Self::KvType => f.write_str("the cache is f32, and it wants f16 (--kv f16)"),
            Self::CooperativeMatrix => f.write_str("the device offers no cooperative matrices of 16 x 16"),
            Self::ShaderF16 => f.write_str("the device offers no f16 in shaders"),
            Self::Subgroup(size) => write!(f, "the device offers no subgroups of just {size}"),
            Self::Workgroup { bytes, limit } => {
                write!(f, "it needs {bytes} bytes of workgroup memory, and the device has {limit}")
            }
            Self::NoTile { bytes, invocations } => {
                write!(f, "no tile fits {bytes} bytes of workgroup memory and {invocations} invocations")
            }
            Self::LongLoops(keys) => write!(f, "a CPU adapter leaves loops over {keys} keys before their end"),
            Self::Slower(than) => write!(f, "{than} is faster here"),
            Self::NotAskedFor(asked) => write!(f, "{asked} was asked for"),
        }
    }
}
