//! Program files, mapped and not copied.

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use memmap2::Mmap;
use torchlight::{FlatTensor, Program};

/// A mapped file.
#[derive(Debug)]
pub(crate) struct ProgramFile {
    path: PathBuf,
    bytes: Mmap,
}

impl ProgramFile {
    /// Maps a file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let metadata = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
        if metadata.is_dir() {
            bail!("{} is a folder, and no case folder (it has no meta.json): give a .pte file", path.display());
        }
        if !metadata.is_file() {
            bail!("{} is not a regular file: it cannot be mapped", path.display());
        }
        // An empty file cannot be mapped; the parser would call it truncated.
        if metadata.len() == 0 {
            bail!("{} is empty", path.display());
        }
        #[allow(unsafe_code, reason = "memory-mapping a file is unsafe by nature")]
        // SAFETY: the mapping is read-only and private. Should another process write to the file meanwhile, the bytes
        // may change under the parser, which checks every access and holds no invariant across two reads; should it
        // shorten the file, the system ends this process, and no memory is touched wrongly.
        let bytes = unsafe { Mmap::map(&file) }.with_context(|| format!("cannot map {}", path.display()))?;
        Ok(Self { path: path.to_owned(), bytes })
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Parses it.
    pub(crate) fn program(&self) -> Result<Program<'_>> {
        Program::parse(self).with_context(|| self.path.display().to_string())
    }
}

/// The `.ptd` files of a program: those that were named, or else those in its folder.
pub(crate) struct DataFiles(Vec<ProgramFile>);

impl DataFiles {
    /// Maps them.
    pub(crate) fn open(named: &[PathBuf], program: &Path) -> Result<Self> {
        if let Some(folder) = named.iter().find(|path| path.is_dir()) {
            bail!("{} is a folder: --data takes a .ptd file", folder.display());
        }
        let paths = if named.is_empty() { beside(program) } else { named.to_vec() };
        paths.iter().map(|path| ProgramFile::open(path)).collect::<Result<_>>().map(Self)
    }

    /// Parses them.
    pub(crate) fn parse(&self) -> Result<Vec<FlatTensor<'_>>> {
        let files = self.0.iter();
        files.map(|file| FlatTensor::parse(file).with_context(|| file.path.display().to_string())).collect()
    }
}

/// The `.ptd` files in a program's folder, sorted by name. A folder that cannot be listed has none.
fn beside(program: &Path) -> Vec<PathBuf> {
    let folder = match program.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "ptd") && path.is_file()).collect();
    found.sort();
    found
}

impl Deref for ProgramFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
