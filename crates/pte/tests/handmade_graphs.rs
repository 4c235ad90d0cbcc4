//! Delegate graphs that no exporter writes today: inline constants, every kind of value, and numbers that overflow.

#[allow(dead_code, reason = "each test file uses a part")]
mod handmade;

use handmade::vkgraph::{
    Bool, BoolList, Double, DoubleList, GraphTypes, Int, IntList, Null, OperatorCall, String as Text, SymInt,
    ValueList, VkBytes, VkGraph, VkTensor as WireTensor, VkValue as WireValue,
};
use handmade::{delegate, delegate_of, graph_flatbuffer, graph_of, graph_tensor};
use torchlight_pte::{Constant, ConstantId, DelegateGraph, VkDataType, VkValue, VkValueId};

#[track_caller]
fn message(blob: &[u8]) -> String {
    DelegateGraph::parse(blob).map(drop).unwrap_err().to_string()
}

fn inline(offset: u64, length: u64) -> VkBytes {
    VkBytes { offset, length, named_key: None }
}

/// A tensor of four bytes that starts as the first constant.
fn graph_with_constant(constant: VkBytes) -> VkGraph {
    let tensor = WireTensor { constant_id: 0, ..graph_tensor(&[1]) };
    VkGraph { constants: Some(vec![constant]), ..graph_of(vec![tensor]) }
}

#[test]
fn constants_are_inline_or_named() {
    let blob = delegate(&graph_with_constant(inline(2, 4)), &[0, 1, 2, 3, 4, 5, 6]);
    let graph = DelegateGraph::parse(&blob).unwrap();
    assert_eq!(graph.constants, [Constant::Inline(&[2, 3, 4, 5])]);
    let VkValue::Tensor(tensor) = &graph.values[0] else { panic!("{graph:?}") };
    assert_eq!((tensor.dtype, tensor.byte_count(), tensor.constant), (VkDataType::F32, 4, Some(ConstantId(0))));

    let named = VkBytes { offset: u64::MAX, length: 4, named_key: Some("weight".into()) };
    let blob = delegate(&graph_with_constant(named), &[]);
    assert_eq!(DelegateGraph::parse(&blob).unwrap().constants, [Constant::Named { key: "weight", length: 4 }]);
    assert_eq!(
        message(&delegate(&graph_with_constant(inline(u64::MAX, 4)), &[0; 4])),
        "constant 0, content: has neither offset nor key"
    );
}

#[test]
fn constants_that_overflow_or_do_not_fit_are_refused() {
    let message = |constant| message(&delegate(&graph_with_constant(constant), &[0; 8]));
    assert_eq!(
        message(inline(u64::MAX - 1, 4)),
        "constant 0, content: bytes 18446744073709551614..18446744073709551618 lie outside the constant bytes of 8 bytes"
    );
    assert!(message(inline(4, u64::MAX)).contains("lie outside"));
    assert!(message(inline(5, 4)).contains("bytes 5..9 lie outside the constant bytes of 8 bytes"));
    assert_eq!(message(inline(0, 3)), "value 0, tensor: needs 4 bytes, its constant 0 has 3");
}

#[test]
fn constant_ids_default_to_the_first() {
    let one = |constant_id| {
        let tensor = WireTensor { constant_id, ..graph_tensor(&[1]) };
        VkGraph { constants: Some(vec![inline(0, 4)]), ..graph_of(vec![tensor]) }
    };
    for (id, expected) in [(-1, None), (0, Some(ConstantId(0)))] {
        let blob = delegate(&one(id), &[0; 4]);
        let graph = DelegateGraph::parse(&blob).unwrap();
        assert!(matches!(&graph.values[0], VkValue::Tensor(tensor) if tensor.constant == expected), "{graph:?}");
    }
    for id in [1, -2, i32::MAX, i32::MIN] {
        let expected = format!("value 0, constant id: {id} is out of range, there are 1");
        assert_eq!(message(&delegate(&one(id), &[0; 4])), expected);
    }
}

#[test]
fn every_kind_of_value_and_call_is_read() {
    let kinds = vec![
        GraphTypes::Null(Box::new(Null {})),
        GraphTypes::Int(Box::new(Int { int_val: -3 })),
        GraphTypes::Double(Box::new(Double { double_val: 0.25 })),
        GraphTypes::Bool(Box::new(Bool { bool_val: true })),
        GraphTypes::IntList(Box::new(IntList { items: Some(vec![i64::MAX]) })),
        GraphTypes::DoubleList(Box::new(DoubleList { items: Some(vec![1.5]) })),
        GraphTypes::BoolList(Box::new(BoolList { items: Some(vec![false, true]) })),
        GraphTypes::ValueList(Box::new(ValueList { items: Some(vec![0, 9]) })),
        GraphTypes::String(Box::new(Text { string_val: Some("mode".into()) })),
        GraphTypes::SymInt(Box::new(SymInt { value: 8 })),
    ];
    let call = OperatorCall { node_id: 4, name: Some("aten.add.Tensor".into()), args: Some(vec![1, 2, 9]) };
    let graph = VkGraph {
        version: Some("0".into()),
        chain: Some(vec![call]),
        values: Some(kinds.into_iter().map(|kind| WireValue { value: Some(kind) }).collect()),
        input_ids: Some(vec![1]),
        output_ids: Some(vec![1, 9]),
        constants: None,
    };
    let blob = delegate(&graph, &[]);
    let parsed = DelegateGraph::parse(&blob).unwrap();
    assert_eq!(
        parsed.values,
        [
            VkValue::Null,
            VkValue::Int(-3),
            VkValue::Double(0.25),
            VkValue::Bool(true),
            VkValue::IntList(vec![i64::MAX]),
            VkValue::DoubleList(vec![1.5]),
            VkValue::BoolList(vec![false, true]),
            VkValue::ValueList(vec![VkValueId(0), VkValueId(9)]),
            VkValue::String("mode"),
            VkValue::SymInt(8),
        ]
    );
    assert_eq!(
        (parsed.version, parsed.inputs, parsed.outputs),
        ("0", vec![VkValueId(1)], vec![VkValueId(1), VkValueId(9)])
    );
    assert_eq!((parsed.chain[0].node_id, parsed.chain[0].name), (4, "aten.add.Tensor"));

    let damaged = |change: fn(&mut VkGraph)| {
        let mut graph = graph.clone();
        change(&mut graph);
        message(&delegate(&graph, &[]))
    };
    assert_eq!(
        damaged(|graph| graph.chain.as_mut().unwrap()[0].args = Some(vec![0, 10])),
        "node 4 \"aten.add.Tensor\", value id: 10 is out of range, there are 10"
    );
    assert_eq!(
        damaged(|graph| graph.input_ids = Some(vec![u32::MAX])),
        "inputs, value id: 4294967295 is out of range, there are 10"
    );
    assert_eq!(
        damaged(|graph| graph.output_ids = Some(vec![10])),
        "outputs, value id: 10 is out of range, there are 10"
    );
    assert_eq!(damaged(|graph| graph.values.as_mut().unwrap()[0].value = None), "value 0, value: has no content");
}

#[test]
fn tensors_with_impossible_sizes_or_types_are_refused() {
    let message = |tensor| message(&delegate(&graph_of(vec![tensor]), &[]));
    assert_eq!(
        message(graph_tensor(&[u32::MAX, u32::MAX])),
        "value 0, tensor, size: dimensions [4294967295, 4294967295] overflow"
    );
    assert!(message(graph_tensor(&[1 << 31, 1 << 30])).contains("overflow"), "2^61 floats are 2^63 bytes");
    assert_eq!(message(WireTensor { datatype: 8, ..graph_tensor(&[1]) }), "value 0, tensor: unsupported: data type 8");
}

#[test]
fn headers_that_point_elsewhere_are_refused() {
    let good = delegate(&graph_of(vec![graph_tensor(&[1])]), &[0; 8]);
    let size = good.len();
    assert!(DelegateGraph::parse(&good).is_ok());
    let with = |at: usize, bytes: &[u8]| {
        let mut blob = good.clone();
        blob[at..at + bytes.len()].copy_from_slice(bytes);
        message(&blob)
    };
    assert_eq!(with(4, b"VH01"), "not a Vulkan delegate: identifier is \"VH01\", wanted \"VH00\"");
    assert_eq!(with(8, &[29, 0]), "delegate header: its length is 29, at least 30 is needed");
    assert!(with(10, &[0xff; 4]).starts_with("graph: bytes 4294967295.."));
    assert!(with(14, &[0xff; 4]).starts_with("graph: bytes 32..4294967327 lie outside the delegate of"));
    assert_eq!(
        with(22, &[0xff; 8]),
        format!(
            "constant bytes: bytes {}..{} lie outside the delegate of {size} bytes",
            size - 8,
            (size - 8) as u128 + u128::from(u64::MAX)
        )
    );
    assert_eq!(with(36, b"ET12"), "not a Vulkan graph: identifier is \"ET12\", wanted \"VK00\"");
    assert_eq!(message(&good[..29]), "truncated: the header ends at 30 bytes, the delegate has 29");
    assert_eq!(with(14, &[4, 0, 0, 0]), "truncated: its identifier ends at 8 bytes, the graph has 4");

    let mut at_the_end = good[..size - 8].to_vec();
    at_the_end[22..30].fill(0);
    assert!(DelegateGraph::parse(&at_the_end).is_ok(), "an empty range of constants may lie at the blob's end");
}

#[test]
fn vectors_longer_than_the_blob_are_refused() {
    let graph = VkGraph { input_ids: Some(vec![7, 7, 7, 7, 7]), ..graph_of(vec![graph_tensor(&[1]); 8]) };
    let flatbuffer = graph_flatbuffer(&graph);
    let mut refused = 0;
    for at in (0..flatbuffer.len() - 3).step_by(4) {
        for length in [u32::MAX, i32::MAX as u32, flatbuffer.len() as u32] {
            let mut damaged = flatbuffer.clone();
            damaged[at..at + 4].copy_from_slice(&length.to_le_bytes());
            if let Err(error) = DelegateGraph::parse(&delegate_of(&damaged, &[])) {
                refused += usize::from(error.to_string().contains("invalid length"));
            }
        }
    }
    assert!(refused >= 3, "{refused}");
}
