//! The statistics, as columns: a name of a column is told once.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::data::{Interner, json_bytes, named, rounded, short};
use crate::profile::{KeyStatistics, Profile};

/// The most bytes of all lines.
const MOST_BYTES: usize = 100_000;

/// The lines that fit, those with the most time first.
#[derive(Serialize)]
pub(super) struct Table {
    all_rows: usize,
    shapes: Vec<String>,
    /// The values of each column.
    rows: BTreeMap<String, Vec<Value>>,
}

/// A line. Kernel and shape are places.
#[derive(Serialize)]
struct Row {
    kernel: usize,
    route: Option<&'static str>,
    shape: usize,
    context_bucket: Option<u32>,
    dispatches: u64,
    counted: u64,
    flagged: BTreeMap<&'static str, u64>,
    min_ns: Option<f64>,
    p50_ns: Option<f64>,
    p90_ns: Option<f64>,
    p99_ns: Option<f64>,
    mean_ns: Option<f64>,
    total_ns: Option<f64>,
    share: Option<f64>,
    bandwidth_gbps: Option<f64>,
    gflops: Option<f64>,
}

impl Table {
    pub(super) fn of(profile: &Profile, kernels: &mut Interner) -> Self {
        let mut entries: Vec<&KeyStatistics> = profile.statistics.iter().collect();
        entries.sort_by(|a, b| b.durations.total_ns.total_cmp(&a.durations.total_ns));
        let all_ns = profile.total_ns();
        let mut shapes = Interner::new(usize::MAX);
        let mut rows: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let mut bytes = 0;
        for entry in entries {
            if !shapes.holds(&entry.key.shape) {
                bytes += json_bytes(&short(&entry.key.shape)) + 1;
            }
            let row = Row::of(entry, all_ns, kernels, &mut shapes).values();
            bytes += row.values().map(|value| json_bytes(value) + 1).sum::<usize>();
            if bytes > MOST_BYTES {
                break;
            }
            for (column, value) in row {
                rows.entry(column).or_default().push(value);
            }
        }
        Self { all_rows: profile.statistics.len(), shapes: shapes.into_strings(), rows }
    }
}

impl Row {
    fn of(
        KeyStatistics { key, durations }: &KeyStatistics,
        all_ns: f64,
        kernels: &mut Interner,
        shapes: &mut Interner,
    ) -> Self {
        let counts = durations.counted > 0;
        let [p50_ns, p90_ns, p99_ns] = durations.quantiles_ns([0.5, 0.9, 0.99]).map(|quantile| quantile.map(rounded));
        Self {
            kernel: kernels.place(&key.kernel),
            route: key.route.map(|route| route.name()),
            shape: shapes.place(&key.shape),
            context_bucket: key.context_bucket,
            dispatches: durations.dispatches,
            counted: durations.counted,
            flagged: named(&durations.flagged),
            min_ns: durations.min_ns.map(rounded),
            p50_ns,
            p90_ns,
            p99_ns,
            mean_ns: durations.mean_ns().map(rounded),
            total_ns: counts.then(|| rounded(durations.total_ns)),
            share: (counts && all_ns > 0.0).then(|| rounded(durations.total_ns / all_ns * 1e3) / 1e3),
            // A kernel without floating-point operations has no rate of them.
            bandwidth_gbps: durations.bandwidth_gbps().filter(|_| durations.bytes > 0.0).map(rounded),
            gflops: durations.gflops().filter(|_| durations.flops > 0.0).map(rounded),
        }
    }

    /// The values by their names.
    fn values(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(values)) => values,
            other => unreachable!("a line is an object: {other:?}"),
        }
    }
}
