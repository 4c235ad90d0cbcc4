//! A linear layer with what stands in front of it and behind it: what every linear operator is planned as.

use super::linear::Layer;
use super::{GraphBuilder, Linear, LinearQ4, Live, Operator, Quantised, TensorId};
use crate::error::Result;
use crate::tensor::{DType, Dims};

/// A linear layer, perhaps with a norm of its rows in front, and perhaps with something done to its product.
///
/// It stands in no file; [`Graph::fused`](super::Graph::fused) makes it. Shapes: x `[.., k]`, weight `[n, k]`, bias `[n]`, out
/// `[.., n]`, or `[.., n / 2]` with [`Ending::SwiGlu`], or that of what is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Projection {
    /// Rows to multiply.
    pub x: TensorId,
    /// What is done to each of them before.
    pub norm: Option<Norm>,
    /// A row for each element of a row of the product.
    pub weight: Weight,
    /// Added to each row of the product.
    pub bias: Option<TensorId>,
    /// What becomes of the product.
    pub ending: Ending,
    /// The result.
    pub out: TensorId,
}

/// `rms_norm` of each row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// One factor an element of a row.
    pub weight: TensorId,
    /// Added to the mean square.
    pub eps: f32,
}

/// The weight of a [`Projection`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weight {
    /// 32-bit floats, `[n, k]`.
    F32(TensorId),
    /// 4-bit numbers.
    Q4(Quantised),
}

/// What becomes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is the result.
    Plain,
    /// This tensor is added: it has the product's rows, in the shape of the result.
    Add(TensorId),
    /// The weight has the rows of a gate, then as many of an up projection: the result is `silu(gate) * up`.
    SwiGlu,
}

/// What stands around the product of a [`Projection`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Around {
    /// What is done to each row of x before.
    pub norm: Option<Norm>,
    /// Added to each row of the product.
    pub bias: Option<TensorId>,
    /// What becomes of the product.
    pub ending: Ending,
}

impl GraphBuilder<'_> {
    /// A linear layer with what stands around it, as one operator; shapes as of [`Projection`].
    ///
    /// # Errors
    /// As [`Self::input`], for the result. Shapes that do not fit are refused by [`Self::finish`].
    pub fn projection(&mut self, x: TensorId, weight: Weight, around: Around) -> Result<TensorId> {
        let Around { norm, bias, ending } = around;
        let rows = self.bound(weight.rows()).as_slice().first().copied().unwrap_or(1);
        let mut dims = match ending {
            Ending::Add(residual) => self.bound(residual),
            Ending::Plain | Ending::SwiGlu => self.bound(x),
        };
        if let Some(size) = dims.as_mut_slice().last_mut() {
            *size = if ending == Ending::SwiGlu { rows / 2 } else { rows };
        }
        let out = self.computed(DType::F32, dims.as_slice())?;
        self.push(Operator::Projection(Projection { x, norm, weight, bias, ending, out }));
        Ok(out)
    }
}

impl Weight {
    /// The tensor with a row for each element of a row of the product.
    pub const fn rows(&self) -> TensorId {
        match self {
            Self::F32(weight) => *weight,
            Self::Q4(quantised) => quantised.weight,
        }
    }

    /// The scales of 4-bit numbers.
    pub const fn scales(&self) -> Option<TensorId> {
        match self {
            Self::F32(_) => None,
            Self::Q4(quantised) => Some(quantised.scales),
        }
    }
}

impl From<&Linear> for Projection {
    fn from(op: &Linear) -> Self {
        let Linear { x, weight, bias, out } = *op;
        Self { x, norm: None, weight: Weight::F32(weight), bias, ending: Ending::Plain, out }
    }
}

impl From<&LinearQ4> for Projection {
    fn from(op: &LinearQ4) -> Self {
        let LinearQ4 { x, weight, bias, out } = *op;
        Self { x, norm: None, weight: Weight::Q4(weight), bias, ending: Ending::Plain, out }
    }
}

impl Operator {
    /// The operator as a linear layer, where it is one.
    pub fn projection(&self) -> Option<Projection> {
        match self {
            Self::Linear(op) => Some(op.into()),
            Self::LinearQ4(op) => Some(op.into()),
            Self::Projection(op) => Some(*op),
            _ => None,
        }
    }
}

impl Projection {
    /// What it does, in the order in which it does it.
    pub(super) fn name(&self) -> &'static str {
        match (self.norm, self.weight, self.ending) {
            (None, Weight::F32(_), Ending::Plain) => Linear::NAME,
            (None, Weight::F32(_), Ending::Add(_)) => "linear+add",
            (None, Weight::F32(_), Ending::SwiGlu) => "linear+swiglu",
            (None, Weight::Q4(_), Ending::Plain) => LinearQ4::NAME,
            (None, Weight::Q4(_), Ending::Add(_)) => "linear_q4gsw+add",
            (None, Weight::Q4(_), Ending::SwiGlu) => "linear_q4gsw+swiglu",
            (Some(_), Weight::F32(_), Ending::Plain) => "rms_norm+linear",
            (Some(_), Weight::F32(_), Ending::Add(_)) => "rms_norm+linear+add",
            (Some(_), Weight::F32(_), Ending::SwiGlu) => "rms_norm+linear+swiglu",
            (Some(_), Weight::Q4(_), Ending::Plain) => "rms_norm+linear_q4gsw",
            (Some(_), Weight::Q4(_), Ending::Add(_)) => "rms_norm+linear_q4gsw+add",
            (Some(_), Weight::Q4(_), Ending::SwiGlu) => "rms_norm+linear_q4gsw+swiglu",
        }
    }

    pub(super) fn reads(&self) -> Vec<TensorId> {
        let residual = match self.ending {
            Ending::Add(residual) => Some(residual),
            Ending::Plain | Ending::SwiGlu => None,
        };
        let norm = self.norm.map(|norm| norm.weight);
        let weight = [self.weight.rows()].into_iter().chain(self.weight.scales());
        [self.x].into_iter().chain(norm).chain(weight).chain(self.bias).chain(residual).collect()
    }

    /// As [`Operator::dtype_at`].
    pub(super) fn dtype_at(&self, place: usize) -> DType {
        let weight = 1 + usize::from(self.norm.is_some());
        match self.weight {
            Weight::Q4(_) if place == weight => DType::U8,
            _ => DType::F32,
        }
    }

    pub(super) fn infer(&self, node: u32, live: &mut Live) -> Result<()> {
        let layer = Layer { operator: self.name(), node };
        let x = live.dims(self.x);
        let (rows, columns) = match self.weight {
            Weight::F32(weight) => layer.dense(live.dims(weight))?,
            Weight::Q4(weight) => layer.quantised(live, weight)?,
        };
        if let Some(norm) = self.norm.map(|norm| live.dims(norm.weight))
            && norm.as_slice().iter().map(|&size| u64::from(size)).ne([columns])
        {
            return layer.refuse(format!("wants a norm's weight [{columns}], got {norm}"));
        }
        layer.check_bias(self.bias.map(|bias| live.dims(bias)), rows)?;
        let out = layer.product(x, columns, (live.dims(self.weight.rows()), rows))?;
        let out = self.ended(&layer, live, out)?;
        live.set_dims(self.out, out);
        Ok(())
    }

    /// The shape of the result for that of the product.
    fn ended(&self, layer: &Layer, live: &Live, product: Dims) -> Result<Dims> {
        match self.ending {
            Ending::Plain => Ok(product),
            Ending::Add(residual) => {
                let residual = live.dims(residual);
                let same_rows = residual.elements() == product.elements()
                    && residual.as_slice().last() == product.as_slice().last();
                if same_rows { Ok(residual) } else { layer.refuse(format!("adds {residual} to a product {product}")) }
            }
            Ending::SwiGlu => {
                let mut out = product;
                match out.as_mut_slice().last_mut() {
                    Some(size) if size.is_multiple_of(2) => *size /= 2,
                    _ => {
                        return layer.refuse(format!("wants as many rows of a gate as of an up projection: {product}"));
                    }
                }
                Ok(out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphBuilder;
    use crate::tensor::DType;

    static ZEROS: [u8; 512] = [0; 512];

    /// What a projection of x `[2, 4]` by a weight `[6, 4]` gives, or why it is refused.
    fn shape(norm: Option<u32>, residual: Option<&[u32]>, ending: Ending) -> std::result::Result<Dims, String> {
        let mut graph = GraphBuilder::new("projection");
        let mut constant = |dims: &[u32]| {
            let bytes = 4 * dims.iter().product::<u32>() as usize;
            graph.constant(DType::F32, dims, &ZEROS[..bytes]).unwrap()
        };
        let (x, weight) = (constant(&[2, 4]), constant(&[6, 4]));
        let norm = norm.map(|width| Norm { weight: constant(&[width]), eps: 1e-5 });
        let ending = residual.map_or(ending, |dims| Ending::Add(constant(dims)));
        let out = graph.computed(DType::F32, &[2, 6]).unwrap();
        let mut live = Live::new(&graph.finish().unwrap());
        let op = Projection { x, norm, weight: Weight::F32(weight), bias: None, ending, out };
        op.infer(0, &mut live).map_err(|error| error.to_string())?;
        Ok(live.dims(out))
    }

    #[test]
    fn the_result_has_the_rows_of_x_or_the_shape_of_what_is_added() {
        assert_eq!(shape(None, None, Ending::Plain).unwrap().as_slice(), [2, 6]);
        assert_eq!(shape(Some(4), None, Ending::SwiGlu).unwrap().as_slice(), [2, 3]);
        assert_eq!(shape(None, Some(&[1, 2, 6]), Ending::Plain).unwrap().as_slice(), [1, 2, 6]);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_shapes() {
        let refusal = |norm, residual| shape(norm, residual, Ending::Plain).unwrap_err();
        assert_eq!(refusal(Some(3), None), "rms_norm+linear (node 0): wants a norm's weight [4], got [3]");
        assert_eq!(refusal(None, Some(&[2, 5])), "linear+add (node 0): adds [2, 5] to a product [2, 6]");
        assert_eq!(refusal(None, Some(&[1, 6])), "linear+add (node 0): adds [1, 6] to a product [2, 6]");
        assert_eq!(refusal(None, Some(&[6, 2])), "linear+add (node 0): adds [6, 2] to a product [2, 6]");
    }
}
