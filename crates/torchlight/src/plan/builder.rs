//! From a graph to a plan: operators to dispatches, tensors to buffers.

use std::collections::HashMap;

use super::aliases::Aliases;
use super::buffers::{Memory, Scratch};
use super::caches::tensor_dtypes;
use super::launch::{Launch, rows};
use super::{
    Alternative, BufferPlan, Choice, DeviceFacts, Dispatch, LinearChoice, PARAMS_SLOT_BYTES, Plan, PlanOptions, Role,
    Step, VariantId, limits,
};
use crate::error::Result;
use crate::graph::{Add, Graph, Live, Mul, Operator, Origin, TensorId, UpdateCache};
use crate::kernels::{Variant, Width, binary, update_cache};
use crate::tensor::DType;

/// A buffer that a dispatch needs, before memory is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Tensor(TensorId),
    Scratch(usize),
    /// The plan's counters, of which the dispatch needs the first few.
    Counters,
}

/// A dispatch, before memory is shared out.
pub(super) struct Draft {
    pub(super) variant: Variant,
    pub(super) operands: Vec<Operand>,
    pub(super) alternative: Option<Alternative>,
    pub(super) launch: Launch,
    /// Workgroups with every size at its upper bound, where that does not follow from the graph's bounds.
    pub(super) max_workgroups: Option<u64>,
}

/// A draft of which all but the buffers is settled.
pub(super) enum DraftStep {
    Dispatch { node: u32, draft: Box<Draft>, max_workgroups: u64 },
    Copy { node: u32, from: TensorId, to: TensorId },
}

pub(super) struct Builder<'g, 'a> {
    pub(super) graph: &'g Graph<'a>,
    pub(super) facts: &'g DeviceFacts,
    pub(super) options: PlanOptions,
    pub(super) dtypes: Vec<DType>,
    pub(super) aliases: Aliases,
    pub(super) steps: Vec<DraftStep>,
    pub(super) scratch: Vec<Scratch>,
    pub(super) choices: Vec<Choice>,
    pub(super) linears: Vec<LinearChoice>,
    /// Counters that some dispatch needs.
    pub(super) counters: u64,
}

/// Plans a graph for a device.
pub(super) fn build(graph: &Graph<'_>, facts: &DeviceFacts, options: PlanOptions) -> Result<Plan> {
    let mut builder = Builder {
        graph,
        facts,
        options,
        dtypes: tensor_dtypes(graph, options.kv)?,
        aliases: Aliases::of(graph),
        steps: Vec::new(),
        scratch: Vec::new(),
        choices: Vec::new(),
        linears: Vec::new(),
        counters: 0,
    };
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
                let size_bytes = self.size_bytes(id).next_multiple_of(16);
                let buffer = BufferPlan { size_bytes, role: Role::Shared };
                let hint = limits::way_out(&self.facts.limits, &self.graph.tensor(id).origin, self.dtypes[id.index()]);
                limits::check_buffer(&self.facts.limits, &self.name(id), &buffer, hint)?;
                limits::check_elements(&self.name(id), self.graph.tensor(id).bound.elements())?;
            }
        }
        Ok(())
    }

    /// Bytes of a tensor on the device, at its upper bound.
    pub(super) fn size_bytes(&self, id: TensorId) -> u64 {
        let element_bytes = self.dtypes[id.index()].size_bytes() as u64;
        self.graph.tensor(id).bound.elements().saturating_mul(element_bytes)
    }

    /// A tensor in messages.
    pub(super) fn name(&self, id: TensorId) -> String {
        let tensor = self.graph.tensor(id);
        let what = match tensor.origin {
            Origin::Input(input) => format!("input {input}"),
            Origin::State(_) => format!("cache {}", id.0),
            Origin::Constant(_) | Origin::Joined(_) => format!("constant {}", id.0),
            Origin::Computed => "a tensor".to_owned(),
        };
        format!("{what} of shape {}", tensor.bound)
    }

    fn node(&mut self, node: u32, operator: &Operator) -> Result<()> {
        let drafts = match operator {
            Operator::SdpaWithKvCache(op) => self.sdpa_with_kv_cache(node, op)?,
            Operator::Attend(op) => self.attend(node, op)?,
            Operator::UpdateCache(op) => vec![self.update_cache(op)],
            Operator::Add(Add { a, b, alpha, out }) => vec![self.binary(binary::Function::Add, [*a, *b, *out], *alpha)],
            Operator::Mul(Mul { a, b, out }) => vec![self.binary(binary::Function::Mul, [*a, *b, *out], 1.0)],
            Operator::CopyTensor(op) => {
                self.steps.push(DraftStep::Copy { node, from: op.from, to: op.to });
                vec![]
            }
            Operator::RmsNorm(op) => vec![self.rms_norm(op)],
            Operator::Sigmoid(op) => vec![self.sigmoid(op)],
            Operator::ApplyRotaryEmb(op) => vec![self.apply_rotary_emb(op)],
            Operator::Embedding(op) => vec![self.embedding(op)],
            Operator::ViewCopy(op) => {
                if self.aliases.storage(op.out) == op.out {
                    self.steps.push(DraftStep::Copy { node, from: op.x, to: op.out });
                }
                vec![]
            }
            Operator::SliceCopy(op) => vec![self.slice_copy(op)],
            // Evaluated by the host before a run is encoded.
            Operator::SymSize(_) | Operator::SelectAsSymInt(_) | Operator::AddSymInt(_) => vec![],
            Operator::Linear(op) => self.projection(node, &op.into())?,
            Operator::LinearQ4(op) => self.projection(node, &op.into())?,
            Operator::Projection(op) => self.projection(node, op)?,
            Operator::EmbeddingQ4(op) => vec![self.embedding_q4(op)],
            Operator::RotaryUpdateCache(op) => vec![self.rotary_update_cache(op)],
        };
        for draft in drafts {
            limits::check_variant(&self.facts.limits, &draft.variant)?;
            let max_workgroups = draft.max_workgroups.unwrap_or_else(|| self.max_workgroups(&draft));
            limits::check_grid(&self.facts.limits, draft.variant.label, max_workgroups)?;
            self.steps.push(DraftStep::Dispatch { node, draft: Box::new(draft), max_workgroups });
        }
        Ok(())
    }

    pub(super) fn update_cache(&self, op: &UpdateCache) -> Draft {
        let row_elements = rows(self.graph.tensor(op.value).bound, 0).row_elements;
        Draft {
            variant: update_cache::variant(Width::dividing(row_elements, self.options.kv), self.options.kv),
            operands: vec![Operand::Tensor(op.value), Operand::Tensor(op.cache)],
            alternative: None,
            launch: Launch::UpdateCache { value: op.value, input_pos: op.input_pos, kv: self.options.kv },
            max_workgroups: None,
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
            alternative: None,
            launch: Launch::Binary { a, b, out, function, alpha, dense },
            max_workgroups: None,
        }
    }

    /// Whether a tensor has its bound's shape in every run.
    pub(super) fn is_static(&self, tensor: TensorId) -> bool {
        match self.graph.tensor(tensor).origin {
            Origin::Input(index) => !self.graph.inputs[index].dynamic,
            Origin::Constant(_) | Origin::Joined(_) | Origin::State(_) => true,
            Origin::Computed => self.graph.inputs.iter().all(|input| !input.dynamic),
        }
    }

    /// The workgroups of a draft with every live size at its bound.
    fn max_workgroups(&self, draft: &Draft) -> u64 {
        let mut slot = [0; PARAMS_SLOT_BYTES as usize];
        match draft.launch {
            // The position does not matter, and one written in the program may lie outside the cache: that is refused
            // when it runs.
            Launch::UpdateCache { value, kv, .. } => {
                update_cache::workgroups(rows(self.graph.tensor(value).bound, 0), kv)
            }
            _ => draft.launch.resolve(&Live::new(self.graph), &mut slot),
        }
    }

    fn finish(self) -> Result<Plan> {
        let mut memory = Memory::new(&self);
        memory.place_tensors(&self)?;
        let scratch = memory.share(&self)?;
        memory.place_aliases(&self);
        let counters = memory.counters(&self)?;
        let mut plan = Plan {
            variants: Vec::new(),
            buffers: memory.buffers,
            tensor_buffers: memory.of_tensor,
            steps: Vec::with_capacity(self.steps.len()),
            max_workgroups_per_dimension: self.facts.limits.max_compute_workgroups_per_dimension,
            tensor_dtypes: self.dtypes,
            choices: self.choices,
            linears: self.linears,
        };
        let mut ids: HashMap<Variant, VariantId> = HashMap::new();
        for step in self.steps {
            let step = match step {
                DraftStep::Copy { node, from, to } => {
                    // Both hold the live elements; of a view either may have the larger bound.
                    let size_bytes = [from, to].map(|tensor| plan.size_bytes(self.graph, tensor));
                    let size_bytes = size_bytes[0].min(size_bytes[1]).next_multiple_of(16);
                    let [from, to] = [from, to].map(|tensor| plan.tensor_buffers[tensor.index()]);
                    let (Some(from), Some(to)) = (from, to) else { continue };
                    Step::Copy { from, to, size_bytes, node }
                }
                DraftStep::Dispatch { node, draft, max_workgroups } => {
                    let buffer = |operand: &Operand| match operand {
                        Operand::Tensor(tensor) => plan.tensor_buffers[tensor.index()],
                        Operand::Scratch(index) => Some(scratch[*index]),
                        Operand::Counters => counters,
                    };
                    let buffers = draft.operands.iter().filter_map(buffer).collect();
                    let variants = &mut plan.variants;
                    let Draft { variant, alternative, launch, .. } = *draft;
                    let variant = *ids.entry(variant).or_insert_with_key(|variant| {
                        variants.push(variant.clone());
                        VariantId(variants.len() as u32 - 1)
                    });
                    Step::Dispatch(Dispatch { variant, buffers, node, alternative, launch, max_workgroups })
                }
            };
            plan.steps.push(step);
        }
        Ok(plan)
    }
}
