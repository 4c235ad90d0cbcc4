//! How attention is served: the options that choose it, and the reasons for what was chosen.

use std::io::Write;

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use torchlight::kernels::sdpa_matrix::Scores;
use torchlight::kernels::{AttentionProblem, KvType};
use torchlight::plan::{Choice, PlanOptions, Refusal, Rules};
use torchlight::{Route, Session, SessionOptions};

use crate::table::{counted, wrap};

/// The name of the choice that the device and the step decide.
pub(crate) const AUTO: &str = "auto";

/// Options of every command that plans attention.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PlanArgs {
    /// The type in which the device keeps KV caches: f16 takes half the memory, and rounds.
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub(crate) kv: KvArg,

    /// The way to compute all attention. auto takes the fastest for each step.
    #[arg(long, value_name = "ROUTE", default_value = AUTO, value_parser = route_parser())]
    pub(crate) route: RouteArg,
}

/// Options of every command that runs attention.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct AttentionArgs {
    #[command(flatten)]
    pub(crate) plan: PlanArgs,

    /// The type in which the matrix route sums its scores: f16 is faster, f32 closer.
    #[arg(long, value_name = "TYPE", default_value = "f16")]
    pub(crate) scores: ScoresArg,
}

/// A type of KV caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KvArg {
    F16,
    F32,
}

/// A type of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScoresArg {
    F16,
    F32,
}

/// A route, or the choice of one for each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteArg(pub(crate) Option<Route>);

impl From<KvArg> for KvType {
    fn from(arg: KvArg) -> Self {
        match arg {
            KvArg::F16 => Self::F16,
            KvArg::F32 => Self::F32,
        }
    }
}

impl From<ScoresArg> for Scores {
    fn from(arg: ScoresArg) -> Self {
        match arg {
            ScoresArg::F16 => Self::F16,
            ScoresArg::F32 => Self::F32,
        }
    }
}

/// Takes the name of a route, or auto, and lists them where it is neither.
fn route_parser() -> impl TypedValueParser<Value = RouteArg> {
    let names = [AUTO].into_iter().chain(Route::ALL.map(Route::name));
    PossibleValuesParser::new(names).map(|name| RouteArg(name.parse().ok()))
}

impl PlanArgs {
    /// What a plan is made by.
    pub(crate) fn options(&self) -> PlanOptions {
        PlanOptions { kv: self.kv.into(), route: self.route.0, ..PlanOptions::default() }
    }
}

impl AttentionArgs {
    /// Session options with these in their place.
    pub(crate) fn apply(&self, options: SessionOptions) -> SessionOptions {
        let PlanOptions { kv, route, .. } = self.plan.options();
        SessionOptions { kv, route, scores: self.scores.into(), ..options }
    }
}

/// Says for each attention of a session which routes its steps take, and why no others. Equal ones are named together.
pub(crate) fn write_choices(session: &Session, out: &mut impl Write) -> Result<()> {
    let mut groups: Vec<(&Choice, Vec<u32>)> = Vec::new();
    for choice in &session.plan().choices {
        let node = session.graph().nodes[choice.node as usize].id;
        let same = |known: &Choice| (known.largest, known.rules) == (choice.largest, choice.rules);
        match groups.iter_mut().find(|(known, _)| same(known)) {
            Some((_, nodes)) => nodes.push(node),
            None => groups.push((choice, vec![node])),
        }
    }
    for (choice, nodes) in groups {
        let AttentionProblem { q_heads, kv_heads, head_dim, .. } = choice.largest;
        let node = if nodes.len() == 1 { "node" } else { "nodes" };
        let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
        let line = format!(
            "attention of {q_heads} heads, {kv_heads} KV heads, head_dim {head_dim}: {node} {}",
            nodes.join(", ")
        );
        writeln!(out, "{}", wrap(&line, 4))?;
        for problem in steps(choice) {
            write_step(&choice.rules, &problem, out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The steps that stand for all: one token, where steps may have so few, and as many as fit.
fn steps(choice: &Choice) -> Vec<AttentionProblem> {
    let largest = choice.largest;
    let one = AttentionProblem { new_tokens: 1, input_pos: largest.context_len() - 1, ..largest };
    let has_one = choice.table.look_up(&one) != Err(Refusal::Tokens(1));
    let smaller = (has_one && largest.new_tokens > 1).then_some(one);
    smaller.into_iter().chain([largest]).collect()
}

fn write_step(rules: &Rules, problem: &AttentionProblem, out: &mut impl Write) -> Result<()> {
    let (chosen, others) = rules.explain(problem);
    let tokens = counted(problem.new_tokens as usize, "token", "tokens");
    let keys = counted(problem.context_len() as usize, "key", "keys");
    let chosen = chosen.map_or_else(|refusal| format!("refused, {refusal}"), |taken| taken.route().to_string());
    writeln!(out, "  {tokens} over {keys}: {chosen}")?;
    for (route, refusal) in others {
        writeln!(out, "{}", wrap(&format!("    not {route}: {refusal}"), 8))?;
    }
    Ok(())
}
