//! `binary`: sums and products of two tensors, with broadcasting.

use bytemuck::{Pod, Zeroable};

use super::{Access, Bounds, Kernel, Needs, Variant, Work};
use crate::tensor::{Dims, MAX_RANK};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "binary",
    wgsl: include_str!("binary.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// `a + alpha * b`
    Add,
    /// `a * b`
    Mul,
}

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// Lanes of the result.
    pub lanes: u32,
    /// Dimensions of the result.
    pub rank: u32,
    /// Factor on b, for sums.
    pub alpha: f32,
    /// WGSL aligns the arrays to 16 bytes.
    pub padding: u32,
    /// Sizes of the result, outermost first.
    pub sizes: [u32; MAX_RANK],
    /// Elements from one place of `a` to the next, a dimension; 0 where `a` has size 1.
    pub a_strides: [u32; MAX_RANK],
    /// The same of `b`.
    pub b_strides: [u32; MAX_RANK],
}

/// The variant for a function. `dense` asks for equal shapes, and moves four elements at a time.
pub fn variant(function: Function, dense: bool) -> Variant {
    let (label, block) = match (function, dense) {
        (Function::Add, true) => (
            "binary_add",
            concat!(
                "alias Lanes = vec4<f32>;\nconst DENSE: bool = true;\n",
                "fn combine(a: Lanes, b: Lanes) -> Lanes { return a + params.alpha * b; }\n"
            ),
        ),
        (Function::Add, false) => (
            "binary_add",
            concat!(
                "alias Lanes = f32;\nconst DENSE: bool = false;\n",
                "fn combine(a: Lanes, b: Lanes) -> Lanes { return a + params.alpha * b; }\n"
            ),
        ),
        (Function::Mul, true) => (
            "binary_mul",
            concat!(
                "alias Lanes = vec4<f32>;\nconst DENSE: bool = true;\n",
                "fn combine(a: Lanes, b: Lanes) -> Lanes { return a * b; }\n"
            ),
        ),
        (Function::Mul, false) => (
            "binary_mul",
            concat!(
                "alias Lanes = f32;\nconst DENSE: bool = false;\n",
                "fn combine(a: Lanes, b: Lanes) -> Lanes { return a * b; }\n"
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

/// Two inputs and their result.
#[derive(Clone, Copy, Debug)]
pub struct Shapes {
    /// First input.
    pub a: Dims,
    /// Second input.
    pub b: Dims,
    /// Result: what `a` and `b` broadcast to.
    pub out: Dims,
}

impl Shapes {
    /// Whether nothing broadcasts.
    pub fn are_equal(&self) -> bool {
        self.a == self.out && self.b == self.out
    }
}

/// Params of a step; `dense` as the variant was made.
pub fn params(shapes: &Shapes, dense: bool, alpha: f32) -> Params {
    let elements = shapes.out.elements();
    let out = shapes.out.as_slice();
    let mut sizes = [1; MAX_RANK];
    sizes[..out.len()].copy_from_slice(out);
    Params {
        // Buffers are padded to 16 bytes, so a last lane of four may reach beyond the tensor.
        lanes: if dense { elements.div_ceil(4) } else { elements } as u32,
        rank: out.len() as u32,
        alpha,
        padding: 0,
        sizes,
        a_strides: strides(shapes.a, shapes.out),
        b_strides: strides(shapes.b, shapes.out),
    }
}

/// Workgroups of a step.
pub fn workgroups(shapes: &Shapes, dense: bool) -> u64 {
    u64::from(params(shapes, dense, 1.0).lanes).div_ceil(u64::from(WORKGROUP_SIZE))
}

/// What a step must do: read both inputs, write the result. A sum with a factor is two operations an element.
pub fn work(shapes: &Shapes, function: Function, alpha: f32) -> Work {
    let elements = shapes.out.elements();
    let operations = if function == Function::Add && alpha != 1.0 { 2 } else { 1 };
    Work { bytes: 4 * (shapes.a.elements() + shapes.b.elements() + elements), flops: operations * elements }
}

/// The strides of an input along the dimensions of a result, aligned at the end.
fn strides(input: Dims, out: Dims) -> [u32; MAX_RANK] {
    let (input, lead) = (input.as_slice(), out.as_slice().len() - input.as_slice().len());
    let mut strides = [0; MAX_RANK];
    let mut stride = 1;
    for (dim, &size) in input.iter().enumerate().rev() {
        strides[lead + dim] = if size == 1 { 0 } else { stride };
        stride *= size;
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcast_dimensions_have_stride_zero() {
        let dims = |sizes: &[u32]| Dims::new(sizes).unwrap();
        assert_eq!(strides(dims(&[1, 8]), dims(&[2, 3, 8]))[..3], [0, 0, 1]);
        assert_eq!(strides(dims(&[2, 1, 8]), dims(&[2, 3, 8]))[..3], [8, 0, 1]);
        assert_eq!(strides(dims(&[]), dims(&[4, 4]))[..2], [0, 0]);
        assert_eq!(strides(dims(&[5, 6, 7]), dims(&[5, 6, 7]))[..3], [42, 7, 1]);
    }

    #[test]
    fn work_reads_a_broadcast_input_once() {
        let dims = |sizes: &[u32]| Dims::new(sizes).unwrap();
        let shapes = Shapes { a: dims(&[2, 3, 8]), b: dims(&[1, 8]), out: dims(&[2, 3, 8]) };
        assert_eq!(work(&shapes, Function::Add, 2.0), Work { bytes: 4 * (48 + 8 + 48), flops: 96 });
        assert_eq!(work(&shapes, Function::Add, 1.0).flops, 48);
        assert_eq!(work(&shapes, Function::Mul, 1.0).flops, 48);
    }
}
