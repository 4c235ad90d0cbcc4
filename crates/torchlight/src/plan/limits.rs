//! What a plan refuses because the device would: buffers, workgroups and grids, with the numbers.

use super::{BufferPlan, DeviceLimits};
use crate::error::{Error, Result};
use crate::graph::Origin;
use crate::kernels::{Grid, Variant};
use crate::tensor::DType;

/// Kernels index elements with u32, and a folded grid may overshoot its last row.
const MAX_ELEMENTS: u64 = u32::MAX as u64 - 65535 * 256;

/// Holds a buffer against the device's limits. `what` names it; `hint` says what would fit, or is empty.
pub(super) fn check_buffer(limits: &DeviceLimits, what: &str, buffer: &BufferPlan, hint: &str) -> Result<()> {
    let limit = limits.largest_binding().min(MAX_ELEMENTS * 4);
    if buffer.size_bytes <= limit {
        return Ok(());
    }
    Err(Error::Limits {
        what: what.to_owned(),
        needed: buffer.size_bytes,
        unit: "bytes in one buffer",
        limit,
        hint: hint.to_owned(),
    })
}

/// What would help where a tensor is too large for a buffer, or nothing.
pub(super) fn way_out(limits: &DeviceLimits, origin: &Origin<'_>, dtype: DType) -> &'static str {
    match (origin, dtype) {
        _ if limits.largest_binding() == DeviceLimits::WEBGPU_DEFAULTS.largest_binding() => {
            "; these are WebGPU's default limits, and those of the adapter may be larger"
        }
        (Origin::State(_), DType::F32) => "; a cache of f16 takes half of it",
        (Origin::Constant(_) | Origin::Joined(_), DType::F32) => "; weights of 4 bits take an eighth of it",
        _ => "",
    }
}

/// Holds the elements of a tensor against what kernels can count: smaller elements than f32 may be more than a buffer of f32
/// has.
pub(super) fn check_elements(what: &str, elements: u64) -> Result<()> {
    if elements <= MAX_ELEMENTS {
        return Ok(());
    }
    let hint = String::new();
    Err(Error::Limits { what: what.to_owned(), needed: elements, unit: "elements", limit: MAX_ELEMENTS, hint })
}

/// Holds a kernel variant against the device's limits.
pub(super) fn check_variant(limits: &DeviceLimits, variant: &Variant) -> Result<()> {
    let refuse = |needed: u32, unit: &'static str, limit: u32| {
        let what = format!("kernel {}", variant.label);
        Err(Error::Limits { what, needed: needed.into(), unit, limit: limit.into(), hint: String::new() })
    };
    let (bytes, size) = (variant.workgroup_bytes, variant.workgroup_size);
    if bytes > limits.max_compute_workgroup_storage_size {
        return refuse(bytes, "bytes of workgroup memory", limits.max_compute_workgroup_storage_size);
    }
    if size > limits.max_compute_invocations_per_workgroup {
        return refuse(size, "invocations a workgroup", limits.max_compute_invocations_per_workgroup);
    }
    Ok(())
}

/// Holds a grid at its upper bound against the device's limits.
pub(super) fn check_grid(limits: &DeviceLimits, label: &str, workgroups: u64) -> Result<()> {
    let limit = limits.max_compute_workgroups_per_dimension;
    if Grid::fold(workgroups, limit).is_some() {
        return Ok(());
    }
    Err(Error::Limits {
        what: format!("kernel {label}"),
        needed: workgroups,
        unit: "workgroups",
        limit: u64::from(limit) * u64::from(limit),
        hint: String::new(),
    })
}
