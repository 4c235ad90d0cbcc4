//! Buffers on their way to the host: mapped asynchronously, polled where nobody else polls.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::{Error, Result};

/// A mapping under way.
#[derive(Debug)]
struct Mapping {
    device: wgpu::Device,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    result: Option<std::result::Result<(), wgpu::BufferAsyncError>>,
    waker: Option<Waker>,
}

/// Starts to map the first `size_bytes` of a buffer for reading.
fn map(device: &wgpu::Device, buffer: &wgpu::Buffer, size_bytes: u64) -> Mapping {
    let state = Arc::new(Mutex::new(State::default()));
    let theirs = state.clone();
    buffer.map_async(wgpu::MapMode::Read, 0..size_bytes, move |result| {
        let mut state = theirs.lock().unwrap_or_else(PoisonError::into_inner);
        state.result = Some(result);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    });
    Mapping { device: device.clone(), state }
}

impl Mapping {
    /// The result, where it is there.
    fn take(&self) -> Option<Result<()>> {
        let result = self.state.lock().unwrap_or_else(PoisonError::into_inner).result.take()?;
        Some(result.map_err(|error| Error::Gpu(format!("reading results back: {error}"))))
    }
}

impl Future for Mapping {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        // A browser calls back by itself. Natively somebody must poll the device, and that is this future.
        let polled = self.device.poll(wgpu::PollType::Poll);
        if let Some(result) = self.take() {
            return Poll::Ready(result);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have arrived between the two locks.
        if state.result.is_some() {
            context.waker().wake_by_ref();
        }
        if let Err(error) = polled {
            return Poll::Ready(Err(Error::Gpu(format!("waiting for results: {error}"))));
        }
        state.waker = Some(context.waker().clone());
        if !cfg!(target_arch = "wasm32") {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// A buffer that is being mapped, or is mapped: unmapped when this goes, also where nobody waited for it.
#[derive(Debug)]
pub(super) struct Mapped {
    mapping: Mapping,
    buffer: wgpu::Buffer,
    size_bytes: u64,
}

impl Mapped {
    /// Starts to map the first `size_bytes` of a buffer for reading.
    pub(super) fn new(device: &wgpu::Device, buffer: &wgpu::Buffer, size_bytes: u64) -> Self {
        Self { mapping: map(device, buffer, size_bytes), buffer: buffer.clone(), size_bytes }
    }

    /// The bytes, where they have arrived.
    pub(super) fn take_ready(&mut self) -> Option<Result<Vec<u8>>> {
        match self.mapping.take() {
            Some(Ok(())) => Some(self.read(<[u8]>::to_vec)),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        }
    }

    /// Waits until the bytes have arrived.
    pub(super) async fn arrived(&mut self) -> Result<()> {
        (&mut self.mapping).await
    }

    /// Reads the bytes, which have arrived, where they lie.
    pub(super) fn read<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let view = self.buffer.get_mapped_range(0..self.size_bytes);
        view.map(|view| read(&view)).map_err(|error| Error::Gpu(format!("reading results back: {error}")))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.buffer.unmap();
    }
}
