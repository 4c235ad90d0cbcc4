//! What a benchmark of attention found, as plain data: what `--json` prints, and what tables and plots are made of.

use serde::Serialize;
use torchlight::kernels::KvType;
use torchlight::profile::Peaks;
use torchlight::{DeviceFacts, Route, WarmUp};

use super::check::Checked;
use super::quantile;
use super::shapes::Shape;
use super::timing::{Clock, OwnPass, Timed};

/// All of a benchmark.
#[derive(Serialize)]
pub(crate) struct Report {
    /// The adapter's name.
    pub(crate) adapter: String,
    pub(crate) backend: String,
    pub(crate) driver: String,
    pub(crate) is_cpu: bool,
    /// What the device was measured to do.
    pub(crate) peaks: Peaks,
    pub(crate) probe: Option<Probe>,
    pub(crate) rows: Vec<Row>,
    /// Shapes that a route refused, or the device.
    pub(crate) refused: Vec<Unserved>,
    /// Shapes that a route took and then computed wrongly, or not at all.
    pub(crate) failed: Vec<Unserved>,
}

/// The kernel of fixed work that shows whether the clocks had risen: one reading before and after each timing.
#[derive(Serialize)]
pub(crate) struct Probe {
    /// The fastest of all.
    best_us: f64,
    /// The first reading, the last, and the slowest of all.
    first_us: f64,
    last_us: f64,
    slowest_us: f64,
    readings: usize,
    /// Readings that did not come within 3 % of their best in two seconds.
    unstable: usize,
}

/// A shape by a route, checked and timed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) route: Route,
    #[serde(flatten)]
    pub(crate) shape: Shape,
    pub(crate) kv: &'static str,
    pub(crate) amortised_us_p50: f64,
    pub(crate) amortised_us_p90: f64,
    pub(crate) own_pass_us: Vec<OwnPass>,
    /// The sum of them, where they were timed.
    pub(crate) own_pass_us_sum: Option<f64>,
    pub(crate) gbps: f64,
    pub(crate) tflops: f64,
    /// What bounds the step on this device.
    pub(crate) limit: Limit,
    /// The time that it allows.
    pub(crate) limit_us: f64,
    /// That time over the time taken: 1 is all that the device can.
    pub(crate) of_limit: f64,
    pub(crate) bytes: u64,
    pub(crate) flops: u64,
    pub(crate) clock: Clock,
    /// Steps of a pass, and K/V pairs that they go round over.
    pub(crate) pass_steps: usize,
    pub(crate) kv_pairs: usize,
    /// Bytes of all these pairs.
    pub(crate) rotated_bytes: u64,
    pub(crate) verified: Checked,
}

/// What bounds a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Limit {
    /// The measured rate of a copy.
    Copy,
    /// The measured rate of f32 arithmetic.
    F32,
    /// The measured rate of cooperative matrices.
    Matrix,
}

/// A shape without a time.
#[derive(Debug, Serialize)]
pub(crate) struct Unserved {
    pub(crate) route: &'static str,
    #[serde(flatten)]
    pub(crate) shape: Shape,
    pub(crate) reason: String,
}

impl Report {
    /// Nothing found yet.
    pub(crate) fn new(facts: &DeviceFacts, peaks: Peaks) -> Self {
        let DeviceFacts { name, backend, driver, is_cpu, .. } = facts.clone();
        let (rows, refused, failed) = (Vec::new(), Vec::new(), Vec::new());
        Self { adapter: name, backend, driver, is_cpu, peaks, probe: None, rows, refused, failed }
    }
}

impl Limit {
    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::F32 => "f32",
            Self::Matrix => "matrix",
        }
    }
}

impl Probe {
    /// A first reading.
    pub(crate) fn new(reading: WarmUp) -> Self {
        let [best_us, last_us] = [reading.best_ns, reading.last_ns].map(|ns| ns / 1000.0);
        let unstable = usize::from(!reading.stable);
        Self { best_us, first_us: last_us, last_us, slowest_us: last_us, readings: 1, unstable }
    }

    /// Whether the last reading was near the best of all.
    pub(crate) fn is_warm(&self) -> bool {
        self.last_us <= self.best_us * 1.03
    }

    /// One more.
    pub(crate) fn note(&mut self, reading: WarmUp) {
        let next = Self::new(reading);
        self.best_us = self.best_us.min(next.best_us);
        self.slowest_us = self.slowest_us.max(next.last_us);
        self.last_us = next.last_us;
        self.readings += 1;
        self.unstable += next.unstable;
    }
}

impl std::fmt::Display for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { best_us, first_us, last_us, slowest_us, readings, unstable } = self;
        write!(f, "clocks: a probe took {best_us:.1} µs at best, {first_us:.1} before, {last_us:.1} after")?;
        if *readings > 1 {
            write!(f, ", {slowest_us:.1} at most of {readings} readings")?;
        }
        match unstable {
            0 => Ok(()),
            unstable => write!(f, "; {unstable} of them did not settle"),
        }
    }
}

impl Row {
    /// A row of what was timed.
    pub(crate) fn new(
        (shape, kv, route): (&Shape, KvType, Route),
        verified: Checked,
        timed: Timed,
        peaks: &Peaks,
    ) -> Self {
        let (bytes, flops) = (shape.bytes(kv), shape.flops());
        let unit = if route == Route::Matrix { Limit::Matrix } else { Limit::F32 };
        let (limit, limit_us) = limit(bytes, flops, unit, peaks);
        let us = quantile(&timed.amortised_us, 0.5);
        let own_pass: f64 = timed.own_pass.iter().map(|kernel| kernel.us_p50).sum();
        Self {
            route,
            shape: *shape,
            kv: kv.name(),
            amortised_us_p50: us,
            amortised_us_p90: quantile(&timed.amortised_us, 0.9),
            own_pass_us_sum: (!timed.own_pass.is_empty()).then_some(own_pass),
            own_pass_us: timed.own_pass,
            gbps: bytes as f64 / us / 1e3,
            tflops: flops as f64 / us / 1e6,
            limit,
            limit_us,
            of_limit: limit_us / us,
            bytes,
            flops,
            clock: timed.clock,
            pass_steps: timed.steps,
            kv_pairs: timed.pairs,
            rotated_bytes: timed.pairs as u64 * shape.pair_bytes(kv),
            verified,
        }
    }
}

/// The later of two times that no kernel beats: of its bytes, and of its arithmetic by the units that it uses.
pub(crate) fn limit(bytes: u64, flops: u64, unit: Limit, peaks: &Peaks) -> (Limit, f64) {
    let copy_us = bytes as f64 / peaks.copy_gbps / 1e3;
    let (unit, gflops) = match (unit, peaks.matrix_gflops) {
        (Limit::Matrix, Some(gflops)) => (Limit::Matrix, gflops),
        _ => (Limit::F32, peaks.f32_gflops),
    };
    let arithmetic_us = flops as f64 / gflops / 1e3;
    if copy_us >= arithmetic_us { (Limit::Copy, copy_us) } else { (unit, arithmetic_us) }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::super::shapes::Heads;
    use super::*;

    /// A report with a row for each of these steps: route, tokens, keys, microseconds.
    pub(crate) fn report(steps: &[(Route, u32, u32, f64)]) -> Report {
        let peaks = Peaks { copy_gbps: 4000.0, f32_gflops: 55_000.0, f16_gflops: None, matrix_gflops: Some(560_000.0) };
        let facts = DeviceFacts { name: "Testing GPU".into(), ..DeviceFacts::webgpu_defaults() };
        let mut report = Report::new(&facts, peaks);
        for &(route, new_tokens, context_len, us) in steps {
            let heads = Heads { q_heads: 32, kv_heads: 8, head_dim: 64 };
            let shape = Shape { heads, new_tokens, context_len };
            let own_pass = vec![OwnPass { kernel: format!("sdpa_{route}"), us_p50: us + 4.0 }];
            let timed = Timed { amortised_us: vec![us], own_pass, steps: 8, pairs: 4, clock: Clock::Gpu };
            let verified = Checked { rows: 8, rel_l2: 1e-5, tolerance: 4e-3 };
            report.rows.push(Row::new((&shape, KvType::F16, route), verified, timed, &peaks));
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_route_s_units() {
        let report = testing::report(&[
            (Route::Split, 1, 32768, 27.0),
            (Route::Streaming, 4096, 4096, 2814.0),
            (Route::Matrix, 4096, 4096, 345.0),
        ]);
        let limits: Vec<Limit> = report.rows.iter().map(|row| row.limit).collect();
        assert_eq!(limits, [Limit::Copy, Limit::F32, Limit::Matrix]);
        // 2 x 32768 x 8 x 64 x 2 bytes and a little, at 4 TB/s.
        assert!((report.rows[0].limit_us - 16.78).abs() < 0.01, "{}", report.rows[0].limit_us);
        assert!((report.rows[0].of_limit - 16.78 / 27.0).abs() < 0.001);
        assert!((report.rows[2].tflops - 199.2).abs() < 0.1, "{}", report.rows[2].tflops);
    }

    #[test]
    fn the_probe_says_when_it_did_not_settle() {
        let reading = |last_ns, stable| WarmUp { best_ns: 400_000.0, last_ns, runs: 20, stable };
        let mut probe = Probe::new(reading(401_000.0, true));
        assert_eq!(probe.to_string(), "clocks: a probe took 400.0 µs at best, 401.0 before, 401.0 after");
        probe.note(reading(700_000.0, false));
        probe.note(reading(405_000.0, true));
        let text = probe.to_string();
        assert!(text.contains("405.0 after, 700.0 at most of 3 readings; 1 of them did not settle"), "{text}");
    }
}
