//! The host's clock: the only one that is read, through web-time, so that browsers have it too.

use web_time::Instant;

/// A clock that counts from its making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Starts counting.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    pub(crate) fn now_ns(&self) -> f64 {
        self.0.elapsed().as_secs_f64() * 1e9
    }
}
