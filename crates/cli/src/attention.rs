//! How a program is planned, attention above all: the options that choose it, and the reasons for what was chosen.

use std::io::Write;

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use torchlight::graph::Fusion;
use torchlight::kernels::linear::Products;
use torchlight::kernels::sdpa_matrix::Scores;
use torchlight::kernels::{AttentionProblem, KvType};
use torchlight::plan::{Choice, PlanOptions, Refusal, Rules};
use torchlight::{DeviceFacts, Graph, Plan, Route, SessionOptions};

use crate::linear::{LinearArg, linear_parser, write_layers};
use crate::table::{counted, wrap};

/// The name of the choice that the device and the step decide.
pub(crate) const AUTO: &str = "auto";

/// Options of every command that plans a program.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PlanArgs {
    /// The type in which the device keeps KV caches: f16 takes half the memory, and rounds.
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub(crate) kv: KvArg,

    /// The way to compute all attention. auto takes the fastest for each step.
    #[arg(long, value_name = "ROUTE", default_value = AUTO, value_parser = route_parser())]
    pub(crate) route: RouteArg,

    /// The way to compute all linear layers. auto takes the fastest for each run.
    #[arg(long, value_name = "ROUTE", default_value = AUTO, value_parser = linear_parser())]
    pub(crate) linear: LinearArg,

    /// The type in which linear layers of many rows multiply: f16 is faster where the device has cooperative matrices, and
    /// rounds.
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub(crate) products: ProductsArg,

    /// Keep each operator of the program by itself, instead of computing several in one kernel.
    #[arg(long)]
    pub(crate) no_fusion: bool,
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

/// A type of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProductsArg {
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

impl From<ProductsArg> for Products {
    fn from(arg: ProductsArg) -> Self {
        match arg {
            ProductsArg::F16 => Self::F16,
            ProductsArg::F32 => Self::F32,
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
        let (kv, route, linear) = (self.kv.into(), self.route.0, self.linear.0);
        PlanOptions { kv, route, linear, products: self.products.into(), ..PlanOptions::default() }
    }

    /// A graph as it is planned for a device.
    pub(crate) fn fused<'a>(&self, graph: &Graph<'a>, facts: &DeviceFacts) -> Graph<'a> {
        match self.fusion() {
            Fusion::On => graph.clone().fused(facts.limits.largest_binding()),
            Fusion::Off => graph.clone(),
        }
    }

    /// Whether operators are fused.
    pub(crate) fn fusion(&self) -> Fusion {
        if self.no_fusion { Fusion::Off } else { Fusion::On }
    }
}

impl AttentionArgs {
    /// Session options with these in their place.
    pub(crate) fn apply(&self, options: SessionOptions) -> SessionOptions {
        let PlanOptions { kv, route, linear, products, .. } = self.plan.options();
        SessionOptions {
            kv,
            route,
            linear,
            products,
            fusion: self.plan.fusion(),
            scores: self.scores.into(),
            ..options
        }
    }
}

/// Says for each attention and each linear layer of a plan which routes it takes, and why no others.
pub(crate) fn write_choices(plan: &Plan, graph: &Graph<'_>, out: &mut impl Write) -> Result<()> {
    write_attention(plan, graph, out)?;
    write_layers(plan, graph, out)
}

/// Equal attentions are named together.
fn write_attention(plan: &Plan, graph: &Graph<'_>, out: &mut impl Write) -> Result<()> {
    let mut groups: Vec<(&Choice, Vec<u32>)> = Vec::new();
    for choice in &plan.choices {
        let node = graph.nodes[choice.node as usize].id;
        let same = |known: &Choice| (known.largest, known.rules) == (choice.largest, choice.rules);
        match groups.iter_mut().find(|(known, _)| same(known)) {
            Some((_, nodes)) => nodes.push(node),
            None => groups.push((choice, vec![node])),
        }
    }
    for (choice, ids) in groups {
        let AttentionProblem { q_heads, kv_heads, head_dim, .. } = choice.largest;
        let heads = format!("{q_heads} heads, {kv_heads} KV heads, head_dim {head_dim}");
        let line = format!("attention of {heads}: {}", nodes(&ids));
        writeln!(out, "{}", wrap(&line, 4))?;
        for problem in steps(choice) {
            write_step(&choice.rules, &problem, out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Some nodes in words.
pub(crate) fn nodes(ids: &[u32]) -> String {
    let word = if ids.len() == 1 { "node" } else { "nodes" };
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    format!("{word} {}", ids.join(", "))
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
