//! `torchlight devices`: the adapters, and what of them matters here.

use std::io::Write;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use torchlight::profile::Peaks;
use torchlight::{AdapterChoice, DeviceFacts, Gpu, GpuOptions};

use crate::Verdict;
use crate::calibration;
use crate::device::GlobalArgs;
use crate::table::{bytes, peaks_text, wrap};

/// Options of `devices`.
#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Measure how fast each adapter copies and computes. Profiles show kernels against it from then on.
    #[arg(long)]
    measure: bool,
}

#[derive(Serialize)]
struct Device {
    index: usize,
    /// What the adapter offers.
    #[serde(flatten)]
    facts: DeviceFacts,
    /// What it was measured to do, where it was.
    peaks: Option<Peaks>,
    /// Why it cannot be opened, where it cannot.
    error: Option<String>,
}

/// Lists the adapters.
pub(crate) fn devices(global: &GlobalArgs, args: &DevicesArgs, out: &mut impl Write) -> Result<Verdict> {
    let adapters = Gpu::adapters_blocking();
    if adapters.is_empty() {
        // The message of a failed opening says what to install.
        global.open()?;
        bail!("no GPU adapter");
    }
    let device = |(index, facts)| device(index, facts, args.measure);
    let devices: Vec<Device> = adapters.into_iter().enumerate().map(device).collect();
    if global.json {
        serde_json::to_writer_pretty(&mut *out, &devices)?;
        writeln!(out)?;
        return Ok(Verdict::Passed);
    }
    for device in &devices {
        write_device(device, out)?;
    }
    Ok(Verdict::Passed)
}

/// The clock's period is known only of an open device.
fn device(index: usize, mut facts: DeviceFacts, measure: bool) -> Device {
    let adapter = AdapterChoice::Named(index.to_string());
    let mut peaks = calibration::known(&(&facts).into());
    let opened = Gpu::open_blocking(&GpuOptions { adapter, experimental: true, ..GpuOptions::default() });
    let opened = opened.map_err(anyhow::Error::from).and_then(|gpu| {
        facts.timestamp_period_ns = gpu.facts().timestamp_period_ns.filter(|_| facts.timestamps);
        if measure {
            peaks = Some(calibration::measure(&gpu)?);
        }
        Ok(())
    });
    Device { index, facts, peaks, error: opened.err().map(|error| format!("{error:#}")) }
}

fn write_device(Device { index, facts, peaks, error }: &Device, out: &mut impl Write) -> Result<()> {
    let yes_no = |offered: bool| if offered { "yes" } else { "no" };
    writeln!(out, "{index}: {}", facts.name)?;
    writeln!(out, "{}", wrap(&format!("   back end    {} ({})", facts.backend, facts.driver), 15))?;
    if facts.is_cpu {
        writeln!(out, "   kind        a CPU: its times say nothing about GPUs")?;
    }
    let period = facts.timestamp_period_ns.map_or(String::new(), |period| format!(", {period} ns a tick"));
    let (pass, inside) = (yes_no(facts.timestamps), yes_no(facts.timestamps_inside_passes));
    writeln!(out, "   timestamps  pass: {pass}, inside passes: {inside}{period}")?;
    let subgroups = facts.subgroup_sizes.map_or("no".to_owned(), |[least, most]| format!("{least} to {most}"));
    let (f16, matrix) = (yes_no(facts.shader_f16), yes_no(facts.cooperative_matrix));
    writeln!(out, "   shaders     f16: {f16}, subgroup sizes: {subgroups}, cooperative matrices: {matrix}")?;
    let limits = &facts.limits;
    let (buffer, binding) = (bytes(limits.max_buffer_size), bytes(limits.max_storage_buffer_binding_size));
    writeln!(out, "   memory      buffer: {buffer}, storage binding: {binding}")?;
    let shared = bytes(limits.max_compute_workgroup_storage_size.into());
    let (invocations, grid) =
        (limits.max_compute_invocations_per_workgroup, limits.max_compute_workgroups_per_dimension);
    writeln!(out, "   workgroups  memory: {shared}, invocations: {invocations}, grid: {grid} a dimension")?;
    if let Some(peaks) = peaks {
        writeln!(out, "{}", wrap(&format!("   measured    {}", peaks_text(peaks)), 15))?;
    }
    if let Some(error) = error {
        writeln!(out, "{}", wrap(&format!("   cannot be opened: {error}"), 15))?;
    }
    Ok(())
}
