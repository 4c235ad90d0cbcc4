//! `torchlight verify`: case folders against their goldens.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use torchlight::{DeviceFacts, Gpu, Input, Session};

use crate::Verdict;
use crate::attention::{AttentionArgs, KvArg};
use crate::case::{Case, CaseStep, CaseTensor};
use crate::device::{GlobalArgs, Notices, session_options, write_adapter};
use crate::golden::{Difference, Tolerance, compare};
use crate::loading::build_session;
use crate::table::{Column, counted, table, text, wrap};

/// Options of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Case folders.
    #[arg(value_name = "CASE_DIR", required = true)]
    cases: Vec<PathBuf>,

    /// Method to run, of a program with several.
    #[arg(long, default_value = "forward")]
    method: String,

    #[command(flatten)]
    attention: AttentionArgs,

    /// The largest absolute error of an element that passes. Default: 1e-5, with --kv f16 2e-3.
    #[arg(long, value_parser = tolerance, allow_hyphen_values = true)]
    atol: Option<f64>,

    /// The largest error, relative to the golden, of an element that passes as well, whatever its absolute error.
    /// Default: 1e-4, with --kv f16 1e-2.
    #[arg(long, value_parser = tolerance, allow_hyphen_values = true)]
    rtol: Option<f64>,
}

fn tolerance(text: &str) -> Result<f64> {
    // NaN is not 0 or more.
    text.parse().ok().filter(|number| *number >= 0.0).context("wanted a number, 0 or more")
}

impl VerifyArgs {
    /// What passes: as was asked for, else what the type of the caches allows.
    fn tolerance(&self) -> Tolerance {
        let [absolute, relative] = match self.attention.plan.kv {
            KvArg::F32 => [1e-5, 1e-4],
            KvArg::F16 => [2e-3, 1e-2],
        };
        Tolerance { absolute: self.atol.unwrap_or(absolute), relative: self.rtol.unwrap_or(relative) }
    }
}

#[derive(Serialize)]
struct StepRow {
    case: String,
    step: usize,
    #[serde(flatten)]
    compared: Compared,
    passed: bool,
}

/// What was compared of a step: outputs and caches.
#[derive(Default, Serialize)]
struct Compared {
    tensors: usize,
    #[serde(flatten)]
    difference: Difference,
    /// Names of the tensors with elements that failed.
    missed: Vec<String>,
}

/// Verifies case folders.
pub(crate) fn verify(global: &GlobalArgs, args: &VerifyArgs, out: &mut impl Write) -> Result<Verdict> {
    let tolerance = args.tolerance();
    let cases: Vec<Case> = args.cases.iter().map(|folder| Case::open(folder)).collect::<Result<_>>()?;
    let gpu = global.open()?;
    let mut notices = Notices::default();
    let mut rows = Vec::new();
    let progress = ProgressBar::new(cases.iter().map(|case| case.steps().len() as u64).sum());
    for (case, folder) in cases.iter().zip(&args.cases) {
        let mut sessions =
            Sessions { global, gpu: &gpu, options: (&args.method, &args.attention), by_model: HashMap::new() };
        for (index, step) in case.steps().iter().enumerate() {
            let model = case.model_path(step);
            let session = sessions.get(&model)?;
            notices.show(session);
            let row = verify_step(case, step, session, tolerance);
            let compared = row.with_context(|| format!("{}: step {index}", folder.display()))?;
            let passed = compared.difference.failed == 0;
            rows.push(StepRow { case: name(folder), step: index, compared, passed });
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    if global.json {
        serde_json::to_writer_pretty(&mut *out, &rows)?;
        writeln!(out)?;
    } else {
        write_rows(&rows, (tolerance, args.attention.plan.kv), gpu.facts(), out)?;
    }
    Ok(if rows.iter().all(|row| row.passed) { Verdict::Passed } else { Verdict::Missed })
}

fn name(folder: &Path) -> String {
    folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The sessions of a case: one a program, kept so that caches inside the graph live from step to step.
struct Sessions<'s> {
    global: &'s GlobalArgs,
    gpu: &'s Gpu,
    options: (&'s str, &'s AttentionArgs),
    by_model: HashMap<PathBuf, Session>,
}

impl Sessions<'_> {
    fn get(&mut self, model: &Path) -> Result<&mut Session> {
        if !self.by_model.contains_key(model) {
            let (method, attention) = self.options;
            let options = session_options(None, attention)?;
            let session = build_session(self.global, model, (self.gpu, method), options)?;
            self.by_model.insert(model.to_owned(), session);
        }
        self.by_model.get_mut(model).context("the session was just made")
    }
}

/// Runs a step, and compares its outputs and the caches after it.
fn verify_step(case: &Case, step: &CaseStep, session: &mut Session, tolerance: Tolerance) -> Result<Compared> {
    let inputs = case.inputs(step)?;
    let inputs: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
    let outputs = session.run(&inputs)?;
    if outputs.len() != step.outputs.len() {
        bail!("the case has {} outputs, and the program gives {}", step.outputs.len(), outputs.len());
    }
    let mut compared = Compared::default();
    let mut hold = |golden: &CaseTensor, got: Option<&torchlight::HostTensor>| -> Result<()> {
        let Some(wanted) = case.read(golden)? else { return Ok(()) };
        let got = got.with_context(|| format!("{}: the program gives no tensor", golden.name))?;
        let difference = compare(got, &wanted, tolerance).with_context(|| golden.name.clone())?;
        compared.tensors += 1;
        compared.difference = compared.difference.and(difference);
        if difference.failed > 0 {
            compared.missed.push(golden.name.clone());
        }
        Ok(())
    };
    for (golden, output) in step.outputs.iter().zip(&outputs) {
        hold(golden, output.tensor())?;
    }
    if let Some(goldens) = &step.state_after {
        let states = session.read_states()?;
        if states.len() != goldens.len() {
            bail!("the case has {} caches, and the program keeps {}", goldens.len(), states.len());
        }
        for (golden, state) in goldens.iter().zip(&states) {
            hold(golden, Some(state))?;
        }
    }
    Ok(compared)
}

fn write_rows(
    rows: &[StepRow],
    (tolerance, kv): (Tolerance, KvArg),
    facts: &DeviceFacts,
    out: &mut impl Write,
) -> Result<()> {
    let mut table = table(&[
        Column::Text("case"),
        Column::Number("step"),
        Column::Number("tensors"),
        Column::Number("max abs error"),
        Column::Number("max rel error"),
        Column::Text(""),
    ]);
    for row in rows {
        let Compared { tensors, difference, .. } = &row.compared;
        table.add_row([
            row.case.clone(),
            row.step.to_string(),
            tensors.to_string(),
            format!("{:.2e}", difference.max_absolute),
            format!("{:.2e}", difference.max_relative),
            if row.passed { "ok".to_owned() } else { "MISSED".to_owned() },
        ]);
    }
    write!(out, "{}", text(&table))?;
    writeln!(out)?;
    let missed = || rows.iter().filter(|row| !row.passed);
    for StepRow { case, step, compared, .. } in missed() {
        let Compared { difference: Difference { failed, elements, .. }, missed, .. } = compared;
        let line = format!("MISSED {case} step {step}: {failed} of {elements} elements, in {}", missed.join(", "));
        writeln!(out, "{}", wrap(&line, 4))?;
    }
    let missed = missed().count();
    let (absolute, relative) = (tolerance.absolute, tolerance.relative);
    let steps = counted(rows.len(), "step", "steps");
    let verdict = match (missed, rows.len()) {
        (0, 1) => "1 step passes".to_owned(),
        (0, _) => format!("all {steps} pass"),
        _ => format!("{missed} of {steps} MISSED"),
    };
    writeln!(out, "{verdict}: an element passes within {absolute:e} absolute or {relative:e} relative")?;
    if kv == KvArg::F16 {
        writeln!(out, "caches are kept in f16, which rounds; the goldens were made in f64")?;
    }
    write_adapter(&facts.into(), out)
}
