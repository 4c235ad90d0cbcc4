//! Error scopes: what a device refuses between their opening and closing.

use super::adapter::Gpu;
use crate::error::{Error, Result};

/// Open error scopes, for all that can be refused. They must be closed on the thread that opened them: wgpu keeps scopes a
/// thread.
pub(super) struct Scopes {
    validation: wgpu::ErrorScopeGuard,
    memory: wgpu::ErrorScopeGuard,
}

/// What closed scopes caught, when it is known.
pub(super) struct Rejected([std::pin::Pin<Box<dyn PendingError>>; 2]);

#[cfg(not(target_arch = "wasm32"))]
trait PendingError: Future<Output = Option<wgpu::Error>> + Send {}
#[cfg(not(target_arch = "wasm32"))]
impl<F: Future<Output = Option<wgpu::Error>> + Send> PendingError for F {}
#[cfg(target_arch = "wasm32")]
trait PendingError: Future<Output = Option<wgpu::Error>> {}
#[cfg(target_arch = "wasm32")]
impl<F: Future<Output = Option<wgpu::Error>>> PendingError for F {}

impl std::fmt::Debug for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rejected")
    }
}

impl Scopes {
    pub(super) fn open(gpu: &Gpu) -> Self {
        let memory = gpu.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
        Self { validation, memory }
    }

    pub(super) fn close(self) -> Rejected {
        // The inner one first.
        let validation = Box::pin(self.validation.pop());
        Rejected([validation, Box::pin(self.memory.pop())])
    }
}

impl Rejected {
    pub(super) async fn check(self, what: &str) -> Result<()> {
        for caught in self.0 {
            if let Some(error) = caught.await {
                return Err(Error::Gpu(format!("{what} was rejected: {error}")));
            }
        }
        Ok(())
    }
}
