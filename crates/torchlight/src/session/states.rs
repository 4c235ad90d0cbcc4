//! Tensors that live as long as a session: caches inside the graph.

use super::half;
use super::{Session, download_bytes};
use crate::error::{Error, Result};
use crate::gpu::{Engine, Pending};
use crate::graph::{Graph, Origin, TensorId};
use crate::plan::{BufferId, Plan};
use crate::tensor::{DType, HostTensor};

/// A tensor that lives as long as the session.
#[derive(Debug)]
pub(super) struct State {
    tensor: TensorId,
    buffer: BufferId,
    /// The program's bytes, or nothing where they are all zero.
    initial: Option<Vec<u8>>,
}

/// The caches of a plan.
pub(super) fn states(plan: &Plan, graph: &Graph<'_>) -> Vec<State> {
    let state = |tensor: TensorId| {
        let buffer = plan.tensor_buffers[tensor.index()]?;
        let Origin::State(bytes) = graph.tensor(tensor).origin else { return None };
        let initial = bytes.iter().any(|&byte| byte != 0).then(|| match plan.dtype(tensor) {
            DType::F16 => half::narrow(bytes),
            _ => bytes.to_vec(),
        });
        Some(State { tensor, buffer, initial })
    };
    graph.states().into_iter().filter_map(state).collect()
}

/// Fills the caches with zeros that begin as zeros.
pub(super) fn clear_zeros(engine: &Engine, states: &[State]) {
    let zeros: Vec<BufferId> = states.iter().filter(|state| state.is_zero()).map(|state| state.buffer).collect();
    engine.clear(&zeros);
}

impl State {
    /// Whether it begins as zeros.
    pub(super) fn is_zero(&self) -> bool {
        self.initial.is_none()
    }

    /// Its buffer, and the tensor that it is.
    pub(super) fn place(&self) -> (BufferId, TensorId) {
        (self.buffer, self.tensor)
    }
}

impl Session {
    /// The caches inside the graph, as they are now: for each attention operator keys, then values.
    ///
    /// # Errors
    /// [`Error::Gpu`] where the device failed.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn read_states(&self) -> Result<Vec<HostTensor>> {
        let pending = self.start_read_states()?;
        pending.wait()?;
        pollster::block_on(pending.arrived())?.read(|bytes| self.finish_read_states(bytes))
    }

    /// [`Session::read_states`] for executors and browsers.
    ///
    /// # Errors
    /// As [`Session::read_states`].
    pub async fn read_states_async(&self) -> Result<Vec<HostTensor>> {
        self.start_read_states()?.arrived().await?.read(|bytes| self.finish_read_states(bytes))
    }

    /// Puts the program's content into the caches.
    pub(super) fn reset_states(&mut self) {
        clear_zeros(&self.engine, &self.states);
        for state in &self.states {
            if let Some(bytes) = &state.initial {
                self.engine.upload(state.buffer, bytes);
            }
        }
    }

    fn start_read_states(&self) -> Result<Pending> {
        let parts: Vec<(BufferId, u64)> = self
            .states
            .iter()
            .map(|state| (state.buffer, download_bytes(self.plan.size_bytes(&self.graph, state.tensor))))
            .collect();
        self.engine.read(&parts)
    }

    fn finish_read_states(&self, bytes: &[u8]) -> Result<Vec<HostTensor>> {
        let mut rest = bytes;
        let tensor = |state: &State| {
            let tensor = self.graph.tensor(state.tensor);
            let size_bytes = self.plan.size_bytes(&self.graph, state.tensor);
            let (content, others) = rest
                .split_at_checked(download_bytes(size_bytes) as usize)
                .ok_or_else(|| Error::Gpu(format!("{} bytes of caches arrived, which is too few", bytes.len())))?;
            rest = others;
            let content = &content[..size_bytes as usize];
            let content = match self.plan.dtype(state.tensor) {
                DType::F16 => half::widen(content),
                _ => content.to_vec(),
            };
            HostTensor::new(tensor.dtype, tensor.bound.as_slice(), content)
        };
        self.states.iter().map(tensor).collect()
    }
}
