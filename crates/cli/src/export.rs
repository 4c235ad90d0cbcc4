//! Profiles as files: the format by name or by ending, written whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use torchlight::Profile;
use torchlight::profile::export;

use crate::profile_tables::{write_kernels, write_statistics, write_steps, write_times};

/// A format of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people.
    Txt,
    /// A line for each dispatch, its fields separated by tabs.
    Tsv,
    /// A line for each dispatch, its fields separated by commas.
    Csv,
    /// All of it, for `torchlight compare` and for programs.
    Json,
    /// A Chrome trace, for Perfetto.
    Trace,
    /// An ETDump, for ExecuTorch's Inspector.
    Etdp,
    /// A report that opens in a browser.
    Html,
}

impl Format {
    /// The format that a file's ending asks for.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        if path.is_dir() {
            bail!("cannot write {}: it is a folder", path.display());
        }
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let endings = [
            (".trace.json", Self::Trace),
            (".txt", Self::Txt),
            (".tsv", Self::Tsv),
            (".csv", Self::Csv),
            (".json", Self::Json),
            (".etdp", Self::Etdp),
            (".html", Self::Html),
        ];
        match endings.iter().find(|(ending, _)| name.ends_with(ending)) {
            Some((_, format)) => Ok(*format),
            None => {
                let known = endings.map(|(ending, _)| ending).join(", ");
                bail!("{}: the ending names no format; there are {known}; or give --format", path.display())
            }
        }
    }
}

/// Writes a profile in a format.
pub(crate) fn write_profile(profile: &Profile, format: Format, title: &str, out: &mut impl Write) -> Result<()> {
    match format {
        Format::Txt => {
            write_steps(profile, out)?;
            writeln!(out)?;
            write_kernels(profile, out)?;
            write_times(profile, out)?;
            writeln!(out)?;
            write_statistics(profile, out)?;
        }
        Format::Tsv => export::write_tsv(profile, out)?,
        Format::Csv => export::write_csv(profile, out)?,
        Format::Json => export::write_json(profile, out)?,
        Format::Trace => export::write_trace(profile, out)?,
        Format::Etdp => export::write_etdump(profile, out)?,
        Format::Html => export::report::write_report(profile, title, out)?,
    }
    Ok(())
}

/// Refuses a place where no file can be written, before it takes long to find what to write.
pub(crate) fn check_place(path: &Path) -> Result<()> {
    if path.is_dir() {
        bail!("cannot write {}: it is a folder", path.display());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => bail!("cannot write {}: there is no folder {}", path.display(), folder.display()),
        None => Ok(()),
    }
}

/// Writes a file beside its place, then moves it there: a file of that name is always whole.
pub(crate) fn write_whole(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    if path.is_dir() {
        bail!("cannot write {}: it is a folder", path.display());
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let beside = Path::new(&beside);
    let written = (|| {
        let mut file = BufWriter::new(File::create(beside)?);
        write(&mut file)?;
        file.flush()?;
        std::fs::rename(beside, path)?;
        Ok(())
    })();
    written.or_else(|error: anyhow::Error| {
        // What is there is not whole; that it cannot be removed either changes nothing.
        let _ = std::fs::remove_file(beside);
        Err(error).with_context(|| format!("cannot write {}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_name_formats() {
        let format = |name: &str| Format::of(Path::new(name));
        assert_eq!(format("a/b.trace.json").unwrap(), Format::Trace);
        assert_eq!(format("B.JSON").unwrap(), Format::Json);
        assert_eq!(format("x.etdp").unwrap(), Format::Etdp);
        let error = format("x.xml").unwrap_err().to_string();
        assert!(error.starts_with("x.xml: the ending names no format; there are .trace.json, .txt"), "{error}");
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        std::fs::write(&path, "old").unwrap();
        let error = write_whole(&path, |file| {
            file.write_all(b"half")?;
            bail!("the disk is full")
        });
        assert!(format!("{:#}", error.unwrap_err()).ends_with("profile.json: the disk is full"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        write_whole(&path, |file| Ok(file.write_all(b"new")?)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        let error = write_whole(folder.path(), |_| Ok(())).unwrap_err().to_string();
        assert!(error.ends_with("it is a folder"), "{error}");
    }
}
