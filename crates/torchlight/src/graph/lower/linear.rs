//! Linear layers and quantised tables on their way into a graph.

use torchlight_pte::{VkValue, VkValueId};

use super::{Args, DelegateLowering};
use crate::error::Result;
use crate::graph::{EmbeddingQ4, IntArg, Linear, LinearQ4, NibbleOrder, Operator, Origin, Quantised};

pub(super) fn linear(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [x, weight, bias, out] = args.exactly()?;
    Ok(Some(Operator::Linear(Linear {
        x: lowering.tensor(x)?,
        weight: lowering.tensor(weight)?,
        bias: args.optional_tensor(lowering, bias)?,
        out: lowering.tensor(out)?,
    })))
}

pub(super) fn linear_q4(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [x, weight, scales, group, bias, out] = args.exactly()?;
    Ok(Some(Operator::LinearQ4(LinearQ4 {
        x: lowering.tensor(x)?,
        weight: quantised(lowering, args, [weight, scales, group])?,
        bias: args.optional_tensor(lowering, bias)?,
        out: lowering.tensor(out)?,
    })))
}

fn quantised(
    lowering: &mut DelegateLowering<'_, '_, '_>,
    args: Args<'_>,
    [weight, scales, group]: [VkValueId; 3],
) -> Result<Quantised> {
    let IntArg::Known(size) = args.int(lowering, group)? else {
        return Err(args.unsupported("a live group size", "a group size written in the program"));
    };
    let group = u32::try_from(size).map_err(|_| args.malformed(format!("groups of {size} columns")))?;
    Ok(Quantised { weight: lowering.tensor(weight)?, scales: lowering.tensor(scales)?, group })
}

pub(super) fn embedding_q4(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [table, scales, group, ids, is_linear_weight, out] = args.exactly()?;
    let order = match lowering.delegate.values[is_linear_weight.0 as usize] {
        VkValue::Bool(true) => NibbleOrder::EvenLow,
        VkValue::Bool(false) => NibbleOrder::OddLow,
        ref other => return Err(args.malformed(format!("wants is_linear_weight true or false, got {other:?}"))),
    };
    let ids = lowering.tensor(ids)?;
    let ids_input = match lowering.graph.tensor(ids).origin {
        Origin::Input(input) => Some(input),
        _ => None,
    };
    let table = quantised(lowering, args, [table, scales, group])?;
    Ok(Some(Operator::EmbeddingQ4(EmbeddingQ4 { table, order, ids, ids_input, out: lowering.tensor(out)? })))
}
