//! `torchlight bench`: attention and linear layers on shapes of real models, and what a dispatch costs, timed so that peers
//! can be compared.

mod check;
mod clocks;
mod data;
mod dispatch;
mod linear;
mod plot;
mod report;
mod sdpa;
mod shapes;
mod tables;
mod timing;

use std::io::Write;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::Verdict;
use crate::device::GlobalArgs;

/// Options of `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Time attention: verified against f64 first, amortised over many steps in one pass, cold caches, warm clocks.
    Sdpa(sdpa::SdpaArgs),
    /// Time linear layers: the same way, over weights of 4 bits or f32.
    Linear(linear::LinearArgs),
    /// Measure what a dispatch costs host and device, with and without timestamps.
    Dispatch(dispatch::DispatchArgs),
}

/// Runs a benchmark.
pub(crate) fn bench(global: &GlobalArgs, args: &BenchArgs, out: &mut impl Write) -> Result<Verdict> {
    match &args.what {
        What::Sdpa(args) => sdpa::sdpa(global, args, out),
        What::Linear(args) => linear::linear(global, args, out),
        What::Dispatch(args) => dispatch::dispatch(global, args, out),
    }
}

/// The value that a share of others is at or below, between neighbours linearly. `values` is not empty.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = (sorted.len() - 1) as f64 * share;
    let (low, high) = (position.floor() as usize, position.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!([0.0, 0.5, 0.9, 1.0].map(|share| quantile(&values, share)), [1.0, 2.5, 3.7, 4.0]);
        assert_eq!(quantile(&[7.0], 0.9), 7.0);
    }
}
