//! From a program's file to a session: how far it has come is shown where it takes long, and with `--verbose` what took the time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use torchlight::{Gpu, Graph, Loading, Session, SessionOptions};

use crate::device::GlobalArgs;
use crate::program_file::{DataFiles, ProgramFile};
use crate::table::{bytes, counted};

/// What is loaded sooner shows no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// Reads a program and builds a session of one of its methods.
pub(crate) fn build_session(
    global: &GlobalArgs,
    path: &Path,
    (gpu, method): (&Gpu, &str),
    options: SessionOptions,
) -> Result<Session> {
    let name = || path.display().to_string();
    let mut watch = Stopwatch::start();
    let file = ProgramFile::open(path)?;
    let program = file.program()?;
    let data = DataFiles::open(&global.data, path)?;
    let graph = Graph::from_method_with_data(&program, method, &data.parse()?).with_context(name)?;
    let read = watch.lap();
    global.say(|| format!("read the program, {}, in {read}", bytes(file.len() as u64)));
    let mut shown = Shown { global, watch, bar: Bar::new(PATIENCE), all_bytes: 0 };
    let session = Session::new_with_progress(gpu, &graph, options, |reached| shown.show(reached));
    let session = session.with_context(name)?;
    let (uploaded, all_bytes) = (shown.watch.lap(), shown.all_bytes);
    global.say(|| format!("uploaded {} in {uploaded}", bytes(all_bytes)));
    global.keep_pipelines(gpu)?;
    global.say(|| format!("{}: {method}\n{}", path.display(), session.plan()).trim_end().to_owned());
    Ok(session)
}

/// Shows what was reached.
struct Shown<'g> {
    global: &'g GlobalArgs,
    watch: Stopwatch,
    bar: Bar,
    all_bytes: u64,
}

impl Shown<'_> {
    fn show(&mut self, reached: Loading) {
        match reached {
            Loading::Planned => self.say("planned"),
            Loading::Compiled { pipelines, all } => {
                self.bar.show(Part::Kernels, (pipelines as u64, all as u64));
                if pipelines == all {
                    self.say(&format!("compiled {}", counted(all, "kernel", "kernels")));
                }
            }
            Loading::Uploaded { bytes, all_bytes } => {
                if bytes == 0 {
                    self.say("made buffers");
                }
                self.all_bytes = all_bytes;
                self.bar.show(Part::Weights, (bytes, all_bytes));
            }
            _ => {}
        }
    }

    fn say(&mut self, what: &str) {
        let took = self.watch.lap();
        self.global.say(|| format!("{what} in {took}"));
    }
}

/// What a bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Kernels,
    Weights,
}

impl Part {
    fn style(self) -> ProgressStyle {
        let template = match self {
            Self::Kernels => "compiling kernels [{bar:30}] {pos}/{len}",
            Self::Weights => "loading weights [{bar:30}] {bytes}/{total_bytes}",
        };
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
    }
}

/// A bar on stderr, where that is a terminal, once patience is over. It is gone when this is.
struct Bar {
    begun: Instant,
    patience: Duration,
    shown: Option<(Part, ProgressBar)>,
}

impl Bar {
    fn new(patience: Duration) -> Self {
        Self { begun: Instant::now(), patience, shown: None }
    }

    fn show(&mut self, part: Part, (done, all): (u64, u64)) {
        if self.begun.elapsed() < self.patience {
            return;
        }
        if self.shown.as_ref().is_none_or(|(shown, _)| *shown != part) {
            self.clear();
            self.shown = Some((part, ProgressBar::new(all).with_style(part.style())));
        }
        if let Some((_, bar)) = &self.shown {
            bar.set_position(done);
        }
    }

    fn clear(&mut self) {
        if let Some((_, bar)) = self.shown.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Tells how long one thing after another takes.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the last lap, in words.
    pub(crate) fn lap(&mut self) -> String {
        let begun = std::mem::replace(&mut self.0, Instant::now());
        format!("{:.1} ms", (self.0 - begun).as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_appears_when_patience_is_over_and_counts_part_after_part() {
        let mut bar = Bar::new(Duration::from_secs(3600));
        bar.show(Part::Kernels, (1, 15));
        assert!(bar.shown.is_none());
        bar.patience = Duration::ZERO;
        bar.show(Part::Kernels, (3, 15));
        let counts = |bar: &Bar| bar.shown.as_ref().map(|(part, bar)| (*part, bar.position(), bar.length()));
        assert_eq!(counts(&bar), Some((Part::Kernels, 3, Some(15))));
        bar.show(Part::Weights, (4 << 20, 84 << 20));
        assert_eq!(counts(&bar), Some((Part::Weights, 4 << 20, Some(84 << 20))));
    }
}
