//! Constants in `.ptd` files: beside the program or given by `--data`, and what is said where they are not there.

mod harness;

use std::path::PathBuf;

use harness::{CaseCopy, finish, fixtures, run_on, torchlight};

/// The file beside the program of `ptd_linear`, and the one constant that it holds.
const PTD: &str = "vulkan_constants_4405393d218be7fec3fe5cff32c8c03e817e575a5a5052234b97920fc2457443.ptd";
const KEY: &str = "46d7c8451ce80677f432456d50c972324b06c2356a1112d4b77deac332170cda";

fn ptd() -> PathBuf {
    fixtures().join("ptd_linear").join(PTD)
}

/// The case `linear_f32`, whose program holds its weight, with the program that does not.
fn without_its_weight() -> CaseCopy {
    let copy = CaseCopy::new("linear_f32");
    std::fs::copy(fixtures().join("ptd_linear/model.pte"), copy.path().join("model.pte")).unwrap();
    copy
}

#[test]
fn outputs_are_those_of_the_program_that_holds_its_weight() {
    let copy = without_its_weight();
    for command in ["verify", "run", "profile --timestamps off"] {
        run_on(&format!("{command} --data"), &[&ptd(), copy.path()]).passed();
    }
    let [theirs, ours] = ["theirs", "ours"].map(|name| copy.beside(name));
    run_on("run linear_f32 --out", &[&theirs]).passed();
    run_on("run --out", &[&ours, copy.path(), "--data".as_ref(), &ptd()]).passed();
    let [theirs, ours] = [theirs, ours].map(|folder| std::fs::read(folder.join("step0_out_out.bin")).unwrap());
    assert!(theirs == ours && theirs.len() == 3 * 32 * 4);
    // Where none is named, it is found beside the program.
    std::fs::copy(ptd(), copy.path().join("any name.ptd")).unwrap();
    run_on("verify", &[copy.path()]).passed();
}

#[test]
fn a_missing_constant_is_named_and_where_it_was_looked_for() {
    let copy = without_its_weight();
    run_on("run", &[copy.path()]).refused(&["model.pte", KEY, "no .ptd file was given"]);
    run_on("verify", &[copy.path()]).refused(&["model.pte", KEY, "no .ptd file was given"]);
    // A whole file that holds another constant.
    let mut bytes = std::fs::read(ptd()).unwrap();
    let at = bytes.windows(KEY.len()).position(|window| window == KEY.as_bytes()).unwrap();
    bytes[at] = b'f';
    let other = copy.beside("other.ptd");
    std::fs::write(&other, &bytes).unwrap();
    run_on("run --data", &[&other, copy.path()]).refused(&["model.pte", KEY, "neither the program nor 1 .ptd file"]);
    // Both together.
    let mut command = torchlight(["run", "--data"]);
    command.arg(&other).arg("--data").arg(ptd()).arg(copy.path());
    finish(command).passed();
}

#[test]
fn what_is_no_ptd_file_is_an_error_that_says_what_it_is() {
    let copy = without_its_weight();
    let bytes = std::fs::read(ptd()).unwrap();
    let cut = copy.beside("cut.ptd");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let empty = copy.beside("empty.ptd");
    std::fs::write(&empty, b"").unwrap();
    for (file, words) in [
        (fixtures().join("add/model.pte"), &["add/model.pte", "not a .ptd file", "FT01"][..]),
        (cut, &["cut.ptd", "segments", "outside the file"]),
        (empty, &["empty.ptd is empty"]),
        (copy.beside("nowhere.ptd"), &["cannot open", "nowhere.ptd"]),
        (fixtures(), &["is a folder", "--data takes a .ptd file"]),
    ] {
        run_on("run --data", &[&file, copy.path()]).refused(words);
    }
}
