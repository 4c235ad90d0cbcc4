//! Linear layers and quantised tables on their way into a graph.

use super::{Args, DelegateLowering};
use crate::error::Result;
use crate::graph::{Linear, Operator};

pub(super) fn linear(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [x, weight, bias, out] = args.exactly()?;
    Ok(Some(Operator::Linear(Linear {
        x: lowering.tensor(x)?,
        weight: lowering.tensor(weight)?,
        bias: args.optional_tensor(lowering, bias)?,
        out: lowering.tensor(out)?,
    })))
}
