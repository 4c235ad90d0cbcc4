//! The rules of the source tree, held by reading it: what may import what, and what must not be said where.

mod source_text;

use std::path::{Path, PathBuf};

use source_text::Text;

/// The modules of the library, lowest first, and what each may import from the crate.
const MODULES: [(&str, &[&str]); 9] = [
    ("error", &["tensor"]),
    ("tensor", &["error"]),
    ("graph", &["error", "tensor"]),
    ("kernels", &["tensor"]),
    ("reference", &["kernels", "tensor"]),
    ("plan", &["error", "tensor", "graph", "kernels"]),
    // Of the plan a profile knows the routes, and who the device is.
    ("profile", &["error", "plan::Route", "plan::DeviceFacts"]),
    ("gpu", &["error", "kernels", "plan", "profile"]),
    ("session", &["error", "tensor", "graph", "kernels", "reference", "plan", "profile", "gpu"]),
];

/// Modules of plain data and pure functions.
const PURE: [&str; 7] = ["error", "tensor", "graph", "kernels", "reference", "plan", "profile"];

/// What pure modules do without, and everybody but the one function that reads the environment.
const IMPURE: [&str; 7] = ["std::env", "std::fs", "std::time", "std::thread", "std::net", "web_time", "Instant"];
const ENVIRONMENT: &str = "std::env";
const READS_THE_ENVIRONMENT: &str = "session/options.rs";

/// Operator names of files, and the files that may hold them.
const OPERATOR_NAMES: [&str; 4] = ["aten.", "aten::", "et_vk.", ".default"];
const LOWERING: &str = "graph/lower.rs";
const METHOD: (&str, &str) = ("graph/method.rs", "aten::copy_");

/// Lines of a file that still can be read at once.
const MOST_LINES: usize = 500;

/// What breaks a rule in a file of the library, `file` counted from its src folder.
fn violations(file: &str, source: &str) -> Vec<String> {
    let module = file.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    let text = Text::parse(source);
    let paths = text.paths();
    let mut found = Vec::new();
    for path in &paths {
        if module != "gpu" && is_or_in(path, "wgpu") {
            found.push(format!("{file} says {path}"));
        }
        let is_impure = IMPURE.iter().any(|impure| is_or_in(path, impure));
        if PURE.contains(&module) && is_impure {
            found.push(format!("{file} is pure and says {path}"));
        }
        if is_or_in(path, ENVIRONMENT) && file != READS_THE_ENVIRONMENT {
            found.push(format!("{file} reads the environment: {path}"));
        }
        found.extend(import_violation(file, module, path));
    }
    found.extend(super_violations(file, source));
    for string in &text.strings {
        let is_name = OPERATOR_NAMES.iter().any(|part| string.contains(part));
        let may = file == LOWERING || (file == METHOD.0 && string.contains(METHOD.1));
        if is_name && !may {
            found.push(format!("{file} holds the operator name {string:?}"));
        }
    }
    found
}

fn import_violation(file: &str, module: &str, path: &str) -> Option<String> {
    // The root only declares and re-exports.
    if file == "lib.rs" {
        return None;
    }
    let Some((_, allowed)) = MODULES.iter().find(|(name, _)| *name == module) else {
        return Some(format!("{file} belongs to module {module}, which has no place among the modules"));
    };
    if is_or_in(path, "torchlight_pte") && !["error", "graph"].contains(&module) {
        return Some(format!("{file} imports {path}"));
    }
    let inner = path.strip_prefix("crate::")?;
    let may = is_or_in(inner, module) || allowed.iter().any(|name| is_or_in(inner, name));
    (!may).then(|| format!("{file} imports {path}"))
}

/// What reaches other modules of the crate by `super`, past the table: outside of unit tests, which lie a level deeper.
fn super_violations(file: &str, source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let is_root = !file.contains('/') || file.ends_with("/mod.rs");
    let root = if is_root { "super" } else { "super::super" };
    let paths = Text::parse(code).paths();
    let above = paths.into_iter().filter(|path| is_or_in(path, root));
    above.map(|path| format!("{file} imports {path}: say crate::")).collect()
}

/// Whether a path is another one, or leads through it.
fn is_or_in(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Whether nobody reads a file, for it is made from a schema.
fn is_generated(file: &str) -> bool {
    file.contains("/generated/")
}

/// The files below a folder of the workspace, with the path from that folder.
fn files(folder: &str) -> Vec<(String, String)> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() { collect(&path, found) } else { found.push(path) }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut found = Vec::new();
    collect(&root, &mut found);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs" || extension == "wgsl"));
    found.sort();
    assert!(!found.is_empty(), "no source files in {}", root.display());
    let name = |path: &Path| path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
    found.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn the_library_keeps_its_layers() {
    let files = files("crates/torchlight/src");
    let rust = files.iter().filter(|(file, _)| file.ends_with(".rs"));
    let found: Vec<String> = rust.flat_map(|(file, text)| violations(file, text)).collect();
    assert!(found.is_empty(), "{found:#?}");
    for (module, _) in MODULES {
        let exists =
            files.iter().any(|(file, _)| file == &format!("{module}.rs") || file == &format!("{module}/mod.rs"));
        assert!(exists, "there is no module {module}: the table is out of date");
    }
}

#[test]
fn other_crates_know_no_wgpu() {
    for folder in ["crates/pte/src", "crates/cli/src"] {
        for (file, text) in files(folder) {
            let found: Vec<String> = Text::parse(&text).paths().into_iter().filter(|p| is_or_in(p, "wgpu")).collect();
            assert!(found.is_empty(), "{folder}/{file}: {found:?}");
        }
    }
}

#[test]
fn files_can_be_read_at_once() {
    for folder in ["crates/pte", "crates/torchlight", "crates/cli"] {
        for (file, text) in files(folder) {
            let lines = text.lines().count();
            assert!(
                lines < MOST_LINES || is_generated(&file),
                "{folder}/{file} has {lines} lines, wanted under {MOST_LINES}"
            );
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for folder in ["crates/pte", "crates/torchlight", "crates/cli"] {
        for (file, text) in files(folder) {
            let opening = if file.ends_with(".rs") { "//! " } else { "// " };
            assert!(
                text.starts_with(opening) || is_generated(&file),
                "{folder}/{file} does not begin with {opening:?}"
            );
        }
    }
}

#[test]
fn planted_violations_are_found() {
    const CASES: [(&str, &str, &str); 20] = [
        ("plan/mod.rs", "use super::gpu::Gpu;", "plan/mod.rs imports super::gpu::Gpu: say crate::"),
        ("plan/limits.rs", "use super::super::gpu;", "plan/limits.rs imports super::super::gpu: say crate::"),
        ("plan/mod.rs", "fn f(device: &wgpu::Device) {}", "plan/mod.rs says wgpu::Device"),
        ("session/mod.rs", "use wgpu;", "session/mod.rs says wgpu"),
        ("plan/memory.rs", "use std::fs::File;", "plan/memory.rs is pure and says std::fs::File"),
        (
            "kernels/grid.rs",
            "use std::{fmt, time::{self, Duration}};",
            "kernels/grid.rs is pure and says std::time::self",
        ),
        (
            "profile/sample.rs",
            "let now = web_time::Instant::now();",
            "profile/sample.rs is pure and says web_time::Instant::now",
        ),
        ("profile/sample.rs", "let now = Instant::now();", "profile/sample.rs is pure and says Instant::now"),
        ("reference/mod.rs", "std::thread::spawn(f);", "reference/mod.rs is pure and says std::thread::spawn"),
        ("graph/mod.rs", "std::env::var(\"X\")", "graph/mod.rs is pure and says std::env::var"),
        ("session/mod.rs", "std::env::var(\"X\")", "session/mod.rs reads the environment: std::env::var"),
        ("gpu/adapter.rs", "use std::env;", "gpu/adapter.rs reads the environment: std::env"),
        ("graph/mod.rs", "use crate::plan::Plan;", "graph/mod.rs imports crate::plan::Plan"),
        (
            "kernels/mod.rs",
            "use crate::{tensor::Dims, graph::{Graph, Live}};",
            "kernels/mod.rs imports crate::graph::Graph",
        ),
        ("profile/summary.rs", "use crate::plan::Plan;", "profile/summary.rs imports crate::plan::Plan"),
        ("gpu/engine.rs", "fn f(x: crate::session::Session) {}", "gpu/engine.rs imports crate::session::Session"),
        ("error.rs", "use crate::Graph;", "error.rs imports crate::Graph"),
        ("plan/mod.rs", "use torchlight_pte::Program;", "plan/mod.rs imports torchlight_pte::Program"),
        ("helpers.rs", "use std::fmt;", "helpers.rs belongs to module helpers, which has no place among the modules"),
        ("plan/route.rs", "name == \"aten.add.Tensor\"", "plan/route.rs holds the operator name \"aten.add.Tensor\""),
    ];
    for (file, text, wanted) in CASES {
        let found = violations(file, text);
        assert!(found.iter().any(|found| found == wanted), "{file}: {text}\nfound {found:?}\nwanted {wanted:?}");
    }
}

#[test]
fn what_is_allowed_passes() {
    const CASES: [(&str, &str); 11] = [
        ("plan/limits.rs", "use super::Plan;"),
        ("plan/mod.rs", "#[cfg(test)] mod tests { use super::Plan; }"),
        ("gpu/engine.rs", "use wgpu::Device; use std::time::Duration; use crate::plan::Plan;"),
        ("session/options.rs", "let value = std::env::var_os(\"X\");"),
        ("plan/mod.rs", "// wgpu::Device, std::fs and \"aten.add.Tensor\" in words\nuse crate::kernels::Grid;"),
        ("plan/mod.rs", "/* std::fs */ let text = \"wgpu::Device std::fs\";"),
        ("plan/mod.rs", "let text = r#\"a \" quote, std::fs and wgpu::Device\"#; let c = '\"'; let d: &'static str;"),
        ("graph/lower.rs", "(\"aten.add.Tensor\", add), (\"et_vk.prepack.default\", prepack)"),
        ("graph/method.rs", "operator.name != \"aten::copy_\""),
        ("profile/sample.rs", "use crate::plan::Route; use std::fmt;"),
        ("kernels/mod.rs", "let instant = my_wgpu::f(); let environment = other::std_env;"),
    ];
    for (file, text) in CASES {
        assert_eq!(violations(file, text), Vec::<String>::new(), "{file}: {text}");
    }
}
