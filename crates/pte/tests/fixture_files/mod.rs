//! The exported programs in `fixtures/`, and reading everything that a file holds.

use std::ops::Range;
use std::path::{Path, PathBuf};

use torchlight_pte::{DelegateGraph, Error, FlatTensor, Program, Value};

/// One file of `fixtures/`.
pub(crate) struct Fixture {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// All programs and `.ptd` files, in a fixed order.
pub(crate) fn all() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut paths: Vec<PathBuf> =
        read_dir(&root).into_iter().filter(|path| path.is_dir()).flat_map(|case| read_dir(&case)).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pte" || extension == "ptd"));
    paths.sort();
    assert!(paths.len() >= 25, "{} files in {}", paths.len(), root.display());
    paths.into_iter().map(|path| Fixture { bytes: std::fs::read(&path).unwrap(), path }).collect()
}

fn read_dir(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Where the blobs of all delegates lie in a program; none for other files.
pub(crate) fn delegate_ranges(bytes: &[u8]) -> Vec<Range<usize>> {
    let Ok(program) = Program::parse(bytes) else { return Vec::new() };
    let delegates = program.methods.iter().flat_map(|method| &method.delegates);
    delegates
        .map(|delegate| {
            let start = delegate.blob.as_ptr().addr() - bytes.as_ptr().addr();
            start..start + delegate.blob.len()
        })
        .collect()
}

/// Parses a file of either kind with all its delegates, but for blobs that are known already, and looks up its constants.
///
/// An error's message must be one line.
pub(crate) fn read_everything(bytes: &[u8], known_blobs: &[&[u8]]) -> Result<(), Error> {
    let result =
        if bytes.get(4..8) == Some(b"FT01") { read_flat_tensor(bytes) } else { read_program(bytes, known_blobs) };
    result.inspect_err(check_message)
}

/// An error must say something, on one line of a readable length.
pub(crate) fn check_message(error: &Error) {
    let message = error.to_string();
    let readable =
        !message.is_empty() && message.len() < 1000 && !message.bytes().any(|byte| byte == b'\n' || byte == b'\r');
    assert!(readable, "{message:?}");
}

fn read_flat_tensor(bytes: &[u8]) -> Result<(), Error> {
    let flat_tensor = FlatTensor::parse(bytes)?;
    for (key, size) in flat_tensor.named_keys() {
        assert_eq!(flat_tensor.named_data(key).map(<[u8]>::len), Some(size));
    }
    Ok(())
}

fn read_program(bytes: &[u8], known_blobs: &[&[u8]]) -> Result<(), Error> {
    let program = Program::parse(bytes)?;
    for (key, size) in program.named_keys() {
        assert_eq!(program.named_data(key).map(<[u8]>::len), Some(size));
    }
    for method in &program.methods {
        for value in &method.values {
            if let Value::Tensor(tensor) = value
                && tensor.data_buffer_idx > 0
            {
                assert!(program.constant(tensor.data_buffer_idx).is_some());
            }
        }
        for delegate in &method.delegates {
            if !known_blobs.contains(&delegate.blob) {
                DelegateGraph::parse(delegate.blob)?;
            }
        }
    }
    Ok(())
}
