//! Programs and delegates written by hand, for what no exporter writes today.

#[path = "../../src/generated"]
#[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "generated, with builders for more than the tests need"
)]
mod generated {
    pub(crate) mod program;
    pub(crate) mod vkgraph;
}

pub(crate) use generated::{program, vkgraph};
use planus::{Builder, Offset, WriteAsOffset};

/// A program flatbuffer without header.
pub(crate) fn bare(program: &program::Program) -> Vec<u8> {
    finish(&mut Builder::new(), program, b"ET12")
}

/// Ends a flatbuffer with its identifier behind the root's offset. (planus 1.3 puts the two the other way round.)
pub(crate) fn finish<T>(builder: &mut Builder, root: impl WriteAsOffset<T>, identifier: &[u8; 4]) -> Vec<u8> {
    let mut flatbuffer = builder.finish(root, Some(*identifier)).to_vec();
    // The offset counts from where it stands, which is now four bytes earlier.
    let root = u32::from_le_bytes(flatbuffer[4..8].try_into().unwrap()) + 4;
    flatbuffer[..4].copy_from_slice(&root.to_le_bytes());
    flatbuffer[4..8].copy_from_slice(identifier);
    flatbuffer
}

/// A `.pte` file with an extended header of 24 or 32 bytes and segment bytes behind the program.
pub(crate) fn with_header(program: &program::Program, header_length: u32, segment_bytes: &[u8]) -> Vec<u8> {
    let flatbuffer = bare(program);
    let header_end = 8 + header_length as usize;
    let mut file = insert_header(&flatbuffer, header_end);
    let program_size = file.len() as u64;
    file[8..12].copy_from_slice(b"eh00");
    file[12..16].copy_from_slice(&header_length.to_le_bytes());
    file[16..24].copy_from_slice(&program_size.to_le_bytes());
    file[24..32].copy_from_slice(&program_size.to_le_bytes());
    if header_length >= 32 {
        file[32..40].copy_from_slice(&(segment_bytes.len() as u64).to_le_bytes());
    }
    file.extend_from_slice(segment_bytes);
    file
}

/// Makes room behind the identifier: the root is found through an offset from byte 0, everything else is relative.
fn insert_header(flatbuffer: &[u8], header_end: usize) -> Vec<u8> {
    // A multiple of 16 keeps the alignment.
    let gap = (header_end - 8).next_multiple_of(16);
    let root = u32::from_le_bytes(flatbuffer[..4].try_into().unwrap()) + gap as u32;
    let mut file = root.to_le_bytes().to_vec();
    file.extend_from_slice(&flatbuffer[4..8]);
    file.resize(8 + gap, 0);
    file.extend_from_slice(&flatbuffer[8..]);
    file
}

/// A plan with values and nothing else.
pub(crate) fn plan(values: Vec<program::KernelTypes>) -> program::ExecutionPlan {
    let values = values.into_iter().map(|value| program::EValue { val: Some(value) }).collect();
    program::ExecutionPlan { name: Some("forward".into()), values: Some(values), ..Default::default() }
}

/// A program of one plan.
pub(crate) fn program_of(plan: program::ExecutionPlan) -> program::Program {
    program::Program { execution_plan: Some(vec![plan]), ..Default::default() }
}

/// A float tensor.
pub(crate) fn tensor(sizes: &[i32]) -> program::Tensor {
    program::Tensor {
        scalar_type: 6,
        sizes: Some(sizes.to_vec()),
        dim_order: Some((0..sizes.len() as u8).collect()),
        ..Default::default()
    }
}

/// A plan of one chain.
pub(crate) fn with_instructions(
    mut plan: program::ExecutionPlan,
    chains: Vec<Vec<program::InstructionArguments>>,
) -> program::ExecutionPlan {
    let chain = |steps: Vec<program::InstructionArguments>| program::Chain {
        instructions: Some(steps.into_iter().map(|step| program::Instruction { instr_args: Some(step) }).collect()),
        ..Default::default()
    };
    plan.chains = Some(chains.into_iter().map(chain).collect());
    plan
}

/// A delegate blob: header, graph, constant bytes.
pub(crate) fn delegate(graph: &vkgraph::VkGraph, constant_bytes: &[u8]) -> Vec<u8> {
    delegate_of(&graph_flatbuffer(graph), constant_bytes)
}

/// The flatbuffer of a graph.
pub(crate) fn graph_flatbuffer(graph: &vkgraph::VkGraph) -> Vec<u8> {
    finish(&mut Builder::new(), graph, b"VK00")
}

/// A delegate blob around any flatbuffer.
pub(crate) fn delegate_of(flatbuffer: &[u8], constant_bytes: &[u8]) -> Vec<u8> {
    let mut blob = vec![0; 4];
    blob.extend_from_slice(b"VH00");
    blob.extend_from_slice(&30u16.to_le_bytes());
    blob.extend_from_slice(&32u32.to_le_bytes());
    blob.extend_from_slice(&(flatbuffer.len() as u32).to_le_bytes());
    blob.extend_from_slice(&(32 + flatbuffer.len() as u32).to_le_bytes());
    blob.extend_from_slice(&(constant_bytes.len() as u64).to_le_bytes());
    blob.resize(32, 0);
    blob.extend_from_slice(flatbuffer);
    blob.extend_from_slice(constant_bytes);
    blob
}

/// A graph of tensors.
pub(crate) fn graph_of(tensors: Vec<vkgraph::VkTensor>) -> vkgraph::VkGraph {
    let value = |tensor| vkgraph::VkValue { value: Some(vkgraph::GraphTypes::VkTensor(Box::new(tensor))) };
    vkgraph::VkGraph { values: Some(tensors.into_iter().map(value).collect()), ..Default::default() }
}

/// A float tensor that is no constant.
pub(crate) fn graph_tensor(dims: &[u32]) -> vkgraph::VkTensor {
    vkgraph::VkTensor { datatype: 5, dims: Some(dims.to_vec()), constant_id: -1, ..Default::default() }
}

/// A plan whose values are one list of indices many times over: a few bytes per value that claim the whole list.
pub(crate) fn many_values_of_one_list(values: usize, list: usize) -> Vec<u8> {
    let mut builder = Builder::new();
    let items = builder.create_vector(vec![0i64; list]);
    let list = program::IntList::create(&mut builder, items);
    let content = program::KernelTypes::create_int_list(&mut builder, list);
    let value: Offset<program::EValue> = program::EValue::create(&mut builder, content);
    let values = builder.create_vector(vec![value; values]);
    let plan = program::ExecutionPlan::builder()
        .name("forward")
        .container_meta_type(())
        .values(values)
        .inputs(())
        .outputs(())
        .chains(())
        .operators(())
        .delegates(())
        .finish(&mut builder);
    let plans = builder.create_vector(vec![plan]);
    let program = program::Program::builder()
        .version(0u32)
        .execution_plan(plans)
        .constant_buffer(())
        .backend_delegate_data(())
        .segments(())
        .constant_segment(())
        .mutable_data_segments(())
        .named_data(())
        .finish(&mut builder);
    finish(&mut builder, program, b"ET12")
}
