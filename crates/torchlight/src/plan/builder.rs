//! From a graph to a plan: operators to dispatches, tensors to buffers.

use std::collections::HashMap;

use super::launch::{Attention, Launch, attention_problem, rows};
use super::memory::{self, Lifetime};
use super::{
    BufferId, BufferPlan, DeviceFacts, Dispatch, PARAMS_SLOT_BYTES, Plan, Role, Route, Step, VariantId, limits,
};
use crate::error::Result;
use crate::graph::{
    Add, Graph, GraphOutput, IntArg, Live, Mul, Operator, Origin, SdpaWithKvCache, TensorId, UpdateCache,
};
use crate::kernels::{AttentionProblem, Variant, Width, binary, sdpa_compute_attn_weights, sdpa_compute_out};
use crate::kernels::{sdpa_softmax, update_cache};

/// A buffer that a dispatch needs, before memory is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Tensor(TensorId),
    Scratch(usize),
}

/// A dispatch, before memory is shared out.
struct Draft {
    variant: Variant,
    operands: Vec<Operand>,
    route: Option<Route>,
    launch: Launch,
}

/// A draft of which all but the buffers is settled.
enum DraftStep {
    Dispatch { node: u32, draft: Draft, max_workgroups: u64 },
    Copy { node: u32, from: TensorId, to: TensorId },
}

/// Memory that an operator needs between its own dispatches.
struct Scratch {
    size_bytes: u64,
    what: String,
    hint: String,
}

struct Builder<'g, 'a> {
    graph: &'g Graph<'a>,
    facts: &'g DeviceFacts,
    steps: Vec<DraftStep>,
    scratch: Vec<Scratch>,
}

/// Plans a graph for a device.
pub(super) fn build(graph: &Graph<'_>, facts: &DeviceFacts) -> Result<Plan> {
    let mut builder = Builder { graph, facts, steps: Vec::new(), scratch: Vec::new() };
    builder.check_tensors()?;
    for (index, node) in graph.nodes.iter().enumerate() {
        builder.node(index as u32, &node.operator)?;
    }
    builder.finish()
}

impl Builder<'_, '_> {
    /// Holds every tensor that the GPU touches against the device's limits, before sizes are multiplied: kernels
    /// count elements in 32 bits.
    fn check_tensors(&self) -> Result<()> {
        for node in &self.graph.nodes {
            for id in node.operator.reads().into_iter().chain(node.operator.writes()) {
                let size_bytes = self.graph.tensor(id).size_bytes().next_multiple_of(16);
                let buffer = BufferPlan { size_bytes, role: Role::Shared };
                limits::check_buffer(&self.facts.limits, &self.name(id), &buffer, "")?;
            }
        }
        Ok(())
    }

    /// A tensor in messages.
    fn name(&self, id: TensorId) -> String {
        let tensor = self.graph.tensor(id);
        let what = match tensor.origin {
            Origin::Input(input) => format!("input {input}"),
            Origin::State(_) => format!("cache {}", id.0),
            Origin::Constant(_) => format!("constant {}", id.0),
            Origin::Computed => "a tensor".to_owned(),
        };
        format!("{what} of shape {}", tensor.bound)
    }

    fn node(&mut self, node: u32, operator: &Operator) -> Result<()> {
        let drafts = match operator {
            Operator::SdpaWithKvCache(op) => self.sdpa_with_kv_cache(node, op)?,
            Operator::UpdateCache(op) => vec![self.update_cache(op, None)],
            Operator::Add(Add { a, b, alpha, out }) => vec![self.binary(binary::Function::Add, [*a, *b, *out], *alpha)],
            Operator::Mul(Mul { a, b, out }) => vec![self.binary(binary::Function::Mul, [*a, *b, *out], 1.0)],
            Operator::CopyTensor(op) => {
                self.steps.push(DraftStep::Copy { node, from: op.from, to: op.to });
                vec![]
            }
            // Evaluated by the host before a run is encoded.
            Operator::SymSize(_) | Operator::SelectAsSymInt(_) | Operator::AddSymInt(_) => vec![],
        };
        for draft in drafts {
            limits::check_variant(&self.facts.limits, &draft.variant)?;
            let max_workgroups = self.max_workgroups(node, &draft);
            limits::check_grid(&self.facts.limits, draft.variant.label, max_workgroups)?;
            self.steps.push(DraftStep::Dispatch { node, draft, max_workgroups });
        }
        Ok(())
    }

    /// Scores, weights and output as tensors of their own: the materialised route.
    fn sdpa_with_kv_cache(&mut self, node: u32, op: &SdpaWithKvCache) -> Result<Vec<Draft>> {
        let route = Some(Route::Materialised);
        let problem = self.largest_problem(op);
        let scores = Operand::Scratch(self.scores_scratch(node, &problem)?);
        let attention = Attention::from(op);
        let width = Width::dividing(problem.head_dim);
        let tensor = Operand::Tensor;
        let write = |value, cache| UpdateCache { value, cache, input_pos: op.input_pos };
        Ok(vec![
            self.update_cache(&write(op.k, op.k_cache), route),
            self.update_cache(&write(op.v, op.v_cache), route),
            Draft {
                variant: sdpa_compute_attn_weights::variant(width),
                operands: vec![tensor(op.q), tensor(op.k_cache), scores],
                route,
                launch: Launch::SdpaComputeAttnWeights(attention),
            },
            Draft {
                variant: sdpa_softmax::variant(),
                operands: vec![scores],
                route,
                launch: Launch::SdpaSoftmax(attention),
            },
            Draft {
                variant: sdpa_compute_out::variant(width),
                operands: vec![scores, tensor(op.v_cache), tensor(op.out)],
                route,
                launch: Launch::SdpaComputeOut(attention),
            },
        ])
    }

    /// The most tokens over the longest context that a program's bounds allow.
    fn largest_problem(&self, op: &SdpaWithKvCache) -> AttentionProblem {
        let [q, k, cache] = [op.q, op.k, op.k_cache].map(|tensor| self.graph.tensor(tensor).bound);
        let mut problem = attention_problem(q, k, 0, op.scale);
        let cache_rows = cache.as_slice().get(1).copied().unwrap_or(0);
        let last_pos = cache_rows.saturating_sub(problem.new_tokens);
        problem.input_pos = match op.input_pos {
            IntArg::Known(position) => u32::try_from(position).unwrap_or(0).min(last_pos),
            IntArg::Live(_) => last_pos,
        };
        problem
    }

    fn scores_scratch(&mut self, node: u32, problem: &AttentionProblem) -> Result<usize> {
        let token_bytes = 4 * u64::from(problem.q_heads) * u64::from(problem.context_len());
        let limits = &self.facts.limits;
        let fitting = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size) / token_bytes;
        let (s, t, id) = (problem.new_tokens, problem.context_len(), self.graph.nodes[node as usize].id);
        self.scratch.push(Scratch {
            // Saturates at a multiple of 16, which no device allows.
            size_bytes: problem.scores().saturating_mul(4).min(u64::MAX - 15),
            what: format!(
                "sdpa_with_kv_cache (node {id}): scores of {} heads x {s} tokens x {t} keys",
                problem.q_heads
            ),
            hint: format!("; steps of up to {fitting} tokens would fit"),
        });
        Ok(self.scratch.len() - 1)
    }

    fn update_cache(&self, op: &UpdateCache, route: Option<Route>) -> Draft {
        let row_elements = rows(self.graph.tensor(op.value).bound, 0).row_elements;
        Draft {
            variant: update_cache::variant(Width::dividing(row_elements)),
            operands: vec![Operand::Tensor(op.value), Operand::Tensor(op.cache)],
            route,
            launch: Launch::UpdateCache { value: op.value, input_pos: op.input_pos },
        }
    }

    fn binary(&self, function: binary::Function, [a, b, out]: [TensorId; 3], alpha: f32) -> Draft {
        let bound = |tensor| self.graph.tensor(tensor).bound;
        // A live size may shrink to 1 and start to broadcast: only static shapes stay dense for sure.
        let is_static = [a, b].iter().all(|&tensor| self.is_static(tensor));
        let shapes = binary::Shapes { a: bound(a), b: bound(b), out: bound(out) };
        let dense = is_static && shapes.are_equal();
        Draft {
            variant: binary::variant(function, dense),
            operands: [a, b, out].map(Operand::Tensor).to_vec(),
            route: None,
            launch: Launch::Binary { a, b, out, function, alpha, dense },
        }
    }

    /// Whether a tensor has its bound's shape in every run.
    fn is_static(&self, tensor: TensorId) -> bool {
        match self.graph.tensor(tensor).origin {
            Origin::Input(index) => !self.graph.inputs[index].dynamic,
            Origin::Constant(_) | Origin::State(_) => true,
            Origin::Computed => self.graph.inputs.iter().all(|input| !input.dynamic),
        }
    }

    /// The workgroups of a draft with every live size at its bound.
    fn max_workgroups(&self, node: u32, draft: &Draft) -> u64 {
        let mut slot = [0; PARAMS_SLOT_BYTES as usize];
        match (&self.graph.nodes[node as usize].operator, draft.launch) {
            (Operator::SdpaWithKvCache(op), Launch::SdpaComputeAttnWeights(_)) => {
                sdpa_compute_attn_weights::workgroups(&self.largest_problem(op))
            }
            (Operator::SdpaWithKvCache(op), Launch::SdpaSoftmax(_)) => {
                sdpa_softmax::workgroups(&self.largest_problem(op))
            }
            (Operator::SdpaWithKvCache(op), Launch::SdpaComputeOut(_)) => {
                sdpa_compute_out::workgroups(&self.largest_problem(op))
            }
            // The position does not matter, and one written in the program may lie outside the cache: that is refused
            // when it runs.
            (_, Launch::UpdateCache { value, .. }) => update_cache::workgroups(rows(self.graph.tensor(value).bound, 0)),
            _ => draft.launch.resolve(&Live::new(self.graph), &mut slot),
        }
    }

    fn finish(self) -> Result<Plan> {
        let mut memory = Memory::new(&self);
        memory.place_tensors(&self)?;
        let scratch = memory.share(&self)?;
        let mut plan = Plan {
            variants: Vec::new(),
            buffers: memory.buffers,
            tensor_buffers: memory.of_tensor,
            steps: Vec::with_capacity(self.steps.len()),
            max_workgroups_per_dimension: self.facts.limits.max_compute_workgroups_per_dimension,
        };
        let mut ids: HashMap<Variant, VariantId> = HashMap::new();
        for step in self.steps {
            let step = match step {
                DraftStep::Copy { node, from, to } => {
                    let size_bytes = self.graph.tensor(from).size_bytes().next_multiple_of(16);
                    let [from, to] = [from, to].map(|tensor| plan.tensor_buffers[tensor.index()]);
                    let (Some(from), Some(to)) = (from, to) else { continue };
                    Step::Copy { from, to, size_bytes, node }
                }
                DraftStep::Dispatch { node, draft, max_workgroups } => {
                    let buffer = |operand: &Operand| match operand {
                        Operand::Tensor(tensor) => plan.tensor_buffers[tensor.index()],
                        Operand::Scratch(index) => Some(scratch[*index]),
                    };
                    let buffers = draft.operands.iter().filter_map(buffer).collect();
                    let variants = &mut plan.variants;
                    let variant = *ids.entry(draft.variant).or_insert_with_key(|variant| {
                        variants.push(variant.clone());
                        VariantId(variants.len() as u32 - 1)
                    });
                    let Draft { route, launch, .. } = draft;
                    Step::Dispatch(Dispatch { variant, buffers, node, route, launch, max_workgroups })
                }
            };
            plan.steps.push(step);
        }
        Ok(plan)
    }
}

/// The steps between which something must be kept.
#[derive(Clone, Copy)]
struct Use {
    first: usize,
    last: usize,
}

/// Buffers on their way into a plan.
struct Memory {
    buffers: Vec<BufferPlan>,
    of_tensor: Vec<Option<BufferId>>,
    tensor_uses: Vec<Option<Use>>,
    scratch_uses: Vec<Option<Use>>,
}

impl Memory {
    fn new(builder: &Builder<'_, '_>) -> Self {
        let tensors = builder.graph.tensors.len();
        let mut memory = Self {
            buffers: Vec::new(),
            of_tensor: vec![None; tensors],
            tensor_uses: vec![None; tensors],
            scratch_uses: vec![None; builder.scratch.len()],
        };
        for (index, step) in builder.steps.iter().enumerate() {
            match step {
                DraftStep::Dispatch { draft, .. } => {
                    draft.operands.iter().for_each(|&operand| memory.note(operand, index))
                }
                DraftStep::Copy { from, to, .. } => {
                    [*from, *to].into_iter().for_each(|tensor| memory.note(Operand::Tensor(tensor), index));
                }
            }
        }
        // Outputs are read after the last step. One that no step writes keeps a buffer of its own.
        for output in &builder.graph.outputs {
            if let GraphOutput::Tensor { tensor, .. } = output {
                let first = memory.tensor_uses[tensor.index()].map_or(0, |used| used.first);
                memory.tensor_uses[tensor.index()] = Some(Use { first, last: builder.steps.len() });
            }
        }
        memory
    }

    fn note(&mut self, operand: Operand, step: usize) {
        let used = match operand {
            Operand::Tensor(tensor) => &mut self.tensor_uses[tensor.index()],
            Operand::Scratch(index) => &mut self.scratch_uses[index],
        };
        let first = used.map_or(step, |used| used.first);
        *used = Some(Use { first, last: step });
    }

    /// Buffers for inputs, constants and state, which keep their content. Equal constants share one.
    fn place_tensors(&mut self, builder: &Builder<'_, '_>) -> Result<()> {
        let mut constants: HashMap<(*const u8, usize), BufferId> = HashMap::new();
        for (index, tensor) in builder.graph.tensors.iter().enumerate() {
            if self.tensor_uses[index].is_none() {
                continue;
            }
            let id = TensorId(index as u32);
            let role = match tensor.origin {
                Origin::Input(input) => Role::Input(input),
                Origin::State(_) => Role::State(id),
                Origin::Constant(bytes) => {
                    if let Some(&shared) = constants.get(&(bytes.as_ptr(), bytes.len())) {
                        self.of_tensor[index] = Some(shared);
                        continue;
                    }
                    Role::Constant(id)
                }
                Origin::Computed => continue,
            };
            let buffer = self.buffer(builder, tensor.size_bytes(), role, &builder.name(id))?;
            self.of_tensor[index] = Some(buffer);
            if let Origin::Constant(bytes) = tensor.origin {
                constants.insert((bytes.as_ptr(), bytes.len()), buffer);
            }
        }
        Ok(())
    }

    /// Shares buffers among computed tensors and scratch by lifetime. Returns the scratch buffers.
    fn share(&mut self, builder: &Builder<'_, '_>) -> Result<Vec<BufferId>> {
        let mut lifetimes = Vec::new();
        let mut operands = Vec::new();
        for (index, tensor) in builder.graph.tensors.iter().enumerate() {
            if let (Origin::Computed, Some(used)) = (&tensor.origin, self.tensor_uses[index]) {
                self.check(builder, tensor.size_bytes(), (&builder.name(TensorId(index as u32)), ""))?;
                lifetimes.push(Lifetime { first: used.first, last: used.last, size_bytes: tensor.size_bytes() });
                operands.push(Operand::Tensor(TensorId(index as u32)));
            }
        }
        for (index, scratch) in builder.scratch.iter().enumerate() {
            if let Some(used) = self.scratch_uses[index] {
                self.check(builder, scratch.size_bytes, (&scratch.what, &scratch.hint))?;
                lifetimes.push(Lifetime { first: used.first, last: used.last, size_bytes: scratch.size_bytes });
                operands.push(Operand::Scratch(index));
            }
        }
        let slots = memory::assign(&lifetimes);
        let first_slot = self.buffers.len() as u32;
        for &size_bytes in &slots.size_bytes {
            self.buffer(builder, size_bytes, Role::Shared, "a shared buffer")?;
        }
        let mut scratch = vec![BufferId(u32::MAX); builder.scratch.len()];
        for (operand, slot) in operands.into_iter().zip(slots.of) {
            let buffer = BufferId(first_slot + slot as u32);
            match operand {
                Operand::Tensor(tensor) => self.of_tensor[tensor.index()] = Some(buffer),
                Operand::Scratch(index) => scratch[index] = buffer,
            }
        }
        Ok(scratch)
    }

    fn check(&self, builder: &Builder<'_, '_>, size_bytes: u64, (what, hint): (&str, &str)) -> Result<()> {
        let buffer = BufferPlan { size_bytes: size_bytes.next_multiple_of(16), role: Role::Shared };
        limits::check_buffer(&builder.facts.limits, what, &buffer, hint)
    }

    fn buffer(&mut self, builder: &Builder<'_, '_>, size_bytes: u64, role: Role, what: &str) -> Result<BufferId> {
        let buffer = BufferPlan { size_bytes: size_bytes.next_multiple_of(16), role };
        limits::check_buffer(&builder.facts.limits, what, &buffer, "")?;
        self.buffers.push(buffer);
        Ok(BufferId(self.buffers.len() as u32 - 1))
    }
}
