//! Whole files: a program with its delegates, or a `.ptd` file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use torchlight_pte::{DelegateGraph, Error, FlatTensor, Program};

fuzz_target!(|bytes: &[u8]| {
    match Program::parse(bytes) {
        Ok(program) => {
            for delegate in program.methods.iter().flat_map(|method| &method.delegates) {
                let _ = DelegateGraph::parse(delegate.blob).inspect_err(is_one_line);
            }
        }
        Err(error) => is_one_line(&error),
    }
    let _ = FlatTensor::parse(bytes).inspect_err(is_one_line);
});

fn is_one_line(error: &Error) {
    assert!(!error.to_string().contains('\n'), "{error}");
}
