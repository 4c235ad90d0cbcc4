//! The blob of a Vulkan delegate, alone or inside a file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use torchlight_pte::{DelegateGraph, VkValue};

fuzz_target!(|bytes: &[u8]| {
    // Whole programs serve as seeds: their delegate begins four bytes before its identifier.
    let start = bytes.windows(4).position(|window| window == b"VH00").map_or(0, |at| at.saturating_sub(4));
    match DelegateGraph::parse(&bytes[start..]) {
        Ok(graph) => ids_are_in_range(&graph),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});

fn ids_are_in_range(graph: &DelegateGraph<'_>) {
    for id in graph.chain.iter().flat_map(|call| &call.args).chain(&graph.inputs).chain(&graph.outputs) {
        let _ = &graph.values[id.index()];
    }
    for value in &graph.values {
        match value {
            VkValue::Tensor(tensor) => {
                let _ = (tensor.byte_count(), tensor.constant.map(|id| graph.constants[id.index()]));
            }
            VkValue::ValueList(ids) => ids.iter().for_each(|id| {
                let _ = &graph.values[id.index()];
            }),
            _ => {}
        }
    }
}
