//! Plans as text: for people, and for tests that hold a whole plan at once.

use std::fmt;

use super::{Plan, Role, Step};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, buffer) in self.buffers.iter().enumerate() {
            let role = match buffer.role {
                Role::Input(input) => format!("input {input}"),
                Role::Constant(tensor) => format!("constant %{}", tensor.0),
                Role::State(tensor) => format!("state %{}", tensor.0),
                Role::Shared => "shared".to_owned(),
                Role::Counters => "counters".to_owned(),
            };
            writeln!(f, "buffer {index}: {} bytes, {role}", buffer.size_bytes)?;
        }
        for step in &self.steps {
            match step {
                Step::Dispatch(dispatch) => {
                    let buffers: Vec<String> = dispatch.buffers.iter().map(|buffer| buffer.0.to_string()).collect();
                    let route = dispatch.route().map_or(String::new(), |route| format!(", {route}"));
                    let label = self.variant(dispatch.variant).label;
                    writeln!(f, "node {}: {label}({}){route}", dispatch.node, buffers.join(", "))?;
                }
                Step::Copy { from, to, size_bytes, node } => {
                    writeln!(f, "node {node}: copy {size_bytes} bytes of {} to {}", from.0, to.0)?;
                }
            }
        }
        Ok(())
    }
}
