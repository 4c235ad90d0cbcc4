//! What no exporter writes today: inline delegates and constants, files without header, and numbers that overflow.

#[allow(dead_code, reason = "each test file uses a part")]
mod handmade;

use handmade::program::{
    BackendDelegate, BackendDelegateDataReference, BackendDelegateInlineData, BoolList, Buffer, CompileSpec,
    DataSegment, DelegateCall, DoubleList, EValue, ExtraTensorInfo, FreeCall, InstructionArguments, Int, IntList,
    JumpFalseCall, KernelCall, KernelTypes, MoveCall, NamedData, Null, Operator, OptionalTensorList,
    Program as WireProgram, SubsegmentOffsets, Tensor, TensorList,
};
use handmade::{bare, plan, program_of, tensor, with_header, with_instructions};
use torchlight_pte::{Error, Instruction, Program, Value, ValueId};

fn boxed(tensor: Tensor) -> KernelTypes {
    KernelTypes::Tensor(Box::new(tensor))
}

fn nulls(count: usize) -> Vec<KernelTypes> {
    (0..count).map(|_| KernelTypes::Null(Box::new(Null {}))).collect()
}

#[track_caller]
fn message(bytes: &[u8]) -> String {
    Program::parse(bytes).unwrap_err().to_string()
}

#[track_caller]
fn message_of(values: Vec<KernelTypes>) -> String {
    message(&bare(&program_of(plan(values))))
}

fn delegate(location: i8, index: u32) -> BackendDelegate {
    BackendDelegate {
        id: Some("VulkanBackend".into()),
        processed: Some(Box::new(BackendDelegateDataReference { location, index })),
        compile_specs: Some(vec![CompileSpec { key: Some("force_fp16".into()), value: Some(vec![1]) }]),
    }
}

#[test]
fn inline_delegates_and_constants_need_no_header() {
    let mut plan = plan(vec![boxed(Tensor { data_buffer_idx: 1, ..tensor(&[2, 2]) })]);
    plan.delegates = Some(vec![delegate(0, 1)]);
    let mut wire = program_of(plan);
    wire.version = 7;
    wire.constant_buffer = Some(vec![Buffer { storage: None }, Buffer { storage: Some((0..16).collect()) }]);
    let blob = |data: &[u8]| BackendDelegateInlineData { data: Some(data.to_vec()) };
    wire.backend_delegate_data = Some(vec![blob(b"other"), blob(b"graph")]);
    let bytes = bare(&wire);

    let program = Program::parse(&bytes).unwrap();
    assert_eq!(program.version, 7);
    assert_eq!(program.constant(1).unwrap(), (0..16).collect::<Vec<u8>>());
    assert_eq!((program.constant(0), program.constant(2), program.named_data("x")), (None, None, None));
    assert!(program.method("backward").is_none());
    let delegate = &program.method("forward").unwrap().delegates[0];
    assert_eq!((delegate.id, delegate.blob), ("VulkanBackend", &b"graph"[..]));
    assert_eq!((delegate.compile_specs[0].key, delegate.compile_specs[0].value), ("force_fp16", &[1][..]));
}

/// Two segments, the first with two constants, the second with a delegate that is named data too.
fn segmented() -> WireProgram {
    let constant = |index, sizes: &[i32]| boxed(Tensor { data_buffer_idx: index, ..tensor(sizes) });
    let mut plan = plan(vec![constant(1, &[2]), constant(2, &[4])]);
    plan.delegates = Some(vec![delegate(1, 1)]);
    WireProgram {
        segments: Some(vec![DataSegment { offset: 0, size: 32 }, DataSegment { offset: 32, size: 8 }]),
        constant_segment: Some(Box::new(SubsegmentOffsets { segment_index: 0, offsets: Some(vec![0, 0, 16]) })),
        named_data: Some(vec![NamedData { key: Some("weight".into()), segment_index: 1 }]),
        ..program_of(plan)
    }
}

#[test]
fn headers_of_either_length_lead_to_segments() {
    let segment_bytes: Vec<u8> = (0..40).collect();
    for header_length in [24, 32] {
        let file = with_header(&segmented(), header_length, &segment_bytes);
        let program = Program::parse(&file).unwrap();
        assert_eq!(program.constant(1).unwrap(), &segment_bytes[..16]);
        assert_eq!(program.constant(2).unwrap(), &segment_bytes[16..32]);
        assert_eq!(program.named_data("weight").unwrap(), &segment_bytes[32..]);
        assert_eq!(program.named_keys().collect::<Vec<_>>(), [("weight", 8)]);
        assert_eq!(program.methods[0].delegates[0].blob, &segment_bytes[32..]);
    }
}

#[test]
fn files_that_end_early_say_what_is_missing() {
    let file = with_header(&segmented(), 32, &[0; 40]);
    let size = file.len();
    let program_size = size - 40;
    assert_eq!(message(&file[..5]), "truncated: its identifier ends at 8 bytes, the file has 5");
    assert_eq!(message(&file[..20]), "truncated: the extended header ends at 32 bytes, the file has 20");
    assert_eq!(
        message(&file[..100]),
        format!("truncated: the header says the program is {program_size} bytes, the file has 100")
    );
    assert_eq!(
        message(&file[..size - 1]),
        format!("truncated: the header says the segments end at {size} bytes, the file has {}", size - 1)
    );
    let mut other = file.clone();
    other[4..8].copy_from_slice(b"\n\"xy");
    assert_eq!(message(&other), "not a .pte file: identifier is \"\\n\\\"xy\", wanted \"ET12\"");

    let file = with_header(&segmented(), 24, &[0; 40]);
    let (size, start) = (file.len(), file.len() - 8);
    assert_eq!(
        message(&file[..size - 1]),
        format!("segment 1: bytes {start}..{size} lie outside the file of {} bytes", size - 1)
    );
}

#[test]
fn segments_that_overflow_are_refused() {
    let parse = |offset, size| {
        let mut wire = segmented();
        wire.segments.as_mut().unwrap()[1] = DataSegment { offset, size };
        message(&with_header(&wire, 32, &[0; 40]))
    };
    assert!(parse(u64::MAX, 1).starts_with("segment 1: offset 18446744073709551615 overflows behind segment base"));
    assert!(parse(1 << 40, u64::MAX).starts_with("segment 1: bytes 10995116"));
    assert!(parse(32, u64::MAX - 40).contains("lie outside the file of"));
    assert!(parse(33, 8).starts_with("segment 1: bytes"));

    assert_eq!(message(&bare(&segmented())), "segment 0: 32 bytes, but the file has no segment base");
    let mut file = with_header(&segmented(), 32, &[0; 40]);
    file[24..32].fill(0xff);
    assert!(message(&file).starts_with("truncated: the header says the segments end at 18446744073709551655 bytes"));
    file[24..32].copy_from_slice(&48u64.to_le_bytes());
    assert!(message(&file).starts_with("extended header: segments begin at byte 48, inside the program of"));
    file[12] = 23;
    assert_eq!(message(&file), "extended header: its length is 23, at least 24 is needed");
}

#[test]
fn constants_that_do_not_fit_are_refused() {
    let parse = |offsets: &[u64]| {
        let mut wire = segmented();
        wire.constant_segment.as_mut().unwrap().offsets = Some(offsets.to_vec());
        message(&with_header(&wire, 32, &[0; 40]))
    };
    assert_eq!(
        parse(&[0, 0, u64::MAX]),
        "constant 1: bytes 0..18446744073709551615 lie outside the constant segment of 32 bytes"
    );
    assert_eq!(parse(&[0, 0, 33]), "constant 1: bytes 0..33 lie outside the constant segment of 32 bytes");
    assert_eq!(parse(&[0, 16, 8]), "constant 1: begins at byte 16, ends at byte 8");
    assert_eq!(parse(&[0, 0, 20]), "method \"forward\", value 1: 4 elements of F32 in a constant of 12 bytes");
    assert_eq!(parse(&[0, 0]), "method \"forward\", value 1, constant: 2 is out of range, there are 2");

    let mut wire = segmented();
    wire.constant_segment.as_mut().unwrap().segment_index = 2;
    assert_eq!(message(&with_header(&wire, 32, &[0; 40])), "segment of constants: 2 is out of range, there are 2");
    let mut wire = segmented();
    wire.named_data.as_mut().unwrap().push(NamedData { key: Some("weight".into()), segment_index: 0 });
    assert_eq!(message(&with_header(&wire, 32, &[0; 40])), "named data \"weight\": the key is there twice");
    let mut wire = segmented();
    wire.named_data.as_mut().unwrap()[0].segment_index = u32::MAX;
    assert_eq!(
        message(&with_header(&wire, 32, &[0; 40])),
        "named data 0, segment: 4294967295 is out of range, there are 2"
    );
}

#[test]
fn tensors_with_impossible_sizes_are_refused() {
    let message_of_tensor = |tensor| message_of(vec![boxed(tensor)]);
    assert_eq!(message_of_tensor(tensor(&[2, -1])), "method \"forward\", value 0, tensor: dimension 1 has size -1");
    assert_eq!(
        message_of_tensor(tensor(&[i32::MAX, i32::MAX, i32::MAX])),
        "method \"forward\", value 0, tensor, size: dimensions [2147483647, 2147483647, 2147483647] overflow"
    );
    assert!(message_of_tensor(tensor(&[0, i32::MAX, i32::MAX, i32::MAX])).contains("overflow"));
    let order = |dim_order: &[u8]| Tensor { dim_order: Some(dim_order.to_vec()), ..tensor(&[2, 3]) };
    for bad in [&[][..], &[0], &[0, 0], &[0, 2], &[1, 0, 2]] {
        assert!(message_of_tensor(order(bad)).contains("is no permutation of them"), "{bad:?}");
    }
    let bytes = bare(&program_of(plan(vec![boxed(order(&[1, 0])), boxed(Tensor { scalar_type: 22, ..tensor(&[]) })])));
    let program = Program::parse(&bytes).unwrap();
    let [Value::Tensor(matrix), Value::Tensor(scalar)] = &program.methods[0].values[..] else { panic!("{program:?}") };
    assert_eq!((matrix.element_count, matrix.byte_count()), (6, Some(24)));
    assert_eq!((scalar.element_count, scalar.byte_count()), (1, None));
}

#[test]
fn tensors_whose_content_would_read_wrong_are_unsupported() {
    let elsewhere = ExtraTensorInfo { location: 1, ..Default::default() };
    for (tensor, detail) in [
        (Tensor { storage_offset: 4, ..tensor(&[2]) }, "storage offset of 4 elements"),
        (Tensor { layout: 1, ..tensor(&[2]) }, "layout 1, only 0 (strided) is read"),
        (Tensor { shape_dynamism: 3, ..tensor(&[2]) }, "shape dynamism 3"),
        (
            Tensor { extra_tensor_info: Some(Box::new(elsewhere)), ..tensor(&[2]) },
            "content outside the file (location 1)",
        ),
        (
            Tensor { data_buffer_idx: 1, allocation_info: Some(Box::default()), ..tensor(&[2]) },
            "a mutable tensor that starts as constant 1",
        ),
    ] {
        let error = Program::parse(&bare(&program_of(plan(vec![boxed(tensor)])))).map(drop).unwrap_err();
        let what = "method \"forward\", value 0, tensor".into();
        assert_eq!(error, Error::Unsupported { what, detail: detail.into() });
    }
}

#[test]
fn every_kind_of_value_is_read() {
    let mut values = nulls(1);
    values.extend([
        KernelTypes::IntList(Box::new(IntList { items: Some(vec![0, 4]) })),
        KernelTypes::DoubleList(Box::new(DoubleList { items: Some(vec![0.5, -0.0]) })),
        KernelTypes::BoolList(Box::new(BoolList { items: Some(vec![true, false]) })),
        KernelTypes::TensorList(Box::new(TensorList { items: Some(vec![1]) })),
        KernelTypes::OptionalTensorList(Box::new(OptionalTensorList { items: Some(vec![-1, 2]) })),
        KernelTypes::Int(Box::new(Int { int_val: i64::MIN })),
    ]);
    let bytes = bare(&program_of(plan(values)));
    assert_eq!(
        Program::parse(&bytes).unwrap().methods[0].values,
        [
            Value::Null,
            Value::IntList(vec![ValueId(0), ValueId(4)]),
            Value::DoubleList(vec![0.5, -0.0]),
            Value::BoolList(vec![true, false]),
            Value::TensorList(vec![ValueId(1)]),
            Value::OptionalTensorList(vec![None, Some(ValueId(2))]),
            Value::Int(i64::MIN),
        ]
    );
    let empty = program_of(handmade::program::ExecutionPlan {
        name: Some("forward".into()),
        values: Some(vec![EValue { val: None }]),
        ..Default::default()
    });
    assert_eq!(message(&bare(&empty)), "method \"forward\", value 0, value: has no content");
    assert_eq!(message(&bare(&program_of(Default::default()))), "method: has no name");
}

#[test]
fn ids_out_of_range_are_refused() {
    let list = |items: &[i64]| KernelTypes::IntList(Box::new(IntList { items: Some(items.to_vec()) }));
    assert_eq!(
        message_of(vec![list(&[0, 1])]),
        "method \"forward\", value 0, value id: 1 is out of range, there are 1"
    );
    assert!(message_of(vec![list(&[i64::MIN])]).contains("-9223372036854775808 is out of range"));
    let optional = OptionalTensorList { items: Some(vec![-2]) };
    assert!(message_of(vec![KernelTypes::OptionalTensorList(Box::new(optional))]).contains("-2 is out of range"));

    let mut inputs = plan(nulls(2));
    inputs.inputs = Some(vec![0, -1]);
    assert_eq!(
        message(&bare(&program_of(inputs))),
        "method \"forward\", inputs, value id: -1 is out of range, there are 2"
    );
    let mut outputs = plan(nulls(2));
    outputs.outputs = Some(vec![2]);
    assert!(message(&bare(&program_of(outputs))).contains("outputs, value id: 2 is out of range"));
    for (location, what) in [(0, "inline delegate data"), (1, "segment")] {
        let mut plan = plan(vec![]);
        plan.delegates = Some(vec![delegate(location, 0)]);
        assert_eq!(
            message(&bare(&program_of(plan))),
            format!("method \"forward\", delegate 0, {what}: 0 is out of range, there are 0")
        );
    }
}

fn kernel(op_index: i32, args: &[i32]) -> InstructionArguments {
    InstructionArguments::KernelCall(Box::new(KernelCall { op_index, args: Some(args.to_vec()) }))
}

fn jump(destination_instruction: i32) -> InstructionArguments {
    InstructionArguments::JumpFalseCall(Box::new(JumpFalseCall { cond_value_index: 0, destination_instruction }))
}

fn step(move_from: i32) -> InstructionArguments {
    InstructionArguments::MoveCall(Box::new(MoveCall { move_from, move_to: 1 }))
}

fn program_with_chains(chains: Vec<Vec<InstructionArguments>>) -> Vec<u8> {
    let mut plan = with_instructions(plan(nulls(3)), chains);
    plan.operators = Some(vec![Operator { name: Some("aten::copy_".into()), overload: None }]);
    bare(&program_of(plan))
}

#[test]
fn instructions_are_read_and_their_indices_checked() {
    let free = InstructionArguments::FreeCall(Box::new(FreeCall { value_index: 2 }));
    let bytes = program_with_chains(vec![vec![kernel(0, &[2, 1]), jump(4), step(0), free]]);
    let program = Program::parse(&bytes).unwrap();
    assert_eq!(
        program.methods[0].instructions,
        [
            Instruction::KernelCall { operator: 0, args: vec![ValueId(2), ValueId(1)] },
            Instruction::JumpFalse { condition: ValueId(0), destination: 4 },
            Instruction::Move { from: ValueId(0), to: ValueId(1) },
            Instruction::Free { value: ValueId(2) },
        ]
    );
    assert_eq!((program.methods[0].operators[0].name, program.methods[0].operators[0].overload), ("aten::copy_", ""));

    let call = InstructionArguments::DelegateCall(Box::new(DelegateCall { delegate_index: 0, args: None }));
    for (bad, detail) in [
        (kernel(1, &[]), "operator: 1 is out of range, there are 1"),
        (kernel(-1, &[]), "operator: -1 is out of range, there are 1"),
        (kernel(0, &[3]), "value id: 3 is out of range, there are 3"),
        (step(-7), "value id: -7 is out of range, there are 3"),
        (jump(3), "destination: 3 is out of range, there are 3"),
        (call, "delegate: 0 is out of range, there are 0"),
    ] {
        let bytes = program_with_chains(vec![vec![step(0), bad]]);
        assert_eq!(message(&bytes), format!("method \"forward\", chain 0, instruction 1, {detail}"));
    }
}

#[test]
fn chains_follow_each_other_but_jumps_between_them_are_unsupported() {
    let bytes = program_with_chains(vec![vec![step(0)], vec![], vec![step(2)]]);
    let moves = |from| Instruction::Move { from: ValueId(from), to: ValueId(1) };
    assert_eq!(Program::parse(&bytes).unwrap().methods[0].instructions, [moves(0), moves(2)]);
    let bytes = program_with_chains(vec![vec![step(0)], vec![jump(0)]]);
    assert_eq!(message(&bytes), "method \"forward\", chain 1: unsupported: a jump in a method of 2 chains");
}

#[test]
fn unknown_kinds_of_values_are_unsupported() {
    let file = bare(&program_of(plan(vec![KernelTypes::Int(Box::new(Int { int_val: 5 }))])));
    // The union's tag is the one byte whose change makes the kind of value unknown.
    let unknown = (8..file.len()).filter_map(|at| {
        let mut changed = file.clone();
        changed[at] = 99;
        Program::parse(&changed).err().map(|error| error.to_string()).filter(|text| text.contains("variant 99"))
    });
    assert_eq!(unknown.collect::<Vec<_>>(), ["method \"forward\", value 0, EValue.val: unsupported: variant 99"]);
}

#[test]
fn a_list_that_every_value_shares_is_refused() {
    let bytes = handmade::many_values_of_one_list(1000, 1000);
    assert!(bytes.len() < 20_000);
    assert!(message(&bytes).starts_with("decodes to more than"), "{}", message(&bytes));
    assert!(Program::parse(&handmade::many_values_of_one_list(4, 1000)).is_ok());
}
