//! Constants in `.ptd` files beside a program, found by their keys.

mod harness;

use harness::case::read;
use torchlight::graph::Origin;
use torchlight::{FlatTensor, Graph, Program};

const PTD: &str = "vulkan_constants_4405393d218be7fec3fe5cff32c8c03e817e575a5a5052234b97920fc2457443.ptd";

/// A file of a fixture with all places that hold a text changed, or only the first of them.
fn changed(file: &[u8], from: &[u8], to: &[u8], places: usize) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut file = file.to_vec();
    for _ in 0..places {
        let at = file.windows(from.len()).position(|window| window == from).unwrap();
        file[at..at + to.len()].copy_from_slice(to);
    }
    file
}

#[test]
fn constants_are_looked_for_in_the_program_and_then_in_the_files() {
    let program_bytes = read("rms_norm", "model.pte");
    let program = Program::parse(&program_bytes).unwrap();
    let (key, bytes) = program.named_keys().next().unwrap();
    assert_eq!(bytes, 256);
    // The program's own table of names comes first in the file: under another name nobody finds the constant there.
    let missing = changed(&program_bytes, key.as_bytes(), "0".repeat(key.len()).as_bytes(), 1);
    let missing = Program::parse(&missing).unwrap();

    let error = Graph::from_method(&missing, "forward").unwrap_err().to_string();
    assert!(error.ends_with(&format!("the program has no data named {key:?}, and no .ptd file was given")), "{error}");

    let ptd = read("ptd_linear", PTD);
    let other = FlatTensor::parse(&ptd).unwrap();
    let (other_key, size) = other.named_keys().next().unwrap();
    let error =
        Graph::from_method_with_data(&missing, "forward", std::slice::from_ref(&other)).unwrap_err().to_string();
    assert!(error.ends_with(&format!("neither the program nor 1 .ptd file(s) have data named {key:?}")), "{error}");

    // A file with the right name and a constant of another size: it is found, and refused for what it holds.
    let renamed = changed(&ptd, other_key.as_bytes(), key.as_bytes(), 1);
    let files = [other, FlatTensor::parse(&renamed).unwrap()];
    let error = Graph::from_method_with_data(&missing, "forward", &files).unwrap_err().to_string();
    assert!(error.ends_with(&format!("its constant has {size} bytes, wanted 256")), "{error}");

    // What the program holds itself no file replaces.
    let graph = Graph::from_method_with_data(&program, "forward", &files).unwrap();
    let own = program.named_data(key).unwrap();
    assert!(graph.tensors.iter().any(|tensor| tensor.origin == Origin::Constant(own)));
}
