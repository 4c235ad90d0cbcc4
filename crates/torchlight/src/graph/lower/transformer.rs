//! Norms, activations and embeddings: from arguments to operators.

use super::{Args, DelegateLowering};
use crate::error::Result;
use crate::graph::{ApplyRotaryEmb, Embedding, Operator, RmsNorm, Sigmoid};

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

pub(super) fn apply_rotary_emb(
    lowering: &mut DelegateLowering<'_, '_, '_>,
    args: Args<'_>,
) -> Result<Option<Operator>> {
    let [q, k, cosines, sines, outs] = args.exactly()?;
    let &[q_out, k_out] = args.list(lowering, outs)? else {
        return Err(args.malformed("wants two results".into()));
    };
    Ok(Some(Operator::ApplyRotaryEmb(ApplyRotaryEmb {
        q: lowering.tensor(q)?,
        k: lowering.tensor(k)?,
        cosines: lowering.tensor(cosines)?,
        sines: lowering.tensor(sines)?,
        q_out: lowering.tensor(q_out)?,
        k_out: lowering.tensor(k_out)?,
    })))
}

pub(super) fn embedding(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    // The other arguments are about gradients.
    let [table, ids, _padding_idx, _scale_grad_by_freq, _sparse, out] = args.exactly()?;
    let ids = lowering.tensor(ids)?;
    Ok(Some(Operator::Embedding(Embedding {
        table: lowering.tensor(table)?,
        ids,
        ids_input: lowering.graph.input_of(ids),
        out: lowering.tensor(out)?,
    })))
}
