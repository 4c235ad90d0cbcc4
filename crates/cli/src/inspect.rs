//! `torchlight inspect`: what a program holds, and what would run of it here.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use torchlight::graph::unsupported_operators;
use torchlight::plan::{LinearChoice, LinearRoute, Role};
use torchlight::{DeviceFacts, FlatTensor, Graph, Plan, Program, Route};
use torchlight_pte::{Constant, DelegateGraph, Instruction, Method, Value, ValueId, VkValue, VkValueId};

use crate::Verdict;
use crate::attention::{PlanArgs, write_choices};
use crate::case::Case;
use crate::device::GlobalArgs;
use crate::program_file::{DataFiles, ProgramFile};
use crate::table::{Column, WIDTH, bytes, counted, table, text, wrap};

/// Options of `inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A .pte file.
    #[arg(value_name = "FILE")]
    path: PathBuf,

    /// Show this method only.
    #[arg(long)]
    method: Option<String>,

    /// Show every operator call of the delegate's graph, with its arguments.
    #[arg(long)]
    graph: bool,

    /// Say for each attention and each linear layer which route its smallest and its largest runs take, and why no other.
    #[arg(long, conflicts_with = "json")]
    explain: bool,

    #[command(flatten)]
    plan: PlanArgs,
}

#[derive(Serialize)]
struct Report {
    file: String,
    size_bytes: usize,
    named_data: usize,
    named_data_bytes: usize,
    methods: Vec<MethodReport>,
    /// Why there are no plans, where there are none.
    no_device: Option<String>,
}

#[derive(Serialize)]
struct MethodReport {
    name: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    instructions: Vec<String>,
    delegates: Vec<DelegateReport>,
    /// Why the method does not run, where it does not.
    refused: Option<String>,
    plan: Option<PlanReport>,
    /// Why the routes of the plan were chosen, where that was asked for.
    #[serde(skip)]
    reasons: Vec<u8>,
}

#[derive(Serialize)]
struct DelegateReport {
    id: String,
    blob_bytes: usize,
    error: Option<String>,
    operators: BTreeMap<String, usize>,
    unsupported: Vec<Unsupported>,
    constants: usize,
    constant_bytes: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<String>,
}

#[derive(Serialize)]
struct Unsupported {
    name: String,
    nodes: Vec<u32>,
}

#[derive(Serialize)]
struct PlanReport {
    adapter: String,
    dispatches: Vec<DispatchRow>,
    /// Whether a run launches some of the dispatches only: those of the routes that its sizes take.
    has_alternatives: bool,
    copies: usize,
    input_bytes: u64,
    constant_bytes: u64,
    state_bytes: u64,
    shared_bytes: u64,
}

#[derive(Serialize)]
struct DispatchRow {
    node: u32,
    kernel: &'static str,
    route: Option<&'static str>,
    workgroups: u64,
    workgroup_size: u32,
}

/// Shows a program.
pub(crate) fn inspect(global: &GlobalArgs, args: &InspectArgs, out: &mut impl Write) -> Result<Verdict> {
    if Case::is_case(&args.path) {
        bail!("{} is a case folder: give a .pte file in it", args.path.display());
    }
    let file = ProgramFile::open(&args.path)?;
    let program = file.program()?;
    let data = DataFiles::open(&global.data, &args.path)?;
    let data = data.parse()?;
    let wanted = |method: &&Method<'_>| args.method.as_deref().is_none_or(|name| name == method.name);
    let methods: Vec<&Method<'_>> = program.methods.iter().filter(wanted).collect();
    if methods.is_empty() {
        let names: Vec<&str> = program.methods.iter().map(|method| method.name).collect();
        bail!("{}: no such method; there are: {}", file.path().display(), names.join(", "));
    }
    // Without a device all but the plan can be shown.
    let device = global.open();
    let (facts, no_device) = match &device {
        Ok(gpu) => (Some(gpu.facts()), None),
        Err(error) if global.adapter.is_none() => (None, Some(format!("{error:#}"))),
        Err(_) => return device.map(|_| Verdict::Passed),
    };
    let report = Report {
        file: args.path.display().to_string(),
        size_bytes: file.len(),
        named_data: program.named_keys().count(),
        named_data_bytes: program.named_keys().map(|(_, size)| size).sum(),
        methods: methods.iter().map(|method| method_report((&program, &data), method, (facts, args))).collect(),
        no_device,
    };
    if global.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        write_report(&report, out)?;
    }
    Ok(Verdict::Passed)
}

fn method_report<'a>(
    (program, data): (&Program<'a>, &[FlatTensor<'a>]),
    method: &Method<'_>,
    (facts, args): (Option<&DeviceFacts>, &InspectArgs),
) -> MethodReport {
    let mut reasons = Vec::new();
    let graph = Graph::from_method_with_data(program, method.name, data);
    let plan = graph.as_ref().ok().zip(facts).map(|(graph, facts)| {
        let graph = args.plan.fused(graph, facts);
        let plan = Plan::new(&graph, facts, args.plan.options())?;
        if args.explain {
            write_choices(&plan, &graph, &mut reasons)?;
        }
        anyhow::Ok(plan_report(&plan, &graph, facts))
    });
    let (plan, plan_error) = match plan {
        Some(Ok(plan)) => (Some(plan), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let show = |ids: &[ValueId]| ids.iter().map(|&id| value(method, id)).collect();
    MethodReport {
        name: method.name.to_owned(),
        inputs: show(&method.inputs),
        outputs: show(&method.outputs),
        instructions: method.instructions.iter().map(|step| instruction(method, step)).collect(),
        delegates: method
            .delegates
            .iter()
            .map(|delegate| delegate_report(delegate.id, delegate.blob, args.graph))
            .collect(),
        refused: graph.err().map(|error| error.to_string()).or(plan_error.map(|error| error.to_string())),
        plan,
        reasons,
    }
}

fn value(method: &Method<'_>, id: ValueId) -> String {
    match &method.values[id.0 as usize] {
        Value::Tensor(meta) => {
            let dynamic = if meta.dynamism == torchlight_pte::Dynamism::Static { "" } else { " or smaller" };
            format!("%{} {}{:?}{dynamic}", id.0, dtype(&meta.dtype), meta.sizes)
        }
        other => format!("%{} {other:?}", id.0),
    }
}

fn instruction(method: &Method<'_>, instruction: &Instruction) -> String {
    let ids = |args: &[ValueId]| args.iter().map(|id| format!("%{}", id.0)).collect::<Vec<_>>().join(", ");
    match instruction {
        Instruction::DelegateCall { delegate, args } => format!("delegate {delegate}({})", ids(args)),
        Instruction::KernelCall { operator, args } => {
            let name = &method.operators[*operator];
            format!("{}.{}({})", name.name, name.overload, ids(args)).replace(".(", "(")
        }
        Instruction::Move { from, to } => format!("move %{} to %{}", from.0, to.0),
        Instruction::JumpFalse { condition, destination } => format!("unless %{} go to {destination}", condition.0),
        Instruction::Free { value } => format!("free %{}", value.0),
    }
}

fn delegate_report(id: &str, blob: &[u8], calls: bool) -> DelegateReport {
    let parsed = DelegateGraph::parse(blob);
    let mut report = DelegateReport {
        id: id.to_owned(),
        blob_bytes: blob.len(),
        error: parsed.as_ref().err().map(ToString::to_string),
        operators: BTreeMap::new(),
        unsupported: Vec::new(),
        constants: 0,
        constant_bytes: 0,
        calls: Vec::new(),
    };
    if let Ok(graph) = parsed {
        for call in &graph.chain {
            *report.operators.entry(call.name.to_owned()).or_default() += 1;
        }
        report.unsupported = unsupported(&graph);
        report.constants = graph.constants.len();
        report.constant_bytes = graph.constants.iter().map(Constant::byte_count).sum();
        if calls {
            report.calls = graph
                .chain
                .iter()
                .map(|call| {
                    let args: Vec<String> = call.args.iter().map(|&id| vk_value(&graph, id)).collect();
                    format!("[{}] {}({})", call.node_id, call.name, args.join(", "))
                })
                .collect();
        }
    }
    report
}

fn unsupported(graph: &DelegateGraph<'_>) -> Vec<Unsupported> {
    let mut by_name: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (node, name) in unsupported_operators(graph) {
        by_name.entry(name).or_default().push(node);
    }
    by_name.into_iter().map(|(name, nodes)| Unsupported { name: name.to_owned(), nodes }).collect()
}

fn dtype(dtype: &impl std::fmt::Debug) -> String {
    format!("{dtype:?}").to_ascii_lowercase()
}

fn vk_value(graph: &DelegateGraph<'_>, id: VkValueId) -> String {
    match &graph.values[id.0 as usize] {
        VkValue::Tensor(tensor) => {
            let constant = tensor.constant.map_or(String::new(), |constant| format!(" const {}", constant.0));
            format!("%{} {}{:?}{constant}", id.0, dtype(&tensor.dtype), tensor.dims)
        }
        VkValue::Null => "Null".to_owned(),
        VkValue::Int(value) => value.to_string(),
        VkValue::Double(value) => format!("{value:?}"),
        VkValue::Bool(value) => value.to_string(),
        VkValue::SymInt(_) => format!("%{} SymInt", id.0),
        VkValue::ValueList(ids) => {
            // A list that holds a list, or itself, is well-formed: such members are only named.
            let member = |&id: &VkValueId| match &graph.values[id.0 as usize] {
                VkValue::ValueList(_) => format!("%{} list", id.0),
                _ => vk_value(graph, id),
            };
            format!("({})", ids.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        other => format!("%{} {other:?}", id.0),
    }
}

fn plan_report(plan: &Plan, graph: &Graph<'_>, facts: &DeviceFacts) -> PlanReport {
    let dispatches = plan.dispatches().map(|dispatch| {
        let variant = plan.variant(dispatch.variant);
        DispatchRow {
            node: graph.nodes[dispatch.node as usize].id,
            kernel: variant.label,
            route: dispatch.route().map(Route::name).or(dispatch.linear_route().map(LinearRoute::name)),
            workgroups: dispatch.max_workgroups,
            workgroup_size: variant.workgroup_size,
        }
    });
    let sum = |wanted: fn(&Role) -> bool| {
        plan.buffers.iter().filter(|buffer| wanted(&buffer.role)).map(|buffer| buffer.size_bytes).sum()
    };
    PlanReport {
        adapter: facts.name.clone(),
        dispatches: dispatches.collect(),
        has_alternatives: plan.choices.iter().any(|choice| choice.table.reachable().len() > 1)
            || plan.linears.iter().any(LinearChoice::has_alternatives),
        copies: plan.steps.len() - plan.dispatches().count(),
        input_bytes: sum(|role| matches!(role, Role::Input(_))),
        constant_bytes: sum(|role| matches!(role, Role::Constant(_))),
        state_bytes: sum(|role| matches!(role, Role::State(_))),
        shared_bytes: plan.shared_bytes(),
    }
}

fn write_report(report: &Report, out: &mut impl Write) -> Result<()> {
    let (size, data) = (bytes(report.size_bytes as u64), bytes(report.named_data_bytes as u64));
    let constants = counted(report.named_data, "named constant", "named constants");
    writeln!(out, "{}: {size}, {constants} of {data}", report.file)?;
    for method in &report.methods {
        write_method(method, out)?;
    }
    if let Some(reason) = &report.no_device {
        writeln!(out, "\n{}", wrap(&format!("no plan is shown: {reason}"), 2))?;
    }
    Ok(())
}

fn write_method(method: &MethodReport, out: &mut impl Write) -> Result<()> {
    writeln!(out, "\nmethod {}", method.name)?;
    let sections = [("input", &method.inputs), ("output", &method.outputs), ("instruction", &method.instructions)];
    for (section, lines) in sections {
        for (index, line) in lines.iter().enumerate() {
            writeln!(out, "{}", wrap(&format!("  {section} {index}: {line}"), 6))?;
        }
    }
    for (index, delegate) in method.delegates.iter().enumerate() {
        let (blob, constants) = (bytes(delegate.blob_bytes as u64), bytes(delegate.constant_bytes));
        let count = counted(delegate.constants, "constant", "constants");
        writeln!(out, "  delegate {index}: {} of {blob}, {count} of {constants}", delegate.id)?;
        for (name, count) in &delegate.operators {
            writeln!(out, "    {count:>4} x {name}")?;
        }
        for call in &delegate.calls {
            writeln!(out, "{}", wrap(&format!("    {call}"), 8))?;
        }
        for Unsupported { name, nodes } in &delegate.unsupported {
            let first: Vec<String> = nodes.iter().take(8).map(u32::to_string).collect();
            let more = if nodes.len() > first.len() { ", ..." } else { "" };
            let word = if nodes.len() == 1 { "node" } else { "nodes" };
            let line = format!("    not supported: {name} ({word} {}{more})", first.join(", "));
            writeln!(out, "{}", wrap(&line, 8))?;
        }
        if let Some(error) = &delegate.error {
            writeln!(out, "{}", wrap(&format!("    cannot be read: {error}"), 8))?;
        }
    }
    if let Some(refused) = &method.refused {
        writeln!(out, "{}", wrap(&format!("  does not run: {refused}"), 6))?;
    }
    match &method.plan {
        Some(plan) if !plan.dispatches.is_empty() => write_plan(plan, out)?,
        _ => return Ok(()),
    }
    if !method.reasons.is_empty() {
        writeln!(out)?;
        out.write_all(&method.reasons)?;
    }
    Ok(())
}

fn write_plan(plan: &PlanReport, out: &mut impl Write) -> Result<()> {
    writeln!(out, "{}", wrap(&format!("  plan for {}, every size at its upper bound:", plan.adapter), 6))?;
    let mut table = table(&[
        Column::Number("node"),
        Column::Text("kernel"),
        Column::Text("route"),
        Column::Number("workgroups"),
        Column::Number("size"),
    ]);
    table.set_width(WIDTH - 2);
    for row in &plan.dispatches {
        table.add_row([
            row.node.to_string(),
            row.kernel.to_owned(),
            row.route.unwrap_or("-").to_owned(),
            row.workgroups.to_string(),
            row.workgroup_size.to_string(),
        ]);
    }
    for line in text(&table).lines() {
        writeln!(out, "    {line}")?;
    }
    let [input, constant, state, shared] =
        [plan.input_bytes, plan.constant_bytes, plan.state_bytes, plan.shared_bytes].map(bytes);
    let dispatches = counted(plan.dispatches.len(), "dispatch", "dispatches");
    writeln!(out, "    {dispatches}, {}", counted(plan.copies, "copy", "copies"))?;
    if plan.has_alternatives {
        writeln!(out, "    a node's alternatives are all listed: each run launches those of one route")?;
    }
    let buffers = format!("    buffers: inputs {input}, constants {constant}, caches {state}, scratch {shared}");
    writeln!(out, "{}", wrap(&buffers, 13))?;
    Ok(())
}
