//! The one error type of the library: it names the thing and the numbers.

use crate::tensor::DType;

/// Why a program was refused, or a run failed.
///
/// Everything that can be refused is refused before anything is written: after an error from
/// [`Session::run`](crate::Session::run), other than [`Error::Gpu`], the caches hold what they held before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read as a program.
    #[error(transparent)]
    Parse(#[from] torchlight_pte::Error),

    /// The program's parts contradict each other.
    #[error("malformed program: {0}")]
    Malformed(String),

    /// The program is well-formed, and asks for something that Torchlight does not do.
    #[error("unsupported: {what}; supported: {supported}")]
    Unsupported {
        /// The thing, with its place (operator name and node id, where it has one).
        what: String,
        /// What would have been accepted.
        supported: String,
    },

    /// An input's count, data type or shape is not what the program takes.
    #[error("{what}: wanted {wanted}, got {got}")]
    Input {
        /// The input, by index, or the list of inputs.
        what: String,
        /// What the program takes.
        wanted: String,
        /// What was given.
        got: String,
    },

    /// Shapes that do not fit together, in a program or in one run of it.
    #[error("{operator} (node {node}): {detail}")]
    Shape {
        /// The operator's name.
        operator: &'static str,
        /// The operator's node id in the delegate's graph.
        node: u32,
        /// Which shapes, and why they do not fit.
        detail: String,
    },

    /// A position outside a cache. The cache was not changed.
    #[error("{operator} (node {node}): position {input_pos} + {new_tokens} exceeds the cache's {cache_rows} rows")]
    CacheFull {
        /// The operator's name.
        operator: &'static str,
        /// The operator's node id in the delegate's graph.
        node: u32,
        /// Row of the first new token.
        input_pos: i64,
        /// Rows to write.
        new_tokens: u32,
        /// Rows the cache has.
        cache_rows: u32,
    },

    /// A position before the start of a cache. The cache was not changed.
    #[error("{operator} (node {node}): position {input_pos} is negative")]
    NegativePosition {
        /// The operator's name.
        operator: &'static str,
        /// The operator's node id in the delegate's graph.
        node: u32,
        /// The position given.
        input_pos: i64,
    },

    /// More tokens than a program's context has room for. Nothing was changed.
    #[error("the context holds {max_context} tokens: there is no room for {new_tokens} after the {position} so far")]
    ContextFull {
        /// Tokens so far.
        position: u32,
        /// Tokens that were to follow.
        new_tokens: usize,
        /// Tokens that the program's caches hold.
        max_context: u32,
    },

    /// A slice that holds nothing.
    #[error("{operator} (node {node}): the slice from {start} to {end} of a size {size} is empty")]
    EmptySlice {
        /// The operator's name.
        operator: &'static str,
        /// The operator's node id in the delegate's graph.
        node: u32,
        /// The first position.
        start: i64,
        /// The position behind the last.
        end: i64,
        /// The live size of the dimension.
        size: u32,
    },

    /// An id that names no row of its table. Nothing was written.
    #[error("{operator} (node {node}): id {id} is outside the table's {rows} rows")]
    IdOutside {
        /// The operator's name.
        operator: &'static str,
        /// The operator's node id in the delegate's graph.
        node: u32,
        /// The id given.
        id: i32,
        /// Rows the table has.
        rows: u32,
    },

    /// The device cannot hold or launch what the plan needs.
    #[error("{what} needs {needed} {unit}, and the device allows {limit}{hint}")]
    Limits {
        /// The buffer, workgroup or grid that is too large.
        what: String,
        /// How much it needs.
        needed: u64,
        /// What `needed` and `limit` count.
        unit: &'static str,
        /// What the device allows.
        limit: u64,
        /// What would fit, when that is known: starts with "; ".
        hint: String,
    },

    /// A setting has a value that means nothing.
    #[error("{name}={value:?}: {wanted}")]
    Setting {
        /// The setting or environment variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values it can have.
        wanted: &'static str,
    },

    /// No adapter matches the request.
    #[error("{0}")]
    Adapter(String),

    /// The driver or the device failed: out of memory, lost, or a rejected command.
    #[error("GPU: {0}")]
    Gpu(String),

    /// A tensor read as a type it does not have.
    #[error("the tensor holds {got}, not {wanted}")]
    DType {
        /// The type asked for.
        wanted: DType,
        /// The type it has.
        got: DType,
    },
}

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;
