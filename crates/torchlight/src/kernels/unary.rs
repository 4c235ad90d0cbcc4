//! `unary`: a function of each element.

use bytemuck::{Pod, Zeroable};

use super::{Access, Bounds, Kernel, Needs, Variant, Work};
use crate::tensor::Dims;

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "unary",
    wgsl: include_str!("unary.wgsl"),
    bindings: &[Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// `1 / (1 + exp(-x))`
    Sigmoid,
}

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// Lanes of four elements; the last one may reach into the padding.
    pub lanes: u32,
}

/// The variant for a function.
pub fn variant(function: Function) -> Variant {
    let (label, block) = match function {
        // The exponential of a negative number never overflows: shaders may assume that nothing is infinite.
        Function::Sigmoid => (
            "unary_sigmoid",
            concat!(
                "fn apply(x: Lanes) -> Lanes { let t = exp(-abs(x)); ",
                "return select(t, Lanes(1.0), x >= Lanes(0.0)) / (1.0 + t); }\n"
            ),
        ),
    };
    Variant {
        kernel: &KERNEL,
        label,
        block: block.into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: 0,
        needs: Needs::default(),
    }
}

/// Params of a step.
pub fn params(shape: Dims) -> Params {
    Params { lanes: shape.elements().div_ceil(4) as u32 }
}

/// Workgroups of a step.
pub fn workgroups(shape: Dims) -> u64 {
    u64::from(params(shape).lanes).div_ceil(u64::from(WORKGROUP_SIZE))
}

/// What a step must do: read and write each element; a sigmoid is a negation, an exponential, a sum and a division.
pub fn work(shape: Dims, function: Function) -> Work {
    let elements = shape.elements();
    let operations = match function {
        Function::Sigmoid => 4,
    };
    Work { bytes: 8 * elements, flops: operations * elements }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_reads_and_writes_each_element() {
        let shape = Dims::new(&[3, 7]).unwrap();
        assert_eq!(work(shape, Function::Sigmoid), Work { bytes: 168, flops: 84 });
        assert_eq!(params(shape).lanes, 6);
    }
}
