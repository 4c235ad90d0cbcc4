//! The dispatches of a run on one line of time, where no two run at once.

use crate::profile::{RunProfile, Sample};

/// The time that counts as a dispatch's own, in ns from the earliest stamp of its run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    /// Its begin, or the latest end before it where that is later.
    pub(super) begin_ns: f64,
    /// Its end, or the begin above where that is later: it had no time of its own.
    pub(super) end_ns: f64,
}

/// The samples of a run, each with its span where its stamps are in order.
pub(super) fn timeline(run: &RunProfile) -> impl Iterator<Item = (&Sample, Option<Span>)> {
    let mut latest_end = 0.0;
    run.samples.iter().map(move |sample| {
        let span = sample.begin_ns.zip(sample.end_ns).map(|(begin, end)| {
            let begin_ns = f64::max(begin, latest_end);
            Span { begin_ns, end_ns: end.max(begin_ns) }
        });
        latest_end = span.map_or(latest_end, |span| span.end_ns);
        (sample, span)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::{run, timed};
    use crate::profile::{DeviceClock, TickPair, samples};

    #[test]
    fn no_two_dispatches_run_at_once() {
        let pairs = [(100, 200), (150, 300), (120, 250), (0, 0), (90, 50), (290, 400)];
        let stamps = pairs.map(|(begin, end)| TickPair { begin, end });
        let clock = DeviceClock { period_ns: 1.0, quantum_ticks: 1 };
        let run = run(samples(vec![timed("k"); stamps.len()], &stamps, clock));
        let spans: Vec<_> = timeline(&run).map(|(_, span)| span.map(|span| (span.begin_ns, span.end_ns))).collect();
        let wanted = [Some((0.0, 100.0)), Some((100.0, 200.0)), Some((200.0, 200.0)), None, None, Some((200.0, 300.0))];
        assert_eq!(spans, wanted);
        let durations: Vec<_> = run.samples.iter().map(|sample| sample.duration_ns).collect();
        let lengths: Vec<_> = wanted.iter().map(|span| span.map(|(begin, end)| end - begin)).collect();
        assert_eq!(durations, lengths, "a span is as long as what counts");
    }
}
