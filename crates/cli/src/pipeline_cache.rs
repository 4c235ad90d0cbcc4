//! The file of `--pipeline-cache`: what the driver compiled, from one start to the next.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result};
use torchlight::Gpu;

use crate::export::{check_place, write_whole};

/// What the file holds, to begin with: nothing where there is none yet.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    check_place(path)?;
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read.with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Writes what the driver has compiled by now, where that is not what the file holds.
pub(crate) fn write(path: &Path, gpu: &Gpu) -> Result<()> {
    let Some(bytes) = gpu.pipeline_cache() else { return Ok(()) };
    if std::fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    write_whole(path, |file| Ok(file.write_all(&bytes)?))
}

/// Says why what the file holds is not used. It is written anew then.
pub(crate) fn warn(path: &Path, gpu: &Gpu) {
    if let Some(notice) = gpu.notice() {
        let _ = writeln!(io::stderr(), "warning: {}: {notice}", path.display());
    }
}
