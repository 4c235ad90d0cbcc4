//! Choosing an adapter, and what is said where there is none.

mod harness;

use harness::{list, programs, run};

#[test]
fn adapters_are_chosen_by_number_or_name() {
    let devices = run("devices --json").json();
    let devices = list(&devices);
    let names: Vec<&str> = devices.iter().map(|device| device["name"].as_str().unwrap()).collect();
    for (index, device) in devices.iter().enumerate() {
        assert_eq!(device["index"], index, "{device}");
    }
    let text = run("devices").passed();
    for (index, name) in names.iter().enumerate() {
        assert!(text.contains(&format!("{index}: {name}\n")), "{text}");
    }
    // The first word of the first name, in another case.
    let word = names[0].split(' ').next().unwrap().to_uppercase();
    for choice in ["0", &word] {
        run(&format!("verify add --adapter {choice}")).passed();
        run(&format!("inspect add/model.pte --adapter {choice}")).passed();
    }
    let first = format!("0: {}", names[0]);
    for line in ["verify add", "run add", "profile add", "inspect add/model.pte"] {
        for unknown in ["no-such-adapter", "4096", "-1"] {
            let line = format!("{line} --adapter={unknown}");
            run(&line).refused(&[&format!("no adapter matches {unknown:?}"), "there are: ", &first]);
        }
    }
}

#[test]
fn verbose_speaks_on_stderr_alone() {
    let quiet = run("run add");
    let verbose = run("run add --verbose");
    assert_eq!(verbose.stdout, quiet.stdout);
    assert!(verbose.stderr.starts_with("adapter: ") && verbose.stderr.contains("binary_add"), "{}", verbose.stderr);
    // Where the time of loading went, a line each.
    let begins = [
        "adapter: ",
        "read the program, 2.1 KiB, in ",
        "planned in ",
        "compiled 1 kernel in ",
        "made buffers in ",
        "uploaded 4 B in ",
    ];
    for (line, begin) in verbose.stderr.lines().zip(begins) {
        assert!(line.starts_with(begin) && line.ends_with(" ms"), "{line:?} does not begin with {begin:?}");
    }
}

/// The Vulkan loader finds no driver.
#[cfg(target_os = "linux")]
fn without_adapter(line: &str) -> harness::Finished {
    let mut command = harness::torchlight(line.split(' '));
    command.envs([("VK_DRIVER_FILES", "/nonexistent"), ("VK_ICD_FILENAMES", "/nonexistent")]);
    harness::finish(command)
}

#[cfg(target_os = "linux")]
const ADVICE: [&str; 3] = ["no GPU adapter", "install a Vulkan driver", "apt-get install mesa-vulkan-drivers"];

#[test]
#[cfg(target_os = "linux")]
fn without_an_adapter_the_error_says_what_to_install() {
    for line in
        ["run add", "run add/model.pte", "verify add", "profile add", "devices", "devices --json", "verify add --json"]
    {
        without_adapter(line).refused(&ADVICE);
        without_adapter(&format!("{line} --adapter 0")).refused(&ADVICE);
    }
    without_adapter("inspect add/model.pte --adapter 0").refused(&ADVICE);
}

#[test]
#[cfg(target_os = "linux")]
fn without_an_adapter_inspect_shows_all_but_the_plan() {
    for program in programs() {
        let with = run(&format!("inspect {program}")).passed();
        let without = without_adapter(&format!("inspect {program}")).passed();
        let (shown, reason) = without.split_once("\nno plan is shown: ").unwrap_or_else(|| panic!("{without}"));
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(ADVICE.iter().all(|word| reason.contains(word)), "{without}");
        // The plan is the indented block that begins with its heading.
        let mut in_plan = false;
        let but_plan: Vec<&str> = with
            .lines()
            .filter(|line| {
                in_plan = line.starts_with("  plan for ") || (in_plan && line.starts_with("    "));
                !in_plan
            })
            .collect();
        assert_eq!(shown.lines().collect::<Vec<_>>(), but_plan, "{program}");

        let mut report = run(&format!("inspect {program} --json")).json();
        let without = without_adapter(&format!("inspect {program} --json")).json();
        assert!(ADVICE.iter().all(|word| without["no_device"].as_str().unwrap().contains(word)), "{without}");
        report["no_device"] = without["no_device"].clone();
        for method in report["methods"].as_array_mut().unwrap() {
            method["plan"] = serde_json::Value::Null;
        }
        assert_eq!(report, without, "{program}");
    }
}
