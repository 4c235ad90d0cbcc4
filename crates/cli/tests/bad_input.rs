//! Files that are no programs, damaged programs, odd paths and odd streams: one line of error or the right answer.

mod harness;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use harness::{CaseCopy, finish, fixtures, run, run_on, torchlight};

/// Writes a file of a temporary folder.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn what_is_no_program_is_an_error_that_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let program = std::fs::read(fixtures().join("add/model.pte")).unwrap();
    let contents: &[(&str, &[u8], &str)] = &[
        ("empty", b"", "is empty"),
        ("one byte", b"x", "truncated"),
        ("text", b"# Not a program at all\n", "not a .pte file"),
        ("zeros", &[0; 4096], "not a .pte file"),
        ("identifier alone", b"\0\0\0\0ET12", "at byte 0"),
        ("cut within the program", &program[..100], "truncated: the header says the program is 1240 bytes"),
        ("cut within the segments", &program[..2000], "truncated: the header says the segments end at 2180 bytes"),
    ];
    for (name, bytes, word) in contents {
        let path = write(folder.path(), name, bytes);
        for command in ["inspect", "run", "profile"] {
            run_on(command, &[&path]).refused(&[name, word]);
        }
    }
    for command in ["inspect", "run", "profile"] {
        run(&format!("{command} nowhere.pte")).refused(&["cannot open nowhere.pte"]);
        run(&format!("{command} .")).refused(&[". is a folder", "meta.json", ".pte"]);
    }
    run("inspect add").refused(&["add is a case folder", ".pte"]);
    #[cfg(target_os = "linux")]
    run("inspect /dev/zero").refused(&["/dev/zero is not a regular file"]);
}

#[test]
fn programs_that_are_cut_anywhere_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (case, stride) in [("add", 149), ("sdpa_incache_decode", 499), ("tiny_llama_q4", 19937)] {
        let program = std::fs::read(fixtures().join(case).join("model.pte")).unwrap();
        for length in (1..program.len()).step_by(stride).chain([program.len() - 1]) {
            let path = write(folder.path(), "cut.pte", &program[..length]);
            run_on("inspect", &[&path]).refused(&["cut.pte", "truncated"]);
        }
    }
}

#[test]
fn programs_with_a_flipped_byte_are_shown_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut ended = [0; 2];
    for (case, stride) in [("add", 101), ("sdpa_incache_decode", 197)] {
        let program = std::fs::read(fixtures().join(case).join("model.pte")).unwrap();
        for (round, index) in (0..program.len()).step_by(stride).enumerate() {
            let mut damaged = program.clone();
            damaged[index] ^= [0xff, 0x80, 0x01][round % 3];
            let path = write(folder.path(), "flipped.pte", &damaged);
            let what = format!("{case}, byte {index}");
            let shown = run_on("inspect --graph", &[&path]).was_graceful(&what);
            ended[usize::from(shown)] += 1;
            if shown && round % 3 == 0 {
                run_on("run", &[&path]).was_graceful(&what);
            }
        }
    }
    assert!(ended.iter().all(|&count| count > 5), "refused and shown: {ended:?}");
}

#[test]
fn paths_may_hold_what_a_file_system_allows() {
    let copy = CaseCopy::new("add");
    let mut names = vec!["with a space".into(), "größe 核".into(), "'quoted' \"twice\"".into(), "%n{}$HOME".into()];
    if cfg!(unix) {
        names.push("new\nline".into());
    }
    #[cfg(target_os = "linux")]
    names.push(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(b"not \xff utf-8".to_vec()));
    for name in names {
        let case = copy.beside("").join(&name);
        std::fs::create_dir(&case).unwrap();
        for entry in copy.path().read_dir().unwrap().map(|entry| entry.unwrap()) {
            std::fs::copy(entry.path(), case.join(entry.file_name())).unwrap();
        }
        let (program, out) = (case.join("model.pte"), case.join("out"));
        run_on("inspect --json", &[&program]).json();
        run_on("verify --json", &[&case]).json();
        run_on("run --out", &[&out, &case]).passed();
        assert!(out.join("step0_out_out.bin").is_file(), "{name:?}");
        // An error stays on one line.
        run_on("inspect", &[&case.join("nowhere")]).refused(&["cannot open"]);
    }
}

#[test]
fn paths_are_relative_to_where_the_command_runs() {
    let copy = CaseCopy::new("mul");
    for (folder, line) in [("mul", "run . --out ../out"), (".", "run mul/../mul --out out")] {
        let mut command = torchlight(line.split(' '));
        command.current_dir(copy.beside(folder));
        finish(command).passed();
        std::fs::remove_file(copy.beside("out").join("step0_out_out.bin")).unwrap();
    }
}

#[test]
fn a_closed_pipe_is_no_failure_and_hides_no_miss() {
    let copy = CaseCopy::new("mul");
    copy.edit_f32("step0_out_out.bin", 0, |value| value + 1.0);
    let missed = format!("verify {}", copy.path().display());
    let lines = [
        ("inspect tiny_llama_fp32/model.pte --graph", 0),
        ("inspect tiny_llama_fp32/model.pte --graph --json", 0),
        ("run sdpa_incache_decode", 0),
        ("profile sdpa_incache_decode --tsv --repeat 20", 0),
        ("devices", 0),
        ("verify add", 0),
        (missed.as_str(), 1),
    ];
    for (line, code) in lines {
        let mut command = torchlight(line.split(' '));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(code), ""), "{line}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error() {
    for line in ["inspect add/model.pte", "inspect tiny_llama_fp32/model.pte --graph", "verify add", "devices --json"] {
        let mut command = torchlight(line.split(' '));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.starts_with("error: cannot write to stdout: "), "{line}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{line}: {stderr}");
    }
}

/// A command under a limit of 50 MiB for all memory but files, without an adapter, whose driver would have its own.
#[cfg(target_os = "linux")]
fn run_in_50_mib(line: &str, path: &Path) -> harness::Finished {
    let script = r#"ulimit -d 51200 && exec "$@""#;
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_torchlight")]).args(line.split(' ')).arg(path);
    command.envs([("VK_DRIVER_FILES", "/nonexistent"), ("VK_ICD_FILENAMES", "/nonexistent")]);
    finish(command)
}

#[test]
#[cfg(target_os = "linux")]
fn a_large_program_is_not_read_into_memory() -> io::Result<()> {
    const SIZE: u64 = 500 << 20;
    let folder = tempfile::tempdir()?;
    // The segments, whose size stands at byte 32 and which begin at the byte that stands at 24, reach to the end.
    let mut program = std::fs::read(fixtures().join("add/model.pte"))?;
    let base = u64::from_le_bytes(*program[24..].first_chunk().unwrap());
    program[32..40].copy_from_slice(&(SIZE - base).to_le_bytes());
    let path = write(folder.path(), "large.pte", &program);
    let file = std::fs::OpenOptions::new().write(true).open(&path)?;
    file.set_len(SIZE)?;
    let text = run_in_50_mib("inspect", &path).passed();
    assert!(text.contains("large.pte: 500.0 MiB, "), "{text}");
    // One byte less, and the header lies.
    file.set_len(SIZE - 1)?;
    run_in_50_mib("inspect", &path).refused(&["truncated: the header says the segments end at 524288000 bytes"]);

    // The limit is one: a file that is read into memory does not pass it.
    write(folder.path(), "meta.json", b"");
    std::fs::OpenOptions::new().write(true).open(folder.path().join("meta.json"))?.set_len(SIZE)?;
    run_in_50_mib("verify", folder.path()).refused(&["cannot read", "meta.json", "memory"]);
    Ok(())
}
