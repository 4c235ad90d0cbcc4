//! The dispatch that a plain operator becomes.

use super::builder::{Builder, Draft, Operand};
use super::launch::Launch;
use crate::graph::{ApplyRotaryEmb, Embedding, RmsNorm, Sigmoid, SliceCopy, TensorId};
use crate::kernels::{Lane, Variant, apply_rotary_emb, embedding, rms_norm, slice_copy, unary};

impl Builder<'_, '_> {
    pub(super) fn rms_norm(&self, op: &RmsNorm) -> Draft {
        let width = self.graph.tensor(op.weight).bound.elements() as u32;
        let cut = if self.is_static(op.weight) { rms_norm::Cut::new(width) } else { rms_norm::Cut::ANY };
        let launch = Launch::RmsNorm { x: op.x, weight: op.weight, cut, eps: op.eps };
        draft(rms_norm::variant(cut), &[op.x, op.weight, op.out], launch)
    }

    pub(super) fn sigmoid(&self, op: &Sigmoid) -> Draft {
        let function = unary::Function::Sigmoid;
        draft(unary::variant(function), &[op.x, op.out], Launch::Unary { x: op.x, function })
    }

    pub(super) fn apply_rotary_emb(&self, op: &ApplyRotaryEmb) -> Draft {
        let tensors = [op.q, op.k, op.cosines, op.sines, op.q_out, op.k_out];
        draft(apply_rotary_emb::variant(), &tensors, Launch::ApplyRotaryEmb { q: op.q, k: op.k })
    }

    pub(super) fn embedding(&self, op: &Embedding) -> Draft {
        let width = self.graph.tensor(op.table).bound.as_slice().last().copied().unwrap_or(1);
        let lane = if self.is_static(op.table) { Lane::dividing(width) } else { Lane::One };
        let launch = Launch::Embedding { table: op.table, ids: op.ids, lane };
        draft(embedding::variant(lane), &[op.table, op.ids, op.out], launch)
    }

    pub(super) fn slice_copy(&self, op: &SliceCopy) -> Draft {
        let behind = self.graph.tensor(op.x).bound.as_slice().iter().skip(op.dim + 1).product();
        let lane = if self.is_static(op.x) { Lane::dividing(behind) } else { Lane::One };
        let launch = Launch::SliceCopy { x: op.x, dim: op.dim, part: op.part, lane };
        let largest = self.graph.tensor(op.out).bound.elements() / u64::from(lane.elements());
        let max_workgroups = largest.div_ceil(u64::from(slice_copy::WORKGROUP_SIZE));
        Draft { max_workgroups: Some(max_workgroups), ..draft(slice_copy::variant(lane), &[op.x, op.out], launch) }
    }
}

/// A dispatch over whole tensors, the only way to serve its node.
fn draft(variant: Variant, tensors: &[TensorId], launch: Launch) -> Draft {
    let operands = tensors.iter().copied().map(Operand::Tensor).collect();
    Draft { variant, operands, alternative: None, launch, max_workgroups: None }
}
