//! Commands that are encoded before their run: the host has time while the device works.
//!
//! A decode step launches what the step before launched, with other params. Its commands hold grids, bind groups and copies,
//! and nothing of a run's inputs: they can be encoded while the device has the step before, and only have to be submitted.

use super::encode::{Download, encode};
use super::encoder::Encoder;
use super::engine::{Engine, Run};
use crate::kernels::Grid;
use crate::plan::Plan;
use crate::profile::TimestampMode;

/// Runs of fewer launches are encoded sooner than it is worth keeping them.
const LEAST: usize = 32;

/// What is known of runs to come.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The grids of the latest run.
    latest: Vec<Option<Grid>>,
    ready: Option<Ready>,
}

/// Commands that wait for their run.
#[derive(Debug)]
struct Ready {
    grids: Vec<Option<Grid>>,
    downloads: Vec<Download>,
    commands: wgpu::CommandBuffer,
}

impl Ahead {
    /// The commands of a run, where they are ready. Others that waited are dropped.
    pub(super) fn take(&mut self, run: &Run<'_>) -> Option<wgpu::CommandBuffer> {
        let ready = self.ready.take()?;
        let serves = run.timestamps == TimestampMode::Off
            && run.tap.is_none()
            && ready.grids == run.grids
            && ready.downloads == run.downloads;
        serves.then_some(ready.commands)
    }

    /// Drops what waits: it mentions a buffer that is replaced.
    pub(super) fn forget(&mut self) {
        self.ready = None;
    }

    /// Whether commands wait.
    #[cfg(test)]
    pub(super) const fn is_ready(&self) -> bool {
        self.ready.is_some()
    }
}

impl Engine {
    /// Encodes the commands of a run like the one that was just submitted, if the run before was like it as well.
    ///
    /// They were accepted once as they are. What a driver should have against them all the same, it tells outside of any scope.
    pub(crate) fn encode_ahead(&mut self, plan: &Plan, grids: &[Option<Grid>], downloads: &[Download]) {
        if self.ahead.latest != grids {
            self.ahead.latest.clear();
            self.ahead.latest.extend_from_slice(grids);
            return;
        }
        if grids.iter().flatten().count() < LEAST {
            return;
        }
        span!("encode ahead");
        let mut encoder = Encoder::keeping(self);
        encode(plan, grids, downloads, TimestampMode::Off, &mut encoder);
        let ready = |commands| Ready { grids: grids.to_vec(), downloads: downloads.to_vec(), commands };
        self.ahead.ready = encoder.kept().map(ready);
    }

    /// Whether a run's commands wait for it.
    #[cfg(test)]
    pub(crate) const fn has_commands_ahead(&self) -> bool {
        self.ahead.is_ready()
    }
}
