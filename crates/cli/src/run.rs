//! `torchlight run`: outputs, step by step.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use torchlight::{DType, HostTensor, Output, Profile, TimestampMode};

use crate::Verdict;
use crate::attention::AttentionArgs;
use crate::device::{GlobalArgs, Notices, TimestampArg, session_options};
use crate::profile_tables::write_kernels;
use crate::synthetic::InputArgs;
use crate::table::{Column, table, text};
use crate::workload::Workload;

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A case folder, or a .pte file.
    #[arg(value_name = "CASE_DIR|FILE")]
    path: PathBuf,

    #[command(flatten)]
    inputs: InputArgs,

    #[command(flatten)]
    attention: AttentionArgs,

    /// Where to take timestamps. Default: as WEBGPU_TIMESTAMP_QUERY says (1, true, on: pass).
    #[arg(long, value_name = "MODE")]
    timestamps: Option<TimestampArg>,

    /// A folder for the outputs, as raw little-endian files.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct OutputRow {
    step: usize,
    name: String,
    #[serde(rename = "type")]
    dtype: String,
    shape: Vec<u32>,
    min: Option<f64>,
    mean: Option<f64>,
    max: Option<f64>,
    non_finite: usize,
    first: Vec<f64>,
}

#[derive(Serialize)]
struct RunReport {
    adapter: String,
    outputs: Vec<OutputRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Profile>,
}

/// Runs a program or a case.
pub(crate) fn run(global: &GlobalArgs, args: &RunArgs, out: &mut impl Write) -> Result<Verdict> {
    let options = session_options(args.timestamps, &args.attention)?;
    let gpu = global.open()?;
    let mut workload = Workload::open(global, (&args.path, &args.inputs), &gpu, options)?;
    workload.show_notices(&mut Notices::default());
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let mut report = RunReport { adapter: gpu.facts().name.clone(), outputs: Vec::new(), profile: None };
    for step in 0..workload.len() {
        let outputs = workload.run(step)?;
        for (index, output) in outputs.iter().enumerate() {
            let name = workload.output_names(step).get(index).cloned().unwrap_or_else(|| format!("output{index}"));
            if let (Some(folder), Some(tensor)) = (&args.out, output.tensor()) {
                save(&folder.join(format!("step{step}_out_{name}.bin")), tensor)?;
            }
            report.outputs.push(row(step, name, output));
        }
    }
    let profile = workload.take_profile()?;
    report.profile = (profile.mode != TimestampMode::Off).then_some(profile);
    if global.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(Verdict::Passed);
    }
    write_outputs(&report.outputs, out)?;
    if let Some(profile) = &report.profile {
        writeln!(out)?;
        write_kernels(profile, out)?;
    }
    Ok(Verdict::Passed)
}

/// Writes beside, then renames: a file of this name is always whole.
fn save(path: &Path, tensor: &HostTensor) -> Result<()> {
    let beside = path.with_extension("bin.partial");
    std::fs::write(&beside, tensor.bytes()).with_context(|| format!("cannot write {}", beside.display()))?;
    std::fs::rename(&beside, path).with_context(|| format!("cannot write {}", path.display()))
}

fn row(step: usize, name: String, output: &Output) -> OutputRow {
    let (dtype, shape, values) = match output {
        Output::Tensor(tensor) => (tensor.dtype().to_string(), tensor.dims().as_slice().to_vec(), values(tensor)),
        Output::Int(value) => ("int".into(), vec![], vec![*value as f64]),
        Output::Bool(value) => ("bool".into(), vec![], vec![f64::from(u8::from(*value))]),
        Output::Double(value) => ("double".into(), vec![], vec![*value]),
        Output::Resident { input } => (format!("input {input}, on the device"), vec![], vec![]),
    };
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let count = finite().count();
    OutputRow {
        step,
        name,
        dtype,
        shape,
        min: finite().reduce(f64::min),
        mean: (count > 0).then(|| finite().sum::<f64>() / count as f64),
        max: finite().reduce(f64::max),
        non_finite: values.len() - count,
        first: values.iter().copied().take(4).collect(),
    }
}

fn values(tensor: &HostTensor) -> Vec<f64> {
    let bytes = tensor.bytes();
    match tensor.dtype() {
        DType::F32 => bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes).into()).collect(),
        DType::I32 => bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes).into()).collect(),
        DType::I64 => bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes) as f64).collect(),
        DType::U8 | DType::Bool => bytes.iter().map(|&byte| byte.into()).collect(),
        DType::I8 => bytes.iter().map(|&byte| (byte as i8).into()).collect(),
        DType::F16 => vec![],
    }
}

/// A number in few columns, however large or small it is.
fn short(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) { format!("{value:.4e}") } else { format!("{value:.5}") }
}

fn write_outputs(rows: &[OutputRow], out: &mut impl Write) -> Result<()> {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
    let mut table = table(&[
        Column::Number("step"),
        Column::Text("output"),
        Column::Text("type"),
        Column::Number("min"),
        Column::Number("mean"),
        Column::Number("max"),
        Column::Number("not finite"),
    ]);
    for row in rows {
        let shape: Vec<String> = row.shape.iter().map(u32::to_string).collect();
        let shape = if row.shape.is_empty() { String::new() } else { format!("[{}]", shape.join(", ")) };
        table.add_row([
            row.step.to_string(),
            row.name.clone(),
            format!("{}{shape}", row.dtype),
            number(row.min),
            number(row.mean),
            number(row.max),
            row.non_finite.to_string(),
        ]);
    }
    write!(out, "{}", text(&table))?;
    Ok(())
}
