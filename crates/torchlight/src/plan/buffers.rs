//! From tensors and scratch to buffers: each of its own, or shared by lifetime.

use std::collections::HashMap;

use super::builder::{Builder, DraftStep, Operand};
use super::memory::{self, Lifetime};
use super::{BufferId, BufferPlan, Role, limits};
use crate::error::Result;
use crate::graph::{GraphOutput, Origin, Tensor, TensorId};

/// Memory that an operator needs between its own dispatches.
pub(super) struct Scratch {
    pub(super) size_bytes: u64,
    /// It in messages.
    pub(super) what: String,
    /// What would fit where it does not, or nothing; starts with "; ".
    pub(super) hint: String,
}

/// Which bytes of the program a constant has: equal where two have the same.
fn places(tensor: &Tensor<'_>) -> Vec<(u64, *const u8, usize)> {
    tensor.segments().map(|(offset, bytes)| (offset, bytes.as_ptr(), bytes.len())).collect()
}

/// The steps between which something must be kept.
#[derive(Clone, Copy)]
struct Use {
    first: usize,
    last: usize,
}

/// Buffers on their way into a plan.
pub(super) struct Memory {
    pub(super) buffers: Vec<BufferPlan>,
    pub(super) of_tensor: Vec<Option<BufferId>>,
    tensor_uses: Vec<Option<Use>>,
    scratch_uses: Vec<Option<Use>>,
}

impl Memory {
    pub(super) fn new(builder: &Builder<'_, '_>) -> Self {
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
                    draft.operands.iter().for_each(|&operand| memory.note(builder, operand, index))
                }
                DraftStep::Copy { from, to, .. } => {
                    [*from, *to].into_iter().for_each(|tensor| memory.note(builder, Operand::Tensor(tensor), index));
                }
            }
        }
        // Outputs are read after the last step. One that no step writes keeps a buffer of its own.
        for output in &builder.graph.outputs {
            if let GraphOutput::Tensor { tensor, .. } = output {
                let tensor = builder.aliases.storage(*tensor);
                let first = memory.tensor_uses[tensor.index()].map_or(0, |used| used.first);
                memory.tensor_uses[tensor.index()] = Some(Use { first, last: builder.steps.len() });
            }
        }
        memory
    }

    fn note(&mut self, builder: &Builder<'_, '_>, operand: Operand, step: usize) {
        let used = match operand {
            Operand::Tensor(tensor) => &mut self.tensor_uses[builder.aliases.storage(tensor).index()],
            Operand::Scratch(index) => &mut self.scratch_uses[index],
            Operand::Counters => return,
        };
        let first = used.map_or(step, |used| used.first);
        *used = Some(Use { first, last: step });
    }

    /// Buffers for inputs, constants and state, which keep their content. Equal constants share one.
    pub(super) fn place_tensors(&mut self, builder: &Builder<'_, '_>) -> Result<()> {
        let mut constants: HashMap<Vec<(u64, *const u8, usize)>, BufferId> = HashMap::new();
        for (index, tensor) in builder.graph.tensors.iter().enumerate() {
            if self.tensor_uses[index].is_none() {
                continue;
            }
            let id = TensorId(index as u32);
            let role = match tensor.origin {
                Origin::Input(input) => Role::Input(input),
                Origin::State(_) => Role::State(id),
                Origin::Constant(_) | Origin::Joined(_) => {
                    if let Some(&shared) = constants.get(&places(tensor)) {
                        self.of_tensor[index] = Some(shared);
                        continue;
                    }
                    Role::Constant(id)
                }
                Origin::Computed => continue,
            };
            let buffer = self.buffer(builder, builder.size_bytes(id), role, &builder.name(id))?;
            self.of_tensor[index] = Some(buffer);
            if let Role::Constant(_) = role {
                constants.insert(places(tensor), buffer);
            }
        }
        Ok(())
    }

    /// Shares buffers among computed tensors and scratch by lifetime. Returns the scratch buffers.
    pub(super) fn share(&mut self, builder: &Builder<'_, '_>) -> Result<Vec<BufferId>> {
        let mut lifetimes = Vec::new();
        let mut operands = Vec::new();
        for (index, tensor) in builder.graph.tensors.iter().enumerate() {
            if let (Origin::Computed, Some(used)) = (&tensor.origin, self.tensor_uses[index]) {
                let id = TensorId(index as u32);
                let size_bytes = builder.size_bytes(id);
                self.check(builder, size_bytes, (&builder.name(id), ""))?;
                lifetimes.push(Lifetime { first: used.first, last: used.last, size_bytes });
                operands.push(Operand::Tensor(id));
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
                Operand::Counters => {}
            }
        }
        Ok(scratch)
    }

    /// Gives every view the buffer of what it views.
    pub(super) fn place_aliases(&mut self, builder: &Builder<'_, '_>) {
        for (tensor, storage) in builder.aliases.shared() {
            self.of_tensor[tensor.index()] = self.of_tensor[storage.index()];
        }
    }

    /// The buffer of the counters, where some dispatch needs any.
    pub(super) fn counters(&mut self, builder: &Builder<'_, '_>) -> Result<Option<BufferId>> {
        let counters = builder.counters;
        let buffer = || self.buffer(builder, 4 * counters, Role::Counters, "counters of attention");
        (counters > 0).then(buffer).transpose()
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
