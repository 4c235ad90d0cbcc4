//! How linear layers are served: the option that chooses it, and the reasons for what was chosen.

use std::io::Write;

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use torchlight::kernels::LinearProblem;
use torchlight::kernels::linear::{Ending, WeightType};
use torchlight::plan::{LinearChoice, LinearReasons, LinearRoute, LinearRules};
use torchlight::{Graph, Plan};

use crate::attention::{AUTO, nodes};
use crate::table::{counted, wrap};

/// A route of linear layers, or the choice of one for each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinearArg(pub(crate) Option<LinearRoute>);

/// Takes the name of a route, or auto, and lists them where it is neither.
pub(crate) fn linear_parser() -> impl TypedValueParser<Value = LinearArg> {
    let names = [AUTO].into_iter().chain(LinearRoute::ALL.map(LinearRoute::name));
    PossibleValuesParser::new(names).map(|name| LinearArg(name.parse().ok()))
}

/// Says for each linear layer of a plan which routes it takes, and why no others. Equal ones are named together.
pub(crate) fn write_layers(plan: &Plan, graph: &Graph<'_>, out: &mut impl Write) -> Result<()> {
    let mut groups: Vec<(&LinearChoice, Vec<u32>)> = Vec::new();
    for choice in &plan.linears {
        let node = graph.nodes[choice.node as usize].id;
        let sizes = |choice: &LinearChoice| (choice.smallest, choice.largest, choice.rules);
        match groups.iter_mut().find(|(known, _)| sizes(known) == sizes(choice)) {
            Some((_, nodes)) => nodes.push(node),
            None => groups.push((choice, vec![node])),
        }
    }
    for (choice, ids) in groups {
        writeln!(out, "{}", wrap(&format!("{}: {}", layer(&choice.largest), nodes(&ids)), 4))?;
        let several = choice.smallest.rows < choice.largest.rows;
        for problem in several.then_some(&choice.smallest).into_iter().chain([&choice.largest]) {
            write_run(&choice.rules, problem, out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// A layer in words.
fn layer(problem: &LinearProblem) -> String {
    let LinearProblem { in_features, out_features, weight, has_norm, ending, .. } = *problem;
    let weight = match weight {
        WeightType::F32 => String::new(),
        WeightType::Q4 { group } => format!(", 4 bits in groups of {group}"),
    };
    let norm = if has_norm { ", rms_norm in front" } else { "" };
    let ending = match ending {
        Ending::Plain => "",
        Ending::Add => ", a residual added",
        Ending::SwiGlu => ", SwiGLU behind",
    };
    format!("linear layer of {in_features} to {out_features}{weight}{norm}{ending}")
}

fn write_run(rules: &LinearRules, problem: &LinearProblem, out: &mut impl Write) -> Result<()> {
    let LinearReasons { chosen, others } = rules.explain(problem);
    let chosen = chosen.map_or_else(|refusal| format!("refused, {refusal}"), |route| route.to_string());
    writeln!(out, "  {}: {chosen}", counted(problem.rows as usize, "row", "rows"))?;
    for (route, refusal) in others {
        writeln!(out, "{}", wrap(&format!("    not {route}: {refusal}"), 8))?;
    }
    Ok(())
}
