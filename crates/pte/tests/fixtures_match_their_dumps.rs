//! The typed content of every exported program equals the readable dump beside it, which another reader made.

#[allow(dead_code, reason = "each test file uses a part")]
mod fixture_files;

use std::path::Path;

use fixture_files::all;
use serde_json::{Value as Json, json};
use torchlight_pte::{
    Constant, Delegate, DelegateGraph, Dynamism, FlatTensor, Instruction, Method, Program, ScalarType, TensorMeta,
    Value, VkDataType, VkTensor, VkValue,
};

#[test]
fn programs_and_graphs_equal_their_dumps() {
    let mut compared = 0;
    for fixture in all() {
        let Some(dump) = read_dump(&fixture.path) else { continue };
        let program = Program::parse(&fixture.bytes).unwrap();
        let name = fixture.path.display();
        let mut named = json!(program.named_keys().collect::<Vec<_>>());
        let mut expected: Vec<Json> =
            array(&dump["named_data"]).iter().map(|entry| json!([entry["key"], entry["segment"]["size"]])).collect();
        expected.sort_by_key(|pair| pair[0].as_str().unwrap().to_owned());
        assert_eq!(named.take(), Json::from(expected), "{name}");

        let plans = array(&dump["plans"]);
        assert_eq!(program.methods.len(), plans.len(), "{name}");
        for (method, plan) in program.methods.iter().zip(plans) {
            assert_eq!(program.method(method.name).unwrap().name, method.name);
            compare_method(method, plan, &name.to_string());
        }
        compared += 1;
    }
    assert!(compared >= 23, "{compared} programs have a dump");
}

#[test]
fn constants_beside_a_program_are_found_by_the_keys_of_its_graph() {
    let files = all();
    let find = |extension: &str| {
        files
            .iter()
            .find(|fixture| {
                fixture.path.parent().unwrap().ends_with("ptd_linear") && fixture.path.extension().unwrap() == extension
            })
            .unwrap()
    };
    let program = Program::parse(&find("pte").bytes).unwrap();
    let flat_tensor = FlatTensor::parse(&find("ptd").bytes).unwrap();
    let graph = DelegateGraph::parse(program.methods[0].delegates[0].blob).unwrap();
    assert!(!graph.constants.is_empty());
    for constant in &graph.constants {
        let Constant::Named { key, length } = *constant else { panic!("{constant:?}") };
        assert_eq!(flat_tensor.named_data(key).unwrap().len() as u64, length);
        assert_eq!(program.named_data(key), None);
    }
    assert_eq!(flat_tensor.named_keys().map(|(_, size)| size).sum::<usize>(), 8192);
    let content = flat_tensor.named_data(flat_tensor.named_keys().next().unwrap().0).unwrap();
    assert_eq!(content[..4], [0xe0, 0x88, 0x4f, 0xbd]);
}

/// `graph*.json` beside `model*.pte`.
fn read_dump(path: &Path) -> Option<Json> {
    let name = path.file_name()?.to_str()?.strip_prefix("model")?.strip_suffix(".pte")?;
    let text = std::fs::read_to_string(path.with_file_name(format!("graph{name}.json"))).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

fn array(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

fn compare_method(method: &Method<'_>, plan: &Json, name: &str) {
    assert_eq!(json!(method.name), plan["name"], "{name}");
    let values: Vec<Json> = method.values.iter().map(value_json).collect();
    assert_eq!(values.len(), array(&plan["values"]).len(), "{name}");
    for (index, (value, expected)) in values.iter().zip(array(&plan["values"])).enumerate() {
        assert_eq!(value, &without_hints(expected), "{name}: value {index}");
    }
    let show = |ids: &[torchlight_pte::ValueId]| -> Vec<String> {
        ids.iter().map(|id| short(id.index(), &method.values[id.index()])).collect()
    };
    let expected = |field: &str| -> Vec<String> {
        array(&plan[field]).iter().map(|line| without_allocation(line.as_str().unwrap())).collect()
    };
    assert_eq!(show(&method.inputs), expected("inputs"), "{name}");
    assert_eq!(show(&method.outputs), expected("outputs"), "{name}");
    let operators: Vec<Json> =
        method.operators.iter().map(|operator| json!({"name": operator.name, "overload": operator.overload})).collect();
    assert_eq!(Json::from(operators), plan["operators"], "{name}");
    let instructions: Vec<String> = (method.instructions.iter().enumerate())
        .map(|(index, instruction)| match instruction {
            Instruction::KernelCall { operator, args } => {
                let operator = method.operators[*operator];
                let dot = if operator.overload.is_empty() { "" } else { "." };
                format!("{index}: KERNEL {}{dot}{}({})", operator.name, operator.overload, show(args).join(", "))
            }
            Instruction::DelegateCall { delegate, args } => {
                format!("{index}: DELEGATE[{delegate}]({})", show(args).join(", "))
            }
            other => panic!("{name}: {other:?}"),
        })
        .collect();
    assert_eq!(instructions, expected("instructions_pretty"), "{name}");
    assert_eq!(method.delegates.len(), array(&plan["delegates"]).len(), "{name}");
    for (delegate, expected) in method.delegates.iter().zip(array(&plan["delegates"])) {
        compare_delegate(delegate, expected, name);
    }
}

fn compare_delegate(delegate: &Delegate<'_>, expected: &Json, name: &str) {
    assert_eq!(json!(delegate.id), expected["id"], "{name}");
    assert_eq!(json!(delegate.blob.len()), expected["blob_size"], "{name}");
    let specs = delegate.compile_specs.iter().map(|spec| (spec.key.to_owned(), json!(spec.value)));
    assert_eq!(Json::Object(specs.collect()), expected["compile_specs"], "{name}");

    let graph = DelegateGraph::parse(delegate.blob).unwrap();
    let expected = &expected["vkgraph"];
    assert_eq!(json!(graph.version), expected["version"], "{name}");
    let chain: Vec<Json> = (graph.chain.iter())
        .map(|call| {
            let args: Vec<u32> = call.args.iter().map(|id| id.0).collect();
            json!({"node_id": call.node_id, "name": call.name, "args": args})
        })
        .collect();
    assert_eq!(Json::from(chain), expected["chain"], "{name}");
    let values: Vec<Json> = graph.values.iter().map(graph_value_json).collect();
    assert_eq!(values.len(), array(&expected["values"]).len(), "{name}");
    for (index, (value, expected)) in values.iter().zip(array(&expected["values"])).enumerate() {
        assert_eq!(value, &without_hints(expected), "{name}: graph value {index}");
    }
    let ids = |ids: &[torchlight_pte::VkValueId]| json!(ids.iter().map(|id| id.0).collect::<Vec<_>>());
    assert_eq!(ids(&graph.inputs), expected["input_ids"], "{name}");
    assert_eq!(ids(&graph.outputs), expected["output_ids"], "{name}");
    let constants: Vec<Json> = (graph.constants.iter())
        .map(|constant| match constant {
            Constant::Named { key, length } => json!({"offset": u64::MAX, "length": length, "named_key": key}),
            Constant::Inline(_) => panic!("{name}: no exported graph has inline constants"),
        })
        .collect();
    assert_eq!(Json::from(constants), expected["constants"], "{name}");
}

/// The dump's fields that the parser does not keep.
const HINTS: [&str; 9] = [
    "storage_offset",
    "requires_grad",
    "allocation_info",
    "layout",
    "extra_tensor_info",
    "mem_obj_id",
    "storage_type",
    "memory_layout",
    "staging_datatype",
];

/// A number as the dump has it: it was written with twelve decimal places.
fn rounded(double: f64) -> f64 {
    format!("{double:.12}").parse().unwrap()
}

fn without_hints(value: &Json) -> Json {
    let mut value = value.clone();
    for content in ["val", "value"] {
        if let Some(fields) = value.get_mut(content).and_then(Json::as_object_mut) {
            fields.retain(|field, _| !HINTS.contains(&field.as_str()));
        }
    }
    value
}

/// Takes "@mem1+192" and "/fqn=name" out of a line of the dump.
fn without_allocation(line: &str) -> String {
    let mut parts = line.split("@mem");
    let mut kept = parts.next().unwrap().to_owned();
    for part in parts {
        kept += part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '+');
    }
    kept
}

fn value_json(value: &Value<'_>) -> Json {
    let (kind, content) = match value {
        Value::Null => ("Null", json!({})),
        Value::Int(int) => ("Int", json!({"int_val": int})),
        Value::Bool(bool) => ("Bool", json!({"bool_val": bool})),
        Value::Double(double) => ("Double", json!({"double_val": rounded(*double)})),
        Value::String(string) => ("String", json!({"string_val": string})),
        Value::Tensor(tensor) => ("Tensor", tensor_json(tensor)),
        other => panic!("no exported program has a {other:?}"),
    };
    json!({"val_type": kind, "val": content})
}

fn tensor_json(tensor: &TensorMeta) -> Json {
    json!({
        "scalar_type": scalar_type_name(tensor.dtype),
        "sizes": tensor.sizes,
        "dim_order": tensor.dim_order,
        "data_buffer_idx": tensor.data_buffer_idx,
        "shape_dynamism": dynamism_name(tensor.dynamism),
    })
}

fn scalar_type_name(dtype: ScalarType) -> &'static str {
    match dtype {
        ScalarType::F32 => "FLOAT",
        ScalarType::I64 => "LONG",
        ScalarType::I32 => "INT",
        other => panic!("no exported program has a tensor of {other:?}"),
    }
}

fn dynamism_name(dynamism: Dynamism) -> &'static str {
    match dynamism {
        Dynamism::Static => "STATIC",
        Dynamism::DynamicBound => "DYNAMIC_BOUND",
        Dynamism::DynamicUnbound => "DYNAMIC_UNBOUND",
    }
}

/// A value as the dump's lines of instructions show it.
fn short(index: usize, value: &Value<'_>) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Int(int) => format!("%{index}:int({int})"),
        Value::Bool(bool) => format!("%{index}:{}", if *bool { "True" } else { "False" }),
        Value::Tensor(tensor) => {
            let dynamism = match tensor.dynamism {
                Dynamism::Static => String::new(),
                other => format!("/{}", dynamism_name(other)),
            };
            format!("%{index}:{}{:?}{dynamism}", scalar_type_name(tensor.dtype).to_lowercase(), tensor.sizes)
        }
        other => panic!("no instruction of an exported program has a {other:?}"),
    }
}

fn graph_value_json(value: &VkValue<'_>) -> Json {
    let (kind, content) = match value {
        VkValue::Null => ("Null", json!({})),
        VkValue::Int(int) => ("Int", json!({"int_val": int})),
        VkValue::Double(double) => ("Double", json!({"double_val": rounded(*double)})),
        VkValue::Bool(bool) => ("Bool", json!({"bool_val": bool})),
        VkValue::Tensor(tensor) => ("VkTensor", graph_tensor_json(tensor)),
        VkValue::IntList(items) => ("IntList", json!({"items": items})),
        VkValue::DoubleList(items) => ("DoubleList", json!({"items": items})),
        VkValue::BoolList(items) => ("BoolList", json!({"items": items})),
        VkValue::ValueList(ids) => ("ValueList", json!({"items": ids.iter().map(|id| id.0).collect::<Vec<_>>()})),
        VkValue::String(string) => ("String", json!({"string_val": string})),
        VkValue::SymInt(int) => ("SymInt", json!({"value": int})),
    };
    json!({"value_type": kind, "value": content})
}

fn graph_tensor_json(tensor: &VkTensor) -> Json {
    let dtype = match tensor.dtype {
        VkDataType::Bool => "BOOL",
        VkDataType::U8 => "UINT8",
        VkDataType::I8 => "INT8",
        VkDataType::I32 => "INT32",
        VkDataType::F16 => "FLOAT16",
        VkDataType::F32 => "FLOAT32",
        VkDataType::F64 => "FLOAT64",
        VkDataType::I64 => "INT64",
    };
    json!({
        "datatype": dtype,
        "dims": tensor.dims,
        "constant_id": tensor.constant.map_or(-1, |id| i64::from(id.0)),
    })
}
