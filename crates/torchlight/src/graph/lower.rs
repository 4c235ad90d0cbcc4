//! From a delegate's graph to typed operators: the one place where operator names are strings.

mod layout;
mod linear;
mod transformer;

use torchlight_pte::{
    Constant, DelegateGraph, FlatTensor, OperatorCall, Program, VkDataType, VkTensor, VkValue, VkValueId,
};

use super::{Add, AddSymInt, Graph, IntArg, Mul, Operator, Origin, SdpaWithKvCache, SelectAsSymInt, SymIntId, SymSize};
use super::{Node, TensorId, UpdateCache};
use crate::error::{Error, Result};
use crate::tensor::DType;

type LowerOperator = for<'c> fn(&mut DelegateLowering<'_, '_, '_>, Args<'c>) -> Result<Option<Operator>>;

/// Every operator of a delegate that Torchlight runs, by its name in the file.
const OPERATORS: [(&str, LowerOperator); 19] = [
    ("add", add_symint),
    ("aten.add.Tensor", add),
    ("aten.clone.default", layout::clone),
    ("aten.embedding.default", transformer::embedding),
    ("aten.mul.Tensor", mul),
    ("aten.select_copy.int", layout::select_copy),
    ("aten.sigmoid.default", transformer::sigmoid),
    ("aten.slice_copy.Tensor", layout::slice_copy),
    ("aten.view_copy.default", layout::view_copy),
    ("et_vk.apply_rotary_emb.default", transformer::apply_rotary_emb),
    ("et_vk.prepack.default", prepack),
    ("et_vk.rms_norm.default", transformer::rms_norm),
    ("et_vk.select_as_symint.default", select_as_symint),
    ("sdpa_with_kv_cache.default", sdpa_with_kv_cache),
    ("sym_size.int", sym_size),
    ("update_cache.default", update_cache),
    ("aten.linear.default", linear::linear),
    ("et_vk.linear_q4gsw.default", linear::linear_q4),
    ("et_vk.embedding_q4gsw.default", linear::embedding_q4),
];

/// The names of the delegate operators that Torchlight runs, as they stand in files.
pub const SUPPORTED_OPERATORS: [&str; OPERATORS.len()] = {
    let mut names = [""; OPERATORS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = OPERATORS[i].0;
        i += 1;
    }
    names
};

/// The operators of a delegate that Torchlight does not run: node id and name, in the order of execution.
pub fn unsupported_operators<'a>(delegate: &DelegateGraph<'a>) -> Vec<(u32, &'a str)> {
    let unsupported = |call: &&OperatorCall<'a>| !SUPPORTED_OPERATORS.contains(&call.name);
    delegate.chain.iter().filter(unsupported).map(|call| (call.node_id, call.name)).collect()
}

/// The delegate's values that its operators write in place: caches.
pub(super) fn written_values(delegate: &DelegateGraph<'_>) -> Vec<VkValueId> {
    let mut written = Vec::new();
    for call in &delegate.chain {
        match (call.name, call.args.as_slice()) {
            ("sdpa_with_kv_cache.default", [_, _, _, k_cache, v_cache, ..]) => written.extend([*k_cache, *v_cache]),
            ("update_cache.default", [_, cache, ..]) => written.push(*cache),
            _ => {}
        }
    }
    written
}

/// Where constants are found by their keys.
#[derive(Clone, Copy)]
pub(super) struct NamedData<'p, 'a> {
    pub(super) program: &'p Program<'a>,
    /// Files beside it.
    pub(super) data: &'p [FlatTensor<'a>],
}

impl<'a> NamedData<'_, 'a> {
    fn get(self, key: &str) -> std::result::Result<&'a [u8], String> {
        let found = self.program.named_data(key).or_else(|| self.data.iter().find_map(|file| file.named_data(key)));
        found.ok_or_else(|| match self.data.len() {
            0 => format!("the program has no data named {key:?}, and no .ptd file was given"),
            files => format!("neither the program nor {files} .ptd file(s) have data named {key:?}"),
        })
    }
}

/// One delegate call on its way into a [`Graph`].
pub(super) struct DelegateLowering<'g, 'p, 'a> {
    pub(super) graph: &'g mut Graph<'a>,
    named: NamedData<'p, 'a>,
    delegate: &'p DelegateGraph<'a>,
    instruction: u32,
    tensors: Vec<Option<TensorId>>,
    sym_ints: Vec<Option<SymIntId>>,
}

impl<'g, 'p, 'a> DelegateLowering<'g, 'p, 'a> {
    /// A lowering in which the delegate's inputs are already tensors of the graph.
    pub(super) fn new(
        graph: &'g mut Graph<'a>,
        named: NamedData<'p, 'a>,
        delegate: &'p DelegateGraph<'a>,
        instruction: u32,
    ) -> Self {
        let count = delegate.values.len();
        Self { graph, named, delegate, instruction, tensors: vec![None; count], sym_ints: vec![None; count] }
    }

    /// Binds a value of the delegate to a tensor of the graph.
    pub(super) fn bind(&mut self, value: VkValueId, tensor: TensorId) {
        self.tensors[value.0 as usize] = Some(tensor);
    }

    /// Lowers every call of the delegate's chain, in order.
    pub(super) fn lower_chain(&mut self) -> Result<()> {
        let delegate = self.delegate;
        for call in &delegate.chain {
            let (_, lower) =
                OPERATORS.iter().find(|(name, _)| *name == call.name).ok_or_else(|| Error::Unsupported {
                    what: format!("operator {:?} (node {})", call.name, call.node_id),
                    supported: SUPPORTED_OPERATORS.join(", "),
                })?;
            if let Some(operator) = lower(self, Args { call })? {
                self.graph.nodes.push(Node { id: call.node_id, instruction: self.instruction, operator });
            }
        }
        Ok(())
    }

    /// The graph's tensor for a value of the delegate, made when it is first asked for.
    pub(super) fn tensor(&mut self, value: VkValueId) -> Result<TensorId> {
        if let Some(tensor) = self.tensors[value.0 as usize] {
            return Ok(tensor);
        }
        let delegate = self.delegate;
        let VkValue::Tensor(meta) = &delegate.values[value.0 as usize] else {
            return Err(Error::Malformed(format!("delegate value {} is used as a tensor and is none", value.0)));
        };
        let dtype = tensor_dtype(value, meta.dtype)?;
        let origin = match meta.constant {
            Some(_) => Origin::Constant(self.constant_bytes(value, meta)?),
            None => Origin::Computed,
        };
        let tensor = self.graph.push_tensor(dtype, &meta.dims, origin)?;
        self.bind(value, tensor);
        Ok(tensor)
    }

    fn constant_bytes(&self, value: VkValueId, meta: &VkTensor) -> Result<&'a [u8]> {
        let constant = meta.constant.and_then(|id| self.delegate.constants.get(id.0 as usize));
        let bytes = match constant {
            Some(Constant::Inline(bytes)) => *bytes,
            Some(Constant::Named { key, .. }) => self
                .named
                .get(key)
                .map_err(|detail| Error::Malformed(format!("delegate value {}: {detail}", value.0)))?,
            None => return Err(Error::Malformed(format!("delegate value {} names no constant of the graph", value.0))),
        };
        let wanted = meta.dims.iter().fold(meta.dtype.size_bytes(), |n, &size| n.saturating_mul(size.into()));
        if bytes.len() as u64 != wanted {
            let (id, got) = (value.0, bytes.len());
            return Err(Error::Malformed(format!(
                "delegate value {id}: its constant has {got} bytes, wanted {wanted}"
            )));
        }
        Ok(bytes)
    }

    fn sym_int(&mut self, value: VkValueId) -> Result<SymIntId> {
        if !matches!(self.delegate.values[value.0 as usize], VkValue::SymInt(_)) {
            let detail = format!("delegate value {} is used as a symbolic integer and is none", value.0);
            return Err(Error::Malformed(detail));
        }
        let slot = &mut self.sym_ints[value.0 as usize];
        Ok(*slot.get_or_insert_with(|| self.graph.sym_int()))
    }
}

/// The element type on the GPU of a delegate's tensor.
pub(super) fn tensor_dtype(value: VkValueId, dtype: VkDataType) -> Result<DType> {
    Ok(match dtype {
        VkDataType::F32 => DType::F32,
        VkDataType::I32 => DType::I32,
        VkDataType::U8 => DType::U8,
        VkDataType::I8 => DType::I8,
        VkDataType::Bool => DType::Bool,
        VkDataType::F16 | VkDataType::F64 | VkDataType::I64 => {
            return Err(Error::Unsupported {
                what: format!("a delegate tensor of type {dtype:?} (value {})", value.0),
                supported: "F32, I32, U8, I8, Bool".into(),
            });
        }
    })
}

/// The arguments of one call, read by type.
#[derive(Clone, Copy)]
struct Args<'c> {
    call: &'c OperatorCall<'c>,
}

impl Args<'_> {
    /// The arguments, where there are exactly `N`.
    fn exactly<const N: usize>(&self) -> Result<[VkValueId; N]> {
        self.call
            .args
            .as_slice()
            .try_into()
            .map_err(|_| self.malformed(format!("wants {N} arguments, got {}", self.call.args.len())))
    }

    fn malformed(&self, detail: String) -> Error {
        Error::Malformed(format!("operator {:?} (node {}): {detail}", self.call.name, self.call.node_id))
    }

    fn unsupported(&self, what: &str, supported: &str) -> Error {
        Error::Unsupported {
            what: format!("operator {:?} (node {}) with {what}", self.call.name, self.call.node_id),
            supported: supported.into(),
        }
    }

    /// A number: exporters merge equal scalars, so that 0.0 may be an Int.
    fn number(&self, lowering: &DelegateLowering<'_, '_, '_>, value: VkValueId) -> Result<f64> {
        match lowering.delegate.values[value.0 as usize] {
            VkValue::Int(number) => Ok(number as f64),
            VkValue::Double(number) => Ok(number),
            ref other => Err(self.malformed(format!("wants a number as value {}, got {other:?}", value.0))),
        }
    }

    /// An integer, known or live.
    fn int(&self, lowering: &mut DelegateLowering<'_, '_, '_>, value: VkValueId) -> Result<IntArg> {
        match lowering.delegate.values[value.0 as usize] {
            VkValue::Int(number) => Ok(IntArg::Known(number)),
            VkValue::SymInt(_) => Ok(IntArg::Live(lowering.sym_int(value)?)),
            ref other => Err(self.malformed(format!("wants an integer as value {}, got {other:?}", value.0))),
        }
    }

    /// A tensor, or nothing where the value is Null.
    fn optional_tensor(
        &self,
        lowering: &mut DelegateLowering<'_, '_, '_>,
        value: VkValueId,
    ) -> Result<Option<TensorId>> {
        match lowering.delegate.values[value.0 as usize] {
            VkValue::Null => Ok(None),
            _ => lowering.tensor(value).map(Some),
        }
    }

    /// The values of a list.
    fn list<'l>(&self, lowering: &'l DelegateLowering<'_, '_, '_>, value: VkValueId) -> Result<&'l [VkValueId]> {
        match &lowering.delegate.values[value.0 as usize] {
            VkValue::ValueList(values) => Ok(values),
            other => Err(self.malformed(format!("wants a list of values as value {}, got {other:?}", value.0))),
        }
    }

    /// A dimension of a tensor, counted from the end where it is negative.
    fn dim(&self, lowering: &DelegateLowering<'_, '_, '_>, value: VkValueId, tensor: TensorId) -> Result<usize> {
        let rank = lowering.graph.tensor(tensor).bound.as_slice().len() as i64;
        let dim = self.number(lowering, value)? as i64;
        let dim = if dim < 0 { dim + rank } else { dim };
        if !(0..rank).contains(&dim) {
            return Err(self.malformed(format!("dimension {dim} is outside a tensor of rank {rank}")));
        }
        Ok(dim as usize)
    }
}

fn sdpa_with_kv_cache(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    // seq_len is 1 in exported Llamas even for prefill: the tokens are counted from q.
    let [q, k, v, k_cache, v_cache, input_pos, _seq_len, attn_mask, dropout_p, is_causal, scale, out] =
        args.exactly()?;
    let value = |id: VkValueId| &lowering.delegate.values[id.0 as usize];
    if !matches!(value(attn_mask), VkValue::Null) {
        return Err(args.unsupported("an attn_mask", "attn_mask Null with is_causal true"));
    }
    if args.number(lowering, dropout_p)? != 0.0 {
        return Err(args.unsupported("dropout", "dropout_p 0"));
    }
    if !matches!(value(is_causal), VkValue::Bool(true)) {
        return Err(args.unsupported("is_causal false", "is_causal true"));
    }
    let scale = match value(scale) {
        VkValue::Null => None,
        _ => Some(args.number(lowering, scale)? as f32),
    };
    Ok(Some(Operator::SdpaWithKvCache(SdpaWithKvCache {
        q: lowering.tensor(q)?,
        k: lowering.tensor(k)?,
        v: lowering.tensor(v)?,
        k_cache: lowering.tensor(k_cache)?,
        v_cache: lowering.tensor(v_cache)?,
        input_pos: args.int(lowering, input_pos)?,
        scale,
        out: lowering.tensor(out)?,
    })))
}

fn update_cache(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    // The output is a dummy of one element that nothing reads.
    let [value, cache, input_pos, _dummy] = args.exactly()?;
    Ok(Some(Operator::UpdateCache(UpdateCache {
        value: lowering.tensor(value)?,
        cache: lowering.tensor(cache)?,
        input_pos: args.int(lowering, input_pos)?,
    })))
}

fn add(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [a, b, alpha, out] = args.exactly()?;
    Ok(Some(Operator::Add(Add {
        a: lowering.tensor(a)?,
        b: lowering.tensor(b)?,
        alpha: args.number(lowering, alpha)? as f32,
        out: lowering.tensor(out)?,
    })))
}

fn mul(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [a, b, out] = args.exactly()?;
    Ok(Some(Operator::Mul(Mul { a: lowering.tensor(a)?, b: lowering.tensor(b)?, out: lowering.tensor(out)? })))
}

/// A constant brought to the GPU: for a runtime on buffers the result is the same bytes, so no dispatch is left.
fn prepack(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [constant, out] = args.exactly()?;
    let constant = lowering.tensor(constant)?;
    let source = lowering.graph.tensor(constant).clone();
    let packed = lowering.tensor(out)?;
    let out_bound = lowering.graph.tensor(packed).bound;
    if !matches!(source.origin, Origin::Constant(_)) {
        return Err(args.unsupported("a tensor that is no constant", "constants"));
    }
    if (source.dtype, source.bound) != (lowering.graph.tensor(packed).dtype, out_bound) {
        return Err(args.malformed(format!("packs {} into {out_bound}", source.bound)));
    }
    lowering.graph.tensors[packed.index()].origin = source.origin;
    Ok(None)
}

fn sym_size(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [tensor, dim, out] = args.exactly()?;
    let tensor = lowering.tensor(tensor)?;
    let dim = args.dim(lowering, dim, tensor)?;
    Ok(Some(Operator::SymSize(SymSize { tensor, dim, out: lowering.sym_int(out)? })))
}

fn select_as_symint(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [tensor, dim, index, out] = args.exactly()?;
    let tensor = lowering.tensor(tensor)?;
    let dim = args.dim(lowering, dim, tensor)?;
    let source = lowering.graph.tensor(tensor);
    let (Origin::Input(input), DType::I32) = (&source.origin, source.dtype) else {
        return Err(args.unsupported("a tensor that is no integer input", "int32 inputs of the program"));
    };
    let input = *input;
    if source.bound.as_slice().iter().enumerate().any(|(i, &size)| i != dim && size != 1) {
        let what = format!("dimension {dim} of a tensor {}", source.bound);
        return Err(args.unsupported(&what, "tensors whose other sizes are 1"));
    }
    let IntArg::Known(index) = args.int(lowering, index)? else {
        return Err(args.unsupported("a live index", "an index written in the program"));
    };
    Ok(Some(Operator::SelectAsSymInt(SelectAsSymInt { input, dim, index, out: lowering.sym_int(out)? })))
}

fn add_symint(lowering: &mut DelegateLowering<'_, '_, '_>, args: Args<'_>) -> Result<Option<Operator>> {
    let [a, b, out] = args.exactly()?;
    let (a, b) = (args.int(lowering, a)?, args.int(lowering, b)?);
    Ok(Some(Operator::AddSymInt(AddSymInt { a, b, out: lowering.sym_int(out)? })))
}
