//! Options that every command takes, and the device that they choose.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use torchlight::profile::Adapter;
use torchlight::{AdapterChoice, Gpu, GpuOptions, Session, SessionOptions, TimestampMode};

use crate::attention::AttentionArgs;
use crate::loading::Stopwatch;
use crate::pipeline_cache;
use crate::table::wrap;

/// Options that every command takes.
#[derive(Debug, Args)]
pub(crate) struct GlobalArgs {
    /// Which adapter to use: a number of `torchlight devices`, or a part of a name. Default: number 0.
    #[arg(long, global = true, value_name = "NAME|INDEX")]
    pub(crate) adapter: Option<String>,

    /// Print JSON in place of tables.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// A .ptd file with constants of the program; several may be given. Where none is, those beside the program are used.
    #[arg(long, global = true, value_name = "FILE.ptd")]
    pub(crate) data: Vec<PathBuf>,

    /// A file in which the driver's compiled kernels are kept, so that the next start need not compile them. It is made where
    /// there is none. Keep it where only you write.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) pipeline_cache: Option<PathBuf>,

    /// Say on stderr what is being done.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// Where to take timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimestampArg {
    /// Nowhere.
    Off,
    /// Every dispatch gets a compute pass of its own, stamped at begin and end: any device with timestamps can.
    Pass,
    /// All dispatches share a compute pass, stamped before and after each: fewer devices can.
    Inside,
    /// Only a run as a whole, at begin and end: what a step takes undisturbed.
    Run,
}

impl From<TimestampArg> for TimestampMode {
    fn from(arg: TimestampArg) -> Self {
        match arg {
            TimestampArg::Off => Self::Off,
            TimestampArg::Pass => Self::Pass,
            TimestampArg::Inside => Self::Inside,
            TimestampArg::Run => Self::Run,
        }
    }
}

impl GlobalArgs {
    /// Opens the chosen adapter.
    pub(crate) fn open(&self) -> Result<Gpu> {
        let adapter = self.adapter.clone().map_or(AdapterChoice::Best, AdapterChoice::Named);
        let mut watch = Stopwatch::start();
        let pipeline_cache = self.pipeline_cache.as_deref().map(pipeline_cache::read).transpose()?;
        let options = GpuOptions { adapter, experimental: true, pipeline_cache, ..GpuOptions::default() };
        let gpu = Gpu::open_blocking(&options)?;
        if let Some(path) = &self.pipeline_cache {
            pipeline_cache::warn(path, &gpu);
        }
        let (facts, opened) = (gpu.facts(), watch.lap());
        self.say(|| format!("adapter: {} ({}, {}), opened in {opened}", facts.name, facts.backend, facts.driver));
        Ok(gpu)
    }

    /// Keeps what the driver has compiled by now, where that is wanted. To be called when all is compiled.
    pub(crate) fn keep_pipelines(&self, gpu: &Gpu) -> Result<()> {
        self.pipeline_cache.as_deref().map_or(Ok(()), |path| pipeline_cache::write(path, gpu))
    }

    /// Says something on stderr where `--verbose` was given.
    pub(crate) fn say(&self, message: impl FnOnce() -> String) {
        if self.verbose {
            let _ = writeln!(io::stderr(), "{}", message());
        }
    }
}

/// Session options: the command line's wish, else the environment's, and how attention is served.
pub(crate) fn session_options(wanted: Option<TimestampArg>, attention: &AttentionArgs) -> Result<SessionOptions> {
    let options = match wanted {
        // The variable is not even read where the command line decides: its value cannot be an error then.
        Some(mode) => SessionOptions { timestamps: mode.into(), ..SessionOptions::default() },
        None => SessionOptions::from_env()?,
    };
    // About 1 GB of samples at most; what is beyond that stays in the statistics.
    Ok(attention.apply(SessionOptions { profile_samples: 4 << 20, ..options }))
}

/// Says on which adapter something ran.
pub(crate) fn write_adapter(adapter: &Adapter, out: &mut impl Write) -> Result<()> {
    writeln!(out, "{}", wrap(&format!("adapter {} ({})", adapter.name, adapter.backend), 8))?;
    if adapter.is_cpu {
        writeln!(out, "this adapter is a CPU: its times say nothing about GPUs")?;
    }
    Ok(())
}

/// Prints a session's notice on stderr, once a command.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    said: bool,
}

impl Notices {
    /// Prints the notice of a session, unless one was printed before.
    pub(crate) fn show(&mut self, session: &Session) {
        if let Some(notice) = session.notice()
            && !std::mem::replace(&mut self.said, true)
        {
            let _ = writeln!(io::stderr(), "warning: {notice}");
        }
    }
}
