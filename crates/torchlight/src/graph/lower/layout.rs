//! Views and slices: from arguments to operators.

use torchlight_pte::VkValue;

use super::{Args, DelegateLowering, VkValueId};
use crate::error::Result;
use crate::graph::{IntArg, Operator, Part, SliceCopy, ViewCopy, ViewShape};

pub(super) fn view_copy(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [x, sizes, out] = args.exactly()?;
    let sizes = match &lowering.delegate.values[sizes.0 as usize] {
        VkValue::IntList(sizes) => sizes.iter().copied().map(IntArg::Known).collect(),
        _ => {
            let sizes = args.list(lowering, sizes)?.to_vec();
            sizes.into_iter().map(|size| args.int(lowering, size)).collect::<Result<_>>()?
        }
    };
    let (x, out) = (lowering.tensor(x)?, lowering.tensor(out)?);
    Ok(Some(Operator::ViewCopy(ViewCopy { x, shape: ViewShape::Sizes(sizes), out })))
}

/// Other back ends change the layout of a tensor so; here it has one layout only.
pub(super) fn clone(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [x, _memory_format, out] = args.exactly()?;
    let (x, out) = (lowering.tensor(x)?, lowering.tensor(out)?);
    Ok(Some(Operator::ViewCopy(ViewCopy { x, shape: ViewShape::Same, out })))
}

pub(super) fn slice_copy(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [x, dim, start, end, step, out] = args.exactly()?;
    let x = lowering.tensor(x)?;
    let dim = args.dim(lowering, dim, x)?;
    let step = match args.int(lowering, step)? {
        IntArg::Known(step) => u32::try_from(step).ok().filter(|&step| step > 0),
        IntArg::Live(_) => None,
    };
    let step = step.ok_or_else(|| args.unsupported("a step below 1 or a live one", "steps from 1 on"))?;
    let start = bound(lowering, args, (start, 0))?;
    let end = bound(lowering, args, (end, i64::MAX))?;
    let part = Part::Range { start, end, step };
    Ok(Some(Operator::SliceCopy(SliceCopy { x, dim, part, out: lowering.tensor(out)? })))
}

pub(super) fn select_copy(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [x, dim, index, out] = args.exactly()?;
    let x = lowering.tensor(x)?;
    let dim = args.dim(lowering, dim, x)?;
    let part = Part::One(args.int(lowering, index)?);
    Ok(Some(Operator::SliceCopy(SliceCopy { x, dim, part, out: lowering.tensor(out)? })))
}

/// An end of a slice: an integer, or Null for where the dimension itself begins or ends.
fn bound(
    lowering: &mut DelegateLowering<'_, '_, '_>,
    args: Args<'_>,
    (value, default): (VkValueId, i64),
) -> Result<IntArg> {
    match lowering.delegate.values[value.0 as usize] {
        VkValue::Null => Ok(IntArg::Known(default)),
        _ => args.int(lowering, value),
    }
}
