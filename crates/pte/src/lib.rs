//! Reads ExecuTorch `.pte` programs, the graphs that `VulkanPartitioner` delegates to the GPU, and `.ptd` constants.
//!
//! [`Program::parse`] takes the bytes of a file and gives its methods; each [`Delegate`] of a method holds a blob that
//! [`DelegateGraph::parse`] turns into operator calls over typed values. Everything borrows from the bytes.
//!
//! Files are not trusted. What comes back is checked: every id, index and range in it is valid, and element counts and
//! byte sizes do not overflow. On any input the parsers return an [`Error`] of one line or the content; they do not panic
//! or recurse, and decode to at most a few times the file's size.
//!
//! ```no_run
//! use torchlight_pte::{DelegateGraph, Program};
//!
//! let bytes = std::fs::read("model.pte")?;
//! let program = Program::parse(&bytes)?;
//! for method in &program.methods {
//!     for delegate in &method.delegates {
//!         for call in DelegateGraph::parse(delegate.blob)?.chain {
//!             println!("{}: {} {:?}", method.name, call.name, call.args);
//!         }
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bounds;
mod budget;
mod delegate_graph;
mod error;
mod flat_tensor;
mod generated;
mod graph_value;
mod method;
mod named_data;
mod program;
mod value;

pub use delegate_graph::{Constant, ConstantId, DelegateGraph, OperatorCall};
pub use error::Error;
pub use flat_tensor::FlatTensor;
pub use graph_value::{VkDataType, VkTensor, VkValue, VkValueId};
pub use method::{CompileSpec, Delegate, Instruction, Method, OperatorName};
pub use program::Program;
pub use value::{Dynamism, ScalarType, TensorMeta, Value, ValueId};
