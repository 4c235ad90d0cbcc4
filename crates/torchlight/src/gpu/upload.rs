//! Large uploads in small pieces, so that little of them is staged at once.
//!
//! What is written to a buffer lies twice in memory until the device has it: the queue copies it into memory that the device
//! reads. So pieces are handed over as they come, and where too many are under way the next one waits for the oldest.

use std::collections::VecDeque;

use super::adapter::Gpu;
use super::engine::Engine;
use crate::error::Result;
use crate::plan::BufferId;

/// The most bytes of one piece, a multiple of 16. A piece is a submission: these are few beside what a copy of it takes.
pub(crate) const PIECE_BYTES: usize = 4 << 20;
/// The most bytes that are staged at once: one piece is filled while the device copies another.
const MOST_STAGED_BYTES: u64 = 2 * PIECE_BYTES as u64;

/// What stages bytes for a device, and hands them over.
pub(super) trait Staging {
    /// A submission to wait for.
    type Ticket;
    /// Stages bytes for a part of a buffer.
    fn stage(&mut self, to: (BufferId, u64), bytes: &[u8]);
    /// Hands over what was staged.
    fn submit(&mut self) -> Self::Ticket;
    /// Waits until a submission is done, and those before it: what was staged for them is free.
    fn wait(&mut self, ticket: Self::Ticket) -> impl Future<Output = Result<()>>;
}

/// Uploads under way.
pub(super) struct Uploads<S: Staging> {
    staging: S,
    /// Staged and not handed over.
    staged_bytes: u64,
    /// Handed over, with their bytes, oldest first.
    under_way: VecDeque<(S::Ticket, u64)>,
}

impl<S: Staging> Uploads<S> {
    pub(super) fn new(staging: S) -> Self {
        Self { staging, staged_bytes: 0, under_way: VecDeque::new() }
    }

    /// Writes a piece, of [`PIECE_BYTES`] at most, to a part of a buffer. The rest of its last four bytes becomes zero.
    pub(super) async fn add(&mut self, to: (BufferId, u64), piece: &[u8]) -> Result<()> {
        let bytes = (piece.len() as u64).next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT);
        if self.staged_bytes + bytes > PIECE_BYTES as u64 {
            self.hand_over();
        }
        while self.under_way_bytes() + self.staged_bytes + bytes > MOST_STAGED_BYTES {
            let Some((ticket, _)) = self.under_way.pop_front() else { break };
            self.staging.wait(ticket).await?;
        }
        self.staging.stage(to, piece);
        self.staged_bytes += bytes;
        Ok(())
    }

    /// Hands over the rest, and waits until the device has all.
    pub(super) async fn finish(mut self) -> Result<()> {
        self.hand_over();
        match self.under_way.pop_back() {
            Some((ticket, _)) => self.staging.wait(ticket).await,
            None => Ok(()),
        }
    }

    fn hand_over(&mut self) {
        if self.staged_bytes > 0 {
            self.under_way.push_back((self.staging.submit(), std::mem::take(&mut self.staged_bytes)));
        }
    }

    fn under_way_bytes(&self) -> u64 {
        self.under_way.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Uploads to the buffers of an engine.
pub(crate) struct EngineUploads<'e>(Uploads<EngineStaging<'e>>);

impl<'e> EngineUploads<'e> {
    pub(super) fn new(engine: &'e Engine) -> Self {
        Self(Uploads::new(EngineStaging(engine)))
    }

    /// Writes a piece, of [`PIECE_BYTES`] at most, to a part of a buffer.
    pub(crate) async fn add(&mut self, to: (BufferId, u64), piece: &[u8]) -> Result<()> {
        self.0.add(to, piece).await
    }

    /// Waits until the device has all.
    pub(crate) async fn finish(self) -> Result<()> {
        self.0.finish().await
    }
}

struct EngineStaging<'e>(&'e Engine);

impl Staging for EngineStaging<'_> {
    type Ticket = wgpu::SubmissionIndex;

    fn stage(&mut self, (buffer, offset_bytes): (BufferId, u64), bytes: &[u8]) {
        self.0.write((buffer, offset_bytes), bytes);
    }

    fn submit(&mut self) -> wgpu::SubmissionIndex {
        self.0.gpu().queue.submit([])
    }

    async fn wait(&mut self, ticket: wgpu::SubmissionIndex) -> Result<()> {
        wait_for(self.0.gpu(), ticket).await
    }
}

/// Natively the thread waits, as it does while pipelines are compiled: it is not for long.
#[cfg(not(target_arch = "wasm32"))]
async fn wait_for(gpu: &Gpu, ticket: wgpu::SubmissionIndex) -> Result<()> {
    let polled = gpu.device.poll(wgpu::PollType::Wait { submission_index: Some(ticket), timeout: None });
    polled.map_err(|error| crate::error::Error::Gpu(format!("waiting for an upload: {error}")))?;
    gpu.check()
}

/// A browser calls back when all that was submitted so far is done.
#[cfg(target_arch = "wasm32")]
async fn wait_for(gpu: &Gpu, _: wgpu::SubmissionIndex) -> Result<()> {
    use std::sync::{Arc, Mutex, PoisonError};
    use std::task::{Poll, Waker};

    #[derive(Default)]
    struct Done {
        is_done: bool,
        waker: Option<Waker>,
    }
    let done = Arc::new(Mutex::new(Done::default()));
    let theirs = done.clone();
    gpu.queue.on_submitted_work_done(move || {
        let mut done = theirs.lock().unwrap_or_else(PoisonError::into_inner);
        done.is_done = true;
        done.waker.take().into_iter().for_each(Waker::wake);
    });
    std::future::poll_fn(|context| {
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.waker = Some(context.waker().clone());
        if done.is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    gpu.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stages in its memory, and counts what is not free yet.
    #[derive(Default)]
    struct Probe {
        staged: Vec<u64>,
        not_free: VecDeque<(u32, u64)>,
        submissions: u32,
        most_bytes: u64,
        buffers: std::collections::BTreeMap<BufferId, Vec<u8>>,
    }

    impl Staging for &mut Probe {
        type Ticket = u32;

        fn stage(&mut self, (buffer, offset_bytes): (BufferId, u64), bytes: &[u8]) {
            let content = self.buffers.entry(buffer).or_default();
            assert_eq!(content.len() as u64, offset_bytes, "in order, and without gaps");
            content.extend(bytes);
            self.staged.push(bytes.len() as u64);
            let not_free: u64 = self.not_free.iter().map(|(_, bytes)| bytes).chain(&self.staged).sum();
            self.most_bytes = self.most_bytes.max(not_free);
        }

        fn submit(&mut self) -> u32 {
            self.submissions += 1;
            let bytes = self.staged.drain(..).sum();
            self.not_free.push_back((self.submissions, bytes));
            self.submissions
        }

        async fn wait(&mut self, ticket: u32) -> Result<()> {
            self.not_free.retain(|(submission, _)| *submission > ticket);
            Ok(())
        }
    }

    fn upload(pieces: impl IntoIterator<Item = (BufferId, usize)>) -> Probe {
        let mut probe = Probe::default();
        let mut uploads = Uploads::new(&mut probe);
        let mut offsets = std::collections::BTreeMap::<BufferId, u64>::new();
        pollster::block_on(async {
            for (buffer, bytes) in pieces {
                let offset = offsets.entry(buffer).or_default();
                uploads.add((buffer, *offset), &vec![7; bytes]).await.unwrap();
                *offset += bytes as u64;
            }
            uploads.finish().await.unwrap();
        });
        assert!(probe.not_free.is_empty() && probe.staged.is_empty(), "finished with uploads under way");
        probe
    }

    #[test]
    fn what_is_staged_is_bounded_however_much_there_is() {
        let whole = upload((0..20).map(|_| (BufferId(0), PIECE_BYTES)));
        assert_eq!((whole.most_bytes, whole.submissions), (MOST_STAGED_BYTES, 20));
        let mut rng = fastrand::Rng::with_seed(5);
        let uneven = upload((0..50).map(|index| (BufferId(index / 7), rng.usize(1..=PIECE_BYTES / 4) * 4)));
        assert!(uneven.most_bytes <= MOST_STAGED_BYTES, "{}", uneven.most_bytes);
        assert_eq!(uneven.buffers.len(), 8);
    }

    #[test]
    fn small_pieces_share_a_submission() {
        let small = upload((0..1000).map(|index| (BufferId(index), 2304)));
        assert_eq!((small.submissions, small.most_bytes), (1, 2_304_000));
        assert_eq!(upload([]).submissions, 0);
    }
}
