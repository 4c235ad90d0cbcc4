//! Linear layers and quantised tables on their way into a graph.

use torchlight_pte::VkValueId;

use super::{Args, DelegateLowering};
use crate::error::Result;
use crate::graph::{IntArg, Linear, LinearQ4, Operator, Quantised};

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
