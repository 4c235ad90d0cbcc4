//! The operators that move elements or give them another shape, and compute nothing.

use super::{Graph, GraphBuilder, IntArg, Live, Operator, Origin, SymSize, TensorId};
use crate::error::{Error, Result};
use crate::tensor::{Dims, MAX_RANK};

/// `view_copy` and `clone`: the same elements in the same order, in another shape or in the same one.
///
/// The result shares its bytes with `x` where nobody can tell; otherwise they are copied.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewCopy {
    /// What is viewed.
    pub x: TensorId,
    /// The shape of the result.
    pub shape: ViewShape,
    /// The same elements.
    pub out: TensorId,
}

/// The shape of a view.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewShape {
    /// That of what is viewed: a clone.
    Same,
    /// These sizes, of which one may be -1: it is what the others leave.
    Sizes(Vec<IntArg>),
}

impl ViewCopy {
    pub(super) fn name(&self) -> &'static str {
        match self.shape {
            ViewShape::Same => "clone",
            ViewShape::Sizes(_) => "view_copy",
        }
    }

    pub(super) fn infer(&self, node: u32, live: &mut Live) -> Result<()> {
        let x = live.dims(self.x);
        let dims = match &self.shape {
            ViewShape::Same => x,
            ViewShape::Sizes(sizes) => {
                viewed(x, sizes, live).map_err(|detail| Error::Shape { operator: self.name(), node, detail })?
            }
        };
        live.set_dims(self.out, dims);
        Ok(())
    }
}

/// The shape that sizes give to the elements of `x`.
fn viewed(x: Dims, sizes: &[IntArg], live: &Live) -> std::result::Result<Dims, String> {
    let mut shape = [1; MAX_RANK];
    let too_many = || format!("{} sizes are more than {MAX_RANK}", sizes.len());
    let shape = shape.get_mut(..sizes.len()).ok_or_else(too_many)?;
    let (mut free, mut others) = (None, 1u64);
    for (dim, (size, &arg)) in shape.iter_mut().zip(sizes).enumerate() {
        match live.int(arg) {
            -1 if free.is_none() => free = Some(dim),
            known => {
                let known = u32::try_from(known).ok().filter(|&known| known > 0);
                *size = known.ok_or_else(|| format!("size {dim} of the view is {}", live.int(arg)))?;
                others = others.saturating_mul((*size).into());
            }
        }
    }
    let elements = x.elements();
    if let Some(dim) = free {
        let left = elements / others;
        shape[dim] = u32::try_from(left).map_err(|_| format!("size {dim} of the view is {left}"))?;
        others = others.saturating_mul(left);
    }
    // The rank was checked above.
    let dims = Dims::new(shape).unwrap_or(x);
    if others != elements {
        return Err(format!("x {x} has {elements} elements, the view {dims} has {others}"));
    }
    Ok(dims)
}

/// `slice_copy` and `select_copy`: a part of a tensor along one dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceCopy {
    /// Whose part.
    pub x: TensorId,
    /// Along which dimension.
    pub dim: usize,
    /// Which part.
    pub part: Part,
    /// The part.
    pub out: TensorId,
}

/// A part of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Every `step`th position from `start` on and before `end`. Both count from the end of the live size where they are
    /// negative, and are clamped to it.
    Range {
        /// The first position.
        start: IntArg,
        /// The position behind the last.
        end: IntArg,
        /// From one position to the next; at least 1.
        step: u32,
    },
    /// One position, without its dimension; it counts from the end of the live size where it is negative.
    One(IntArg),
}

impl Part {
    /// The first position and the number of them in a dimension of a live size; `None` where a part is empty or outside.
    pub(crate) fn resolve(self, size: u32, live: &Live) -> Option<(u32, u32)> {
        let size = i64::from(size);
        let from_end = |position: i64| if position < 0 { position.saturating_add(size) } else { position };
        let (first, count) = match self {
            Self::Range { start, end, step } => {
                let [start, end] = [start, end].map(|bound| from_end(live.int(bound)).clamp(0, size));
                (start, ((end - start).max(0) as u64).div_ceil(u64::from(step)))
            }
            Self::One(index) => (from_end(live.int(index)), 1),
        };
        let is_inside = (0..size).contains(&first) && count > 0;
        is_inside.then_some((first as u32, count as u32))
    }
}

impl SliceCopy {
    pub(super) fn name(&self) -> &'static str {
        match self.part {
            Part::Range { .. } => "slice_copy",
            Part::One(_) => "select_copy",
        }
    }

    pub(super) fn infer(&self, node: u32, live: &mut Live) -> Result<()> {
        let x = live.dims(self.x);
        let size = x.as_slice().get(self.dim).copied().unwrap_or(0);
        let (operator, dim) = (self.name(), self.dim);
        let Some((_, count)) = self.part.resolve(size, live) else {
            return Err(match self.part {
                Part::Range { start, end, .. } => {
                    Error::EmptySlice { operator, node, start: live.int(start), end: live.int(end), size }
                }
                Part::One(index) => {
                    let detail = format!("index {} is outside dimension {dim} of {x}", live.int(index));
                    Error::Shape { operator, node, detail }
                }
            });
        };
        let mut sizes = [1; MAX_RANK];
        let rank = x.as_slice().len();
        sizes[..rank].copy_from_slice(x.as_slice());
        sizes[dim] = count;
        let sizes = match self.part {
            Part::Range { .. } => &sizes[..rank],
            Part::One(_) => {
                sizes[dim..rank].rotate_left(1);
                &sizes[..rank - 1]
            }
        };
        live.set_dims(self.out, Dims::new(sizes).unwrap_or(x));
        Ok(())
    }
}

impl<'a> GraphBuilder<'a> {
    /// The elements of `x` in another shape, with an upper bound on it.
    ///
    /// # Errors
    /// As [`Self::input`], for the result.
    pub fn view_copy(&mut self, x: TensorId, sizes: &[IntArg], bound: &[u32]) -> Result<TensorId> {
        let out = self.computed(self.dtype(x), bound)?;
        self.push(Operator::ViewCopy(ViewCopy { x, shape: ViewShape::Sizes(sizes.to_vec()), out }));
        Ok(out)
    }

    /// A tensor of its own with the content of `x`.
    ///
    /// # Errors
    /// As [`Self::input`], for the result.
    pub fn clone_of(&mut self, x: TensorId) -> Result<TensorId> {
        let out = self.computed(self.dtype(x), self.bound(x).as_slice())?;
        self.push(Operator::ViewCopy(ViewCopy { x, shape: ViewShape::Same, out }));
        Ok(out)
    }

    /// A part of `x` along a dimension, with an upper bound on its shape.
    ///
    /// # Errors
    /// As [`Self::input`], for the result, or where `x` has no such dimension.
    pub fn slice_copy(&mut self, x: TensorId, dim: usize, part: Part, bound: &[u32]) -> Result<TensorId> {
        let dims = self.bound(x);
        if dim >= dims.as_slice().len() {
            return Err(Error::Malformed(format!("a slice of dimension {dim} of a tensor {dims}")));
        }
        let out = self.computed(self.dtype(x), bound)?;
        self.push(Operator::SliceCopy(SliceCopy { x, dim, part, out }));
        Ok(out)
    }

    /// A live size, as an argument.
    pub fn sym_size(&mut self, tensor: TensorId, dim: usize) -> IntArg {
        let out = self.sym_int();
        self.push(Operator::SymSize(SymSize { tensor, dim, out }));
        IntArg::Live(out)
    }
}

impl Graph<'_> {
    /// The input whose elements a tensor has, where it is known to be one or a view of one.
    pub(super) fn input_of(&self, tensor: TensorId) -> Option<usize> {
        let mut tensor = tensor;
        // Latest first: a view stands behind what it views.
        for node in self.nodes.iter().rev() {
            match &node.operator {
                Operator::ViewCopy(op) if op.out == tensor => tensor = op.x,
                _ => {}
            }
        }
        match self.tensor(tensor).origin {
            Origin::Input(input) => Some(input),
            Origin::Constant(_) | Origin::Joined(_) | Origin::State(_) | Origin::Computed => None,
        }
    }
}
