//! What every benchmark looks at before it counts: the clocks of a device, and what it was measured to do.

use anyhow::Result;
use torchlight::Gpu;
use torchlight::profile::Peaks;

use super::report::Probe;
use crate::calibration;

/// What a device was measured to do: now, if nobody did before.
pub(crate) fn peaks(gpu: &Gpu) -> Result<Peaks> {
    Ok(match calibration::known(&gpu.facts().into()) {
        Some(peaks) => peaks,
        // Kept for the next time where it can be; measured anyway where it cannot.
        None => calibration::measure(gpu).or_else(|_| torchlight::calibrate(gpu))?,
    })
}

/// The clocks of a device, as far as a probe shows them.
pub(crate) struct Clocks<'a> {
    gpu: &'a Gpu,
    probe: Option<Probe>,
}

impl<'a> Clocks<'a> {
    /// With a first reading.
    pub(crate) fn new(gpu: &'a Gpu) -> Result<Self> {
        let mut clocks = Self { gpu, probe: None };
        clocks.note()?;
        Ok(clocks)
    }

    /// One more reading: whether they stayed where they were.
    pub(crate) fn note(&mut self) -> Result<()> {
        match &mut self.probe {
            // A CPU's clock does not wait for work: its first reading is enough.
            Some(_) if self.gpu.facts().is_cpu => {}
            Some(probe) => probe.note(torchlight::warm_up(self.gpu)?),
            None => self.probe = Some(Probe::new(torchlight::warm_up(self.gpu)?)),
        }
        Ok(())
    }

    /// Lets them rise to where they were at their best, and notes how near they came.
    pub(crate) fn warm_up(&mut self) -> Result<()> {
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            self.note()?;
            if self.probe.as_ref().is_none_or(Probe::is_warm) {
                break;
            }
        }
        Ok(())
    }

    /// All readings.
    pub(crate) fn into_probe(self) -> Option<Probe> {
        self.probe
    }
}
