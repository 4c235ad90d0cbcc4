//! Norms, activations and embeddings: from arguments to operators.

use super::{Args, DelegateLowering};
use crate::error::Result;
use crate::graph::{Operator, RmsNorm, Sigmoid};

pub(super) fn rms_norm(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [x, weight, eps, out] = args.exactly()?;
    Ok(Some(Operator::RmsNorm(RmsNorm {
        x: lowering.tensor(x)?,
        weight: lowering.tensor(weight)?,
        eps: args.number(lowering, eps)? as f32,
        out: lowering.tensor(out)?,
    })))
}

pub(super) fn sigmoid(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [x, out] = args.exactly()?;
    Ok(Some(Operator::Sigmoid(Sigmoid { x: lowering.tensor(x)?, out: lowering.tensor(out)? })))
}
