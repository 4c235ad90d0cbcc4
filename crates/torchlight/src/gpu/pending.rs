//! The results of a run, on their way and on the host.

use super::adapter::Gpu;
use super::readback::Mapped;
use super::scope::Rejected;
use crate::error::Result;

/// Results under way.
#[must_use = "a run's results arrive when this is awaited"]
#[derive(Debug)]
pub(crate) struct Pending {
    gpu: Gpu,
    outputs: Option<Mapped>,
    rejected: Rejected,
}

/// Results on the host. Their buffer is free again when this goes.
#[derive(Debug)]
pub(crate) struct Arrived(Option<Mapped>);

impl Pending {
    pub(super) fn new(gpu: &Gpu, outputs: Option<Mapped>, rejected: Rejected) -> Self {
        Self { gpu: gpu.clone(), outputs, rejected }
    }

    /// Waits until the device is done, so that awaiting does not have to poll.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn wait(&self) -> Result<()> {
        if self.outputs.is_none() {
            return Ok(());
        }
        self.gpu.wait_awake()
    }

    /// The downloads, when they have arrived.
    pub(crate) async fn arrived(mut self) -> Result<Arrived> {
        self.rejected.check("a run").await?;
        if let Some(outputs) = &mut self.outputs {
            outputs.arrived().await?;
        }
        self.gpu.check()?;
        Ok(Arrived(self.outputs))
    }
}

impl Arrived {
    /// Reads the downloads where they lie: nothing is copied that nobody wants.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        match &self.0 {
            Some(outputs) => outputs.read(read)?,
            None => read(&[]),
        }
    }
}
