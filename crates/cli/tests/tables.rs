//! What is printed for people fits a terminal of 80 columns, and nothing but it goes to a pipe.

mod harness;

use harness::{CaseCopy, SUPPORTED, programs, run, run_on};

/// No line is wider than 80 columns, but where one word alone is, and none ends with a space.
#[track_caller]
fn assert_narrow(what: &str, text: &str) {
    assert!(!text.is_empty() && text.ends_with('\n'), "{what}: {text:?}");
    for line in text.lines() {
        let width = line.chars().count();
        assert!(width <= 80 || line.split_whitespace().count() == 1, "{what}: {width} columns\n{line}");
        assert_eq!(line.trim_end(), line, "{what}");
        assert!(!line.contains(['\r', '\x1b', '\t']), "{what}: {line:?}");
    }
}

#[test]
fn every_command_fits_80_columns() {
    let mut lines = vec!["devices".to_owned(), format!("verify {}", SUPPORTED.join(" "))];
    for program in programs() {
        lines.push(format!("inspect {program} --graph"));
    }
    for case in SUPPORTED {
        lines.push(format!("run {case} --timestamps inside"));
        lines.push(format!("profile {case} --detail --explain"));
        lines.push(format!("profile {case} --overhead"));
        lines.push(format!("verify {case} --kv f16"));
    }
    lines.push("run add/model.pte --input 1=1e38,-1e38,1e30,1e-30,1e7,1e6,1e5,1e4".to_owned());
    lines.push("profile add --timestamps off".to_owned());
    for line in lines {
        assert_narrow(&line, &run(&line).passed());
    }
}

#[test]
fn long_names_are_broken_and_not_lost() {
    let name = "a-case-with-a-name-that-is-longer-than-any-column-would-want-it-to-be-and-then-some";
    let copy = CaseCopy::new("sdpa_single");
    copy.edit_meta(|meta| meta["steps"][0]["outputs"][2]["name"] = format!("output-{name}").into());
    copy.edit_f32("step0_out_out.bin", 0, |value| value + 1.0);
    let path = copy.beside(name);
    std::fs::rename(copy.path(), &path).unwrap();
    for (command, text) in [("verify", run_on("verify", &[&path]).missed()), ("run", run_on("run", &[&path]).passed())]
    {
        let table: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        assert!(table.len() > 2 && table.iter().all(|line| line.chars().count() <= 80), "{command}\n{text}");
        // The name is spread over the lines of its cell: what follows a piece of it is the next piece.
        let full = if command == "run" { format!("output-{name}") } else { name.to_owned() };
        let words = table.iter().skip(1).flat_map(|line| line.split_whitespace());
        let rest = words.fold(full.as_str(), |rest, word| rest.strip_prefix(word).unwrap_or(rest));
        assert_eq!(rest, "", "{command}\n{text}");
    }
}

#[test]
fn help_names_every_command_and_option() {
    let help = run("--help").passed();
    for command in ["inspect", "run", "profile", "verify", "compare", "bench", "devices"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "{command}\n{help}");
        let text = run(&format!("{command} --help")).passed();
        assert!(text.contains(&format!("Usage: torchlight {command}")), "{text}");
        assert!(["--adapter", "--json", "--verbose"].iter().all(|option| text.contains(option)), "{text}");
    }
    assert_eq!(run("--version").passed(), format!("torchlight {}\n", env!("CARGO_PKG_VERSION")));
    run("").misused(&["Usage: torchlight", "inspect", "verify"]);
    run("sing").misused(&["unrecognized subcommand 'sing'"]);
    run("run add --loud").misused(&["--loud"]);
}
