//! One step of attention by one route, on the device: checked, then timed.
//!
//! The time of a step is that of a pass over many, divided: what a model pays for each of its layers. The steps of a
//! pass go round over K/V pairs that together are larger than any cache of the device, so that none finds its own there.

use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use torchlight::graph::IntArg;
use torchlight::kernels::KvType;
use torchlight::plan::{Rules, Tokens};
use torchlight::{
    DType, Error, Gpu, Graph, GraphBuilder, Input, Plan, Profile, Route, Session, SessionOptions, TensorView,
    TimestampMode,
};

use super::check::{Checked, check, tolerance};
use super::data::Data;
use super::quantile;
use super::shapes::Shape;

/// Sets, as K/V pairs, that a pass goes round over at most: more buffers cost more than they tell.
const MOST_SETS: usize = 512;
/// Bytes of all sets: several times any cache, or of a CPU adapter enough to leave the nearest ones.
const ROTATED_BYTES: u64 = 300_000_000;
const ROTATED_BYTES_CPU: u64 = 8_000_000;
/// A pass takes so long at least on a GPU, in ns, so that its own begin and end do not count.
const LEAST_PASS_NS: f64 = 1e6;
/// And no longer than this if the rotation allows: it bounds work, not memory, that takes longer.
const MOST_PASS_NS: f64 = 3e8;
/// Factor on queries that makes softmax peak: single keys matter then, and running maxima move.
const PEAKED: f32 = 8.0;

/// What to time, and how thoroughly.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) data: &'a Data,
    pub(crate) shape: Shape,
    pub(crate) options: SessionOptions,
    /// How often the pass is timed.
    pub(crate) repeats: u32,
    /// Whether two pairs are enough.
    pub(crate) is_smoke: bool,
}

/// What was found of a correct step.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    /// Microseconds of a step within a pass, one value a repeat.
    pub(crate) amortised_us: Vec<f64>,
    /// Each kernel in passes of its own.
    pub(crate) own_pass: Vec<OwnPass>,
    pub(crate) steps: usize,
    pub(crate) pairs: usize,
    pub(crate) clock: Clock,
}

/// A kernel in a pass of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct OwnPass {
    pub(crate) kernel: String,
    pub(crate) us_p50: f64,
}

/// Whose clock timed a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Clock {
    /// The device's timestamps.
    Gpu,
    /// The host's: submission and waiting are in it.
    Host,
}

/// A step that ran correctly, and about how long it took.
#[derive(Clone, Copy)]
pub(crate) struct Correct {
    pub(crate) checked: Checked,
    estimate_ns: f64,
}

/// The K/V pairs of a shape that fill the caches of a device.
pub(crate) fn pairs(shape: &Shape, kv: KvType, is_cpu: bool) -> usize {
    sets(shape.pair_bytes(kv), is_cpu)
}

/// Sets of so many bytes that fill the caches of a device.
pub(crate) fn sets(set_bytes: u64, is_cpu: bool) -> usize {
    let wanted = if is_cpu { ROTATED_BYTES_CPU } else { ROTATED_BYTES };
    (wanted.div_ceil(set_bytes) as usize).clamp(2, MOST_SETS)
}

/// How many sets there are, and how many steps go round over them in a pass, where a step takes about so long.
pub(crate) fn rounds(sets: usize, estimate_ns: f64, is_cpu: bool) -> (usize, usize) {
    let most = ((MOST_PASS_NS / estimate_ns) as usize).max(2);
    let sets = sets.min(most);
    let least_ns = if is_cpu { 0.0 } else { LEAST_PASS_NS };
    let rounds = (least_ns / (estimate_ns * sets as f64)).ceil().clamp(1.0, 64.0);
    (sets, sets * rounds as usize)
}

/// A session whose runs are passes of many steps, over inputs that were given once.
pub(crate) struct Passes<'a> {
    gpu: &'a Gpu,
    session: Session,
    inputs: Vec<Input<'static>>,
}

/// What passes took.
pub(crate) struct PassTimes {
    /// Nanoseconds of each.
    pub(crate) ns: Vec<f64>,
    pub(crate) clock: Clock,
    pub(crate) own_pass: Vec<OwnPass>,
}

impl<'a> Passes<'a> {
    /// Gives the inputs in a first pass.
    pub(crate) fn new(gpu: &'a Gpu, mut session: Session, inputs: &[Input<'_>]) -> Result<Self> {
        session.run(inputs)?;
        gpu.wait()?;
        Ok(Self { gpu, session, inputs: vec![Input::Resident; inputs.len()] })
    }

    /// Nanoseconds that a pass takes about.
    pub(crate) fn estimate(&mut self) -> Result<f64> {
        self.session.set_timestamps(TimestampMode::Pass);
        let mut least = f64::INFINITY;
        for _ in 0..3 {
            let (profile, host_ns) = self.passes(1)?;
            let stamped = profile.runs.iter().find_map(torchlight::RunProfile::sum_ns);
            least = stamped.into_iter().chain(host_ns).next().unwrap_or(least).min(least);
        }
        Ok(least)
    }

    /// Times that many passes, and each kernel in passes of its own. `warm` is called before the clock counts.
    pub(crate) fn time(&mut self, repeats: u32, warm: impl FnOnce() -> Result<()>) -> Result<PassTimes> {
        self.session.set_timestamps(TimestampMode::Run);
        warm()?;
        // One more pass that is not counted: the device comes from another kernel.
        self.passes(1)?;
        let (profile, host_ns) = self.passes(repeats)?;
        let stamped: Vec<f64> = profile.runs.iter().filter_map(torchlight::RunProfile::sum_ns).collect();
        let (clock, ns) = if stamped.is_empty() { (Clock::Host, host_ns) } else { (Clock::Gpu, stamped) };
        self.session.set_timestamps(TimestampMode::Pass);
        let (profile, _) = self.passes(repeats.clamp(1, 3))?;
        Ok(PassTimes { ns, clock, own_pass: own_pass(&profile) })
    }

    /// Runs the pass so often. Returns what was stamped, and the host's nanoseconds of each.
    fn passes(&mut self, count: u32) -> Result<(Profile, Vec<f64>)> {
        let mut profile = Profile::default();
        let mut host_ns = Vec::new();
        for _ in 0..count {
            let start = Instant::now();
            self.session.run(&self.inputs)?;
            self.gpu.wait()?;
            host_ns.push(start.elapsed().as_nanos() as f64);
            profile.merge(self.session.take_profile()?);
        }
        Ok((profile, host_ns))
    }
}

/// The route that a step takes, found without a byte of its tensors, or why it cannot be served.
pub(crate) fn planned_route(gpu: &Gpu, shape: &Shape, options: SessionOptions) -> Result<Route, String> {
    let (kv, options, problem) = (options.kv, options.plan(), shape.problem());
    let rules = Rules::new(options, gpu.facts(), &problem, Tokens::Exactly);
    let taken = rules.choose(&problem).map_err(|refusal| refusal.to_string())?;
    let plan = checked_steps(shape).and_then(|graph| Plan::new(&graph, gpu.facts(), options));
    plan.map_err(|error| reason(&error, kv))?;
    Ok(taken.route())
}

/// The library's error, and the way out where a cache is too large and half of it would not be.
fn reason(error: &Error, kv: KvType) -> String {
    let is_cache = |what: &str| what.starts_with("input ") && !what.starts_with("input 0 ");
    let hint = match error {
        Error::Limits { what, needed, limit, .. } if kv == KvType::F32 && is_cache(what) && needed / 2 <= *limit => {
            "; --kv f16 takes half as much"
        }
        _ => "",
    };
    format!("{error}{hint}")
}

/// The K/V pair of each step that is checked. The last comes after others, whose scratch memory it uses again.
const CHECKED_STEPS: [usize; 3] = [0, 1, 0];

/// A graph of some steps over two pairs, all of it given when it runs: q, then keys and values. Its output is that of the
/// last step.
fn checked_steps(shape: &Shape) -> torchlight::Result<Graph<'static>> {
    let mut graph = GraphBuilder::new("checked steps");
    let q = graph.static_input(DType::F32, &shape.q_dims())?;
    let mut cache = || graph.static_input(DType::F32, &shape.cache_dims());
    let pairs = [[cache()?, cache()?], [cache()?, cache()?]];
    let mut last = None;
    for pair in CHECKED_STEPS {
        last = Some(graph.attend(q, pairs[pair], input_pos(shape), None)?);
    }
    last.into_iter().for_each(|out| graph.output(out));
    graph.finish()
}

fn input_pos(shape: &Shape) -> IntArg {
    IntArg::Known(i64::from(shape.problem().input_pos))
}

impl Job<'_> {
    /// Runs the step, with plain and with peaked scores, and holds it against f64.
    pub(crate) fn verify(&self, route: Route) -> Result<Correct> {
        let graph = checked_steps(&self.shape)?;
        let mut session = Session::new(self.gpu, &graph, self.options)?;
        let (shape, problem) = (&self.shape, self.shape.problem());
        let of_last = self.data.pair(shape, CHECKED_STEPS[CHECKED_STEPS.len() - 1]);
        let mut caches = Vec::new();
        for bytes in [0, 1].into_iter().flat_map(|pair| self.data.pair(shape, pair)) {
            caches.push(Input::Host(TensorView::new(DType::F32, &shape.cache_dims(), bytes)?));
        }
        let plain = self.data.q(shape);
        let peaked = plain.iter().map(|value| value * PEAKED).collect();
        let mut checked: Option<Checked> = None;
        for q in [plain, peaked] {
            let q_view = TensorView::f32(&shape.q_dims(), &q)?;
            let inputs: Vec<Input<'_>> = [Input::Host(q_view)].into_iter().chain(caches.iter().copied()).collect();
            let outputs = session.run(&inputs)?;
            let got =
                outputs.first().and_then(|output| output.tensor()).context("the step gave no tensor")?.to_f32()?;
            let (rows, rel_l2) = check(&problem, &q, of_last, &got);
            let this = Checked { rows, rel_l2, tolerance: tolerance(route, self.options.kv) };
            checked = Some(checked.map_or(this, |before| before.or_worse(this)));
            caches = vec![Input::Resident; caches.len()];
        }
        let estimate_ns = Passes { gpu: self.gpu, session, inputs: vec![Input::Resident; 5] }.estimate()?;
        let estimate_ns = (estimate_ns / CHECKED_STEPS.len() as f64).max(1.0);
        Ok(Correct { checked: checked.context("the step never ran")?, estimate_ns })
    }

    /// Times a step that was found correct. `warm` is called when all is built, before the clock counts.
    pub(crate) fn time(&self, correct: &Correct, warm: impl FnOnce() -> Result<()>) -> Result<Timed> {
        let is_cpu = self.gpu.facts().is_cpu;
        let (pairs, steps) = match self.is_smoke {
            true => (2, 2),
            false => rounds(pairs(&self.shape, self.options.kv, is_cpu), correct.estimate_ns, is_cpu),
        };
        let graph = self.rotated(pairs, steps)?;
        let session = Session::new(self.gpu, &graph, self.options)?;
        let q = self.data.q(&self.shape);
        let q = Input::Host(TensorView::f32(&self.shape.q_dims(), &q)?);
        let PassTimes { ns, clock, own_pass } = Passes::new(self.gpu, session, &[q])?.time(self.repeats, warm)?;
        let amortised_us = ns.iter().map(|ns| ns / 1000.0 / steps as f64).collect();
        Ok(Timed { amortised_us, own_pass, steps, pairs, clock })
    }

    /// A graph of many steps that go round over K/V pairs. It has no outputs: a run returns when it is submitted.
    fn rotated(&self, pairs: usize, steps: usize) -> torchlight::Result<Graph<'_>> {
        let mut graph = GraphBuilder::new("steps over rotated caches");
        let q = graph.static_input(DType::F32, &self.shape.q_dims())?;
        let dims = self.shape.cache_dims();
        let mut caches = Vec::new();
        for pair in 0..pairs {
            let [k, v] = self.data.pair(&self.shape, pair);
            caches.push([graph.constant(DType::F32, &dims, k)?, graph.constant(DType::F32, &dims, v)?]);
        }
        for step in 0..steps {
            graph.attend(q, caches[step % pairs], input_pos(&self.shape), None)?;
        }
        graph.finish()
    }
}

/// The median of each kernel, in the order in which a step launches them.
fn own_pass(profile: &Profile) -> Vec<OwnPass> {
    let mut kernels: Vec<(String, Vec<f64>)> = Vec::new();
    for sample in profile.runs.iter().flat_map(|run| &run.samples) {
        let Some(ns) = sample.counted_ns() else { continue };
        match kernels.iter_mut().find(|(kernel, _)| **kernel == *sample.timed.kernel) {
            Some((_, durations)) => durations.push(ns),
            None => kernels.push((sample.timed.kernel.to_string(), vec![ns])),
        }
    }
    let own_pass =
        |(kernel, durations): (String, Vec<f64>)| OwnPass { kernel, us_p50: quantile(&durations, 0.5) / 1000.0 };
    kernels.into_iter().map(own_pass).collect()
}
