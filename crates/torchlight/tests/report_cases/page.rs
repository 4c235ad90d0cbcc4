//! Reads a report back: the data in it, and the dispatches that its timeline shows.

use serde_json::Value;
use torchlight::{RunProfile, Sample};

/// A run as the timeline shows it. Times are whole ns.
#[derive(Debug, PartialEq)]
pub(crate) struct ShownRun {
    pub(crate) run: i64,
    pub(crate) step: i64,
    pub(crate) mode: Value,
    /// From the start of the first run that is shown.
    pub(crate) start: i64,
    /// Prepare, encode, submit, wait, readback, and what has no name.
    pub(crate) host: [i64; 6],
    pub(crate) dispatches: Vec<ShownDispatch>,
}

/// A dispatch as the timeline shows it.
#[derive(Debug, PartialEq)]
pub(crate) struct ShownDispatch {
    pub(crate) kernel: Value,
    pub(crate) route: Value,
    pub(crate) operator: Value,
    pub(crate) node: Option<i64>,
    pub(crate) shape: Value,
    pub(crate) quality: Value,
    pub(crate) context: Option<i64>,
    pub(crate) bytes: Option<i64>,
    pub(crate) begin: Option<i64>,
    pub(crate) length: Option<i64>,
    pub(crate) duration: Option<i64>,
}

/// The profile in a page.
pub(crate) fn data(page: &str) -> Value {
    let (_, after) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

/// The runs on the timeline, read as the page's scripts do.
pub(crate) fn shown_runs(data: &Value) -> Vec<ShownRun> {
    let timeline = &data["timeline"];
    let column = |table: &str, name: &str, groups: &[Option<i64>]| numbers(&timeline[table][name], groups);
    let variants = ["kernel", "route", "operator", "node", "shape"].map(|name| column("variants", name, &[]));
    let runs = ["run", "step", "mode", "dispatches", "pause"].map(|name| column("runs", name, &[]));
    let host =
        ["prepare", "encode", "submit", "wait", "readback", "unattributed"].map(|name| column("runs", name, &[]));
    let sequence = column("sequence", "variant", &[]);
    let samples =
        ["quality", "context", "bytes", "gap", "length", "correction"].map(|name| column("samples", name, &sequence));
    let text =
        |list: &str, place: Option<i64>| place.map_or(Value::Null, |place| timeline[list][place as usize].clone());
    let mut next = 0;
    let mut returned = 0;
    let mut shown = Vec::new();
    for place in 0..runs[0].len() {
        let [run, step, mode, dispatches, pause] = runs.each_ref().map(|column| column[place].unwrap());
        let host = host.each_ref().map(|column| column[place].unwrap());
        let start = returned + pause;
        returned = start + host.iter().sum::<i64>();
        let mut latest_end = 0;
        let mut dispatch = |index: usize| {
            let [kernel, route, operator, node, shape] =
                variants.each_ref().map(|column| column[sequence[index].unwrap() as usize]);
            let [quality, context, bytes, gap, length, correction] = samples.each_ref().map(|column| column[index]);
            let begin = gap.map(|gap| latest_end + gap);
            let end = begin.map(|begin| begin + length.unwrap());
            let own = begin.zip(end).map_or(0, |(begin, end)| (end - begin.max(latest_end)).max(0));
            latest_end = end.map_or(latest_end, |end| end.max(latest_end));
            ShownDispatch {
                kernel: data["kernels"][kernel.unwrap() as usize]["name"].clone(),
                route: text("routes", route),
                operator: text("strings", operator),
                node,
                shape: text("strings", shape),
                quality: text("qualities", quality),
                context,
                bytes,
                begin,
                length,
                duration: correction.map(|correction| own + correction),
            }
        };
        let dispatches: Vec<ShownDispatch> = (next..next + dispatches as usize).map(&mut dispatch).collect();
        next += dispatches.len();
        shown.push(ShownRun { run, step, mode: text("modes", Some(mode)), start, host, dispatches });
    }
    assert_eq!(next, sequence.len(), "every dispatch is of a run");
    shown
}

/// A column: numbers in the digits of source maps, each the difference to the one before it in its group.
fn numbers(text: &Value, groups: &[Option<i64>]) -> Vec<Option<i64>> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut numbers = Vec::new();
    let mut before = std::collections::HashMap::new();
    let (mut bits, mut shift) = (0, 0);
    for character in text.as_str().unwrap().chars() {
        let group = groups.get(numbers.len()).copied().flatten().unwrap_or(0);
        let Some(digit) = DIGITS.find(character) else {
            assert_eq!((character, shift), ('-', 0));
            numbers.push(None);
            continue;
        };
        bits |= (digit as i64 & 31) << shift;
        shift += 5;
        if digit < 32 {
            let difference = if bits & 1 == 1 { -(bits >> 1) } else { bits >> 1 };
            let number = before.entry(group).or_insert(0);
            *number += difference;
            numbers.push(Some(*number));
            (bits, shift) = (0, 0);
        }
    }
    numbers
}

/// What the timeline has to show of a run: numbers rounded to whole ns.
pub(crate) fn shown(run: &RunProfile, start: i64, dispatches: usize) -> ShownRun {
    let whole = |ns: f64| ns.round() as i64;
    let host = run.host;
    let phases = [host.prepare_ns, host.encode_ns, host.submit_ns, host.wait_ns, host.readback_ns].map(whole);
    let [prepare, encode, submit, wait, readback] = phases;
    let unattributed = whole(host.wall_ns) - phases.iter().sum::<i64>();
    let dispatch = |sample: &Sample| ShownDispatch {
        kernel: (*sample.timed.kernel).into(),
        route: sample.timed.route.map(|route| route.name()).into(),
        operator: (*sample.timed.operator).into(),
        node: Some(sample.timed.node.into()),
        shape: (*sample.timed.shape).into(),
        quality: sample.quality.name().into(),
        context: sample.timed.context_len.map(i64::from),
        bytes: Some(sample.timed.bytes as i64),
        begin: sample.begin_ns.map(whole),
        length: sample.begin_ns.zip(sample.end_ns).map(|(begin, end)| whole(end - begin)),
        duration: sample.duration_ns.map(whole),
    };
    ShownRun {
        run: run.run as i64,
        step: run.step as i64,
        mode: run.mode.name().into(),
        start,
        host: [prepare, encode, submit, wait, readback, unattributed],
        dispatches: run.samples[..dispatches].iter().map(dispatch).collect(),
    }
}
