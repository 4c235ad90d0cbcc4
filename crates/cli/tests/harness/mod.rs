//! Runs the built command on the case folders of this repository, and holds what every run must keep.
#![allow(dead_code, reason = "every test binary uses its own part")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The cases whose operators are all supported.
pub(crate) const SUPPORTED: [&str; 11] = [
    "add",
    "mul",
    "sdpa_decode_dynamic",
    "sdpa_gqa_prefill",
    "sdpa_incache_decode",
    "sdpa_incache_replay",
    "sdpa_replay_dynamic",
    "sdpa_replay_static",
    "sdpa_single",
    "update_cache_dynamic",
    "update_cache_static",
];

/// Where the case folders lie.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Every program of the case folders, relative to [`fixtures`].
pub(crate) fn programs() -> Vec<String> {
    let mut programs = Vec::new();
    for folder in std::fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path()) {
        let files = folder.read_dir().into_iter().flatten().map(|entry| entry.unwrap().path());
        let files = files.filter(|file| file.extension() == Some(OsStr::new("pte")));
        programs.extend(files.map(|file| file.strip_prefix(fixtures()).unwrap().to_str().unwrap().to_owned()));
    }
    programs.sort();
    assert!(programs.len() >= 20, "{programs:?}");
    programs
}

/// The command, run in the folder of the cases, with an environment that no setting of the caller's leaks into.
pub(crate) fn torchlight<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_torchlight"));
    command.args(args).current_dir(fixtures()).env_remove("WEBGPU_TIMESTAMP_QUERY");
    command
}

/// Runs a line of arguments that have no spaces in them.
pub(crate) fn run(line: &str) -> Finished {
    finish(torchlight(line.split_whitespace()))
}

/// Runs a line of arguments, then paths.
pub(crate) fn run_on(line: &str, paths: &[&Path]) -> Finished {
    let mut command = torchlight(line.split_whitespace());
    command.args(paths);
    finish(command)
}

/// Runs a command that [`torchlight`] made.
pub(crate) fn finish(mut command: Command) -> Finished {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let line: Vec<String> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    // No code is a death by signal.
    Finished { line: line.join(" "), code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    line: String,
    code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// It succeeded, without a word on stderr. Returns what it printed.
    #[track_caller]
    pub(crate) fn passed(self) -> String {
        self.ended(0)
    }

    /// It ran, and the answer is no: what `verify` says of a wrong result. Returns what it printed.
    #[track_caller]
    pub(crate) fn missed(self) -> String {
        self.ended(1)
    }

    /// It succeeded, and said something on stderr. Returns what it printed, and what it said.
    #[track_caller]
    pub(crate) fn told(self) -> [String; 2] {
        assert_eq!(self.code, Some(0), "torchlight {}\n{}", self.line, self.stderr);
        assert!(!self.stderr.is_empty(), "torchlight {}\n{}", self.line, self.stdout);
        [self.stdout, self.stderr]
    }

    #[track_caller]
    fn ended(self, code: i32) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(code), ""), "torchlight {}\n{}", self.line, self.stdout);
        self.stdout
    }

    /// It passed, and printed JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let line = self.line.clone();
        let text = self.passed();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("torchlight {line}: {error}\n{text}"))
    }

    /// It failed with one line on stderr that holds all of these words, and printed nothing else.
    #[track_caller]
    pub(crate) fn refused(self, words: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(2), ""), "torchlight {}\n{}", self.line, self.stderr);
        self.assert_one_error_line();
        for word in words {
            assert!(self.stderr.contains(word), "torchlight {}: no {word:?} in {}", self.line, self.stderr);
        }
    }

    /// It failed because of how it was called: clap's message of several lines holds all of these words.
    #[track_caller]
    pub(crate) fn misused(self, words: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(2), ""), "torchlight {}\n{}", self.line, self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "torchlight {}: no {word:?} in {}", self.line, self.stderr);
        }
    }

    /// It either worked or failed with one line; it did not panic, and no signal ended it. Returns whether it worked.
    #[track_caller]
    pub(crate) fn was_graceful(self, what: &str) -> bool {
        match self.code {
            Some(0) => assert_eq!(self.stderr, "", "{what}: torchlight {}", self.line),
            Some(2) => self.assert_one_error_line(),
            code => panic!("{what}: torchlight {} ended with {code:?}\n{}", self.line, self.stderr),
        }
        self.code == Some(0)
    }

    #[track_caller]
    fn assert_one_error_line(&self) {
        let lines: Vec<&str> = self.stderr.lines().collect();
        let one = lines.len() == 1 && lines[0].starts_with("error: ") && lines[0].len() > "error: ".len();
        assert!(one, "torchlight {}: wanted one line of error, got {:?}", self.line, self.stderr);
    }
}

/// A copy of a case folder that may be changed.
pub(crate) struct CaseCopy {
    folder: TempDir,
    path: PathBuf,
}

impl CaseCopy {
    /// Copies a case.
    pub(crate) fn new(case: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(case);
        std::fs::create_dir(&path).unwrap();
        for file in fixtures().join(case).read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            std::fs::copy(&file, path.join(file.file_name().unwrap())).unwrap();
        }
        Self { folder, path }
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path beside the case, in a folder that goes away with it.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Changes a file's bytes.
    pub(crate) fn edit(&self, file: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let path = self.path.join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        edit(&mut bytes);
        std::fs::write(path, bytes).unwrap();
    }

    /// Changes meta.json.
    pub(crate) fn edit_meta(&self, edit: impl FnOnce(&mut Value)) {
        self.edit("meta.json", |bytes| {
            let mut meta = serde_json::from_slice(bytes).unwrap();
            edit(&mut meta);
            *bytes = serde_json::to_vec(&meta).unwrap();
        });
    }

    /// A case whose program has `aten.sum.Tensor` where the add fixture has `aten.add.Tensor`: nobody runs that.
    pub(crate) fn with_an_unknown_operator() -> Self {
        let copy = Self::new("add");
        copy.edit("model.pte", |bytes| {
            let known = b"aten.add.Tensor";
            let places: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(known)).collect();
            assert!(!places.is_empty());
            for place in places {
                bytes[place..place + known.len()].copy_from_slice(b"aten.sum.Tensor");
            }
        });
        copy
    }

    /// Changes one f32 of a file.
    pub(crate) fn edit_f32(&self, file: &str, index: usize, edit: impl FnOnce(f32) -> f32) {
        self.edit(file, |bytes| {
            let element = &mut bytes.as_chunks_mut::<4>().0[index];
            *element = edit(f32::from_le_bytes(*element)).to_le_bytes();
        });
    }
}

/// A case's meta.json.
pub(crate) fn meta(case: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixtures().join(case).join("meta.json")).unwrap()).unwrap()
}

/// The elements of a JSON list.
#[track_caller]
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("wanted a list, got {value}"))
}
