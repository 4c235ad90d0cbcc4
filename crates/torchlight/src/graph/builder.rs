//! Graphs made by hand: for tests, benchmarks, and attention without a program.

use super::{Add, Attend, Graph, GraphInput, GraphOutput, IntArg, Live, Mul, Node, Operator, Origin, SdpaWithKvCache};
use super::{
    EmbeddingQ4, Linear, LinearQ4, NibbleOrder, Quantised, SelectAsSymInt, SymIntId, Tensor, TensorId, UpdateCache,
};
use crate::error::{Error, Result};
use crate::tensor::{DType, Dims, MAX_RANK};

/// Makes a [`Graph`] operator by operator.
///
/// Shapes are upper bounds: an input accepts any smaller size at run time.
///
/// ```
/// use torchlight::{DType, GraphBuilder};
///
/// let mut graph = GraphBuilder::new("doubled sum");
/// let a = graph.input(DType::F32, &[2, 3])?;
/// let b = graph.input(DType::F32, &[1, 3])?;
/// let sum = graph.add(a, b, 1.0)?;
/// let out = graph.add(sum, sum, 1.0)?;
/// graph.output(out);
/// let graph = graph.finish()?;
/// assert_eq!(graph.nodes.len(), 2);
/// # Ok::<(), torchlight::Error>(())
/// ```
#[derive(Debug)]
pub struct GraphBuilder<'a> {
    graph: Graph<'a>,
}

impl<'a> GraphBuilder<'a> {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        let graph = Graph {
            name: name.into(),
            tensors: Vec::new(),
            sym_ints: 0,
            nodes: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        Self { graph }
    }

    /// A tensor given at each run, of any size up to `bound`.
    ///
    /// # Errors
    /// Where `bound` has a size 0, too many dimensions, or too many bytes.
    pub fn input(&mut self, dtype: DType, bound: &[u32]) -> Result<TensorId> {
        let index = self.graph.inputs.len();
        let device_dtype = if dtype == DType::I64 { DType::I32 } else { dtype };
        let tensor = self.tensor(device_dtype, bound, Origin::Input(index))?;
        self.graph.inputs.push(GraphInput { tensor, host_dtype: dtype, dynamic: true, mutated: false });
        Ok(tensor)
    }

    /// A tensor given at each run, of exactly this shape.
    ///
    /// # Errors
    /// As [`Self::input`].
    pub fn static_input(&mut self, dtype: DType, dims: &[u32]) -> Result<TensorId> {
        let tensor = self.input(dtype, dims)?;
        if let Some(input) = self.graph.inputs.last_mut() {
            input.dynamic = false;
        }
        Ok(tensor)
    }

    /// A tensor whose bytes are known now. It becomes state where an operator writes it.
    ///
    /// # Errors
    /// Where `bytes` does not have as many bytes as the shape, or as [`Self::input`].
    pub fn constant(&mut self, dtype: DType, dims: &[u32], bytes: &'a [u8]) -> Result<TensorId> {
        crate::tensor::TensorView::new(dtype, dims, bytes)?;
        self.tensor(dtype, dims, Origin::Constant(bytes))
    }

    /// A tensor that an operator writes.
    ///
    /// # Errors
    /// As [`Self::input`].
    pub fn computed(&mut self, dtype: DType, bound: &[u32]) -> Result<TensorId> {
        self.tensor(dtype, bound, Origin::Computed)
    }

    /// An element of an integer input, as an argument.
    pub fn select_as_symint(&mut self, input: usize, index: i64) -> IntArg {
        let out = self.sym_int();
        self.push(Operator::SelectAsSymInt(SelectAsSymInt { input, dim: 0, index, out }));
        IntArg::Live(out)
    }

    /// `a + alpha * b`, with broadcasting.
    ///
    /// # Errors
    /// Where the shapes do not broadcast together.
    pub fn add(&mut self, a: TensorId, b: TensorId, alpha: f32) -> Result<TensorId> {
        let out = self.broadcast("add", a, b)?;
        self.push(Operator::Add(Add { a, b, alpha, out }));
        Ok(out)
    }

    /// `a * b`, with broadcasting.
    ///
    /// # Errors
    /// Where the shapes do not broadcast together.
    pub fn mul(&mut self, a: TensorId, b: TensorId) -> Result<TensorId> {
        let out = self.broadcast("mul", a, b)?;
        self.push(Operator::Mul(Mul { a, b, out }));
        Ok(out)
    }

    /// Writes rows into a cache, in place.
    pub fn update_cache(&mut self, value: TensorId, cache: TensorId, input_pos: IntArg) {
        self.push(Operator::UpdateCache(UpdateCache { value, cache, input_pos }));
    }

    /// Writes K and V into `caches` at `input_pos`, and attends causally over them.
    ///
    /// `qkv` are the new queries, keys and values; `caches` the key and the value cache. `scale` `None` is
    /// `1 / sqrt(head_dim)`.
    ///
    /// # Errors
    /// As [`Self::input`], for the result, which has q's shape.
    pub fn sdpa_with_kv_cache(
        &mut self,
        qkv: [TensorId; 3],
        caches: [TensorId; 2],
        input_pos: IntArg,
        scale: Option<f32>,
    ) -> Result<TensorId> {
        let [q, k, v] = qkv;
        let [k_cache, v_cache] = caches;
        let bound = self.graph.tensor(q).bound;
        let out = self.computed(DType::F32, bound.as_slice())?;
        let op = SdpaWithKvCache { q, k, v, k_cache, v_cache, input_pos, scale, out };
        self.push(Operator::SdpaWithKvCache(op));
        Ok(out)
    }

    /// Attends causally over `caches` (keys, then values) that already hold what the tokens of `q` need: nothing is
    /// written. `input_pos` is the cache row of the first of them.
    ///
    /// # Errors
    /// As [`Self::input`], for the result, which has q's shape.
    pub fn attend(
        &mut self,
        q: TensorId,
        caches: [TensorId; 2],
        input_pos: IntArg,
        scale: Option<f32>,
    ) -> Result<TensorId> {
        let [k_cache, v_cache] = caches;
        let bound = self.graph.tensor(q).bound;
        let out = self.computed(DType::F32, bound.as_slice())?;
        self.push(Operator::Attend(Attend { q, k_cache, v_cache, input_pos, scale, out }));
        Ok(out)
    }

    /// `x * transpose(weight) + bias`: x `[.., k]`, weight `[n, k]`, bias `[n]`.
    ///
    /// # Errors
    /// As [`Self::input`], for the result `[.., n]`. Shapes that do not fit are refused by [`Self::finish`].
    pub fn linear(&mut self, x: TensorId, weight: TensorId, bias: Option<TensorId>) -> Result<TensorId> {
        let out = self.rows_of(x, weight)?;
        self.push(Operator::Linear(Linear { x, weight, bias, out }));
        Ok(out)
    }

    /// [`Self::linear`] over a weight of 4-bit numbers.
    ///
    /// # Errors
    /// As [`Self::linear`].
    pub fn linear_q4(&mut self, x: TensorId, weight: Quantised, bias: Option<TensorId>) -> Result<TensorId> {
        let out = self.rows_of(x, weight.weight)?;
        self.push(Operator::LinearQ4(LinearQ4 { x, weight, bias, out }));
        Ok(out)
    }

    /// A row of a table `[rows, k / 2]` of 4-bit numbers for each id; the table's scales are `[rows, k / group]`.
    ///
    /// # Errors
    /// As [`Self::input`], for the result `[.., k]`. Shapes that do not fit are refused by [`Self::finish`].
    pub fn embedding_q4(&mut self, table: Quantised, order: NibbleOrder, ids: TensorId) -> Result<TensorId> {
        let columns = self.graph.tensor(table.weight).bound.as_slice().last().copied().unwrap_or(1);
        let mut dims = self.graph.tensor(ids).bound.as_slice().to_vec();
        dims.push(columns.saturating_mul(2));
        let out = self.computed(DType::F32, &dims)?;
        let ids_input = match self.graph.tensor(ids).origin {
            Origin::Input(input) => Some(input),
            _ => None,
        };
        self.push(Operator::EmbeddingQ4(EmbeddingQ4 { table, order, ids, ids_input, out }));
        Ok(out)
    }

    /// Gives a tensor to the caller after each run.
    pub fn output(&mut self, tensor: TensorId) {
        let host_dtype = self.graph.tensor(tensor).dtype;
        self.graph.outputs.push(GraphOutput::Tensor { tensor, host_dtype, mutates_input: None });
    }

    /// The graph, checked.
    ///
    /// # Errors
    /// Where shapes do not fit together at their upper bounds.
    pub fn finish(self) -> Result<Graph<'a>> {
        self.graph.checked()
    }

    fn broadcast(&mut self, operator: &'static str, a: TensorId, b: TensorId) -> Result<TensorId> {
        let [a, b] = [a, b].map(|tensor| self.graph.tensor(tensor).bound);
        let dims = super::operator::broadcast(a, b).ok_or_else(|| Error::Shape {
            operator,
            node: self.graph.nodes.len() as u32,
            detail: format!("{a} and {b} do not broadcast together"),
        })?;
        self.computed(DType::F32, dims.as_slice())
    }

    /// A result with the rows of x, and an element a row of the weight.
    fn rows_of(&mut self, x: TensorId, weight: TensorId) -> Result<TensorId> {
        let mut dims = self.graph.tensor(x).bound;
        let rows = self.graph.tensor(weight).bound.as_slice().first().copied();
        if let (Some(size), Some(rows)) = (dims.as_mut_slice().last_mut(), rows) {
            *size = rows;
        }
        self.computed(DType::F32, dims.as_slice())
    }

    /// A tensor of f32 that an operator writes, of another tensor's shape.
    pub(super) fn computed_like(&mut self, tensor: TensorId) -> Result<TensorId> {
        let bound = self.graph.tensor(tensor).bound;
        self.computed(DType::F32, bound.as_slice())
    }

    /// The upper bound of a tensor's shape.
    pub(super) fn bound(&self, tensor: TensorId) -> Dims {
        self.graph.tensor(tensor).bound
    }

    /// The element type of a tensor.
    pub(super) fn dtype(&self, tensor: TensorId) -> DType {
        self.graph.tensor(tensor).dtype
    }

    /// The input whose elements a tensor has, where it is known to be one.
    pub(super) fn input_of(&self, tensor: TensorId) -> Option<usize> {
        self.graph.input_of(tensor)
    }

    /// The id of the next operator's node.
    pub(super) fn next_node(&self) -> u32 {
        self.graph.nodes.len() as u32
    }

    pub(super) fn push(&mut self, operator: Operator) {
        let id = self.next_node();
        self.graph.nodes.push(Node { id, instruction: 0, operator });
    }

    pub(super) fn sym_int(&mut self) -> SymIntId {
        self.graph.sym_int()
    }

    fn tensor(&mut self, dtype: DType, bound: &[u32], origin: Origin<'a>) -> Result<TensorId> {
        self.graph.push_tensor(dtype, bound, origin)
    }
}

impl<'a> Graph<'a> {
    /// Adds a tensor, with its shape checked.
    pub(super) fn push_tensor(&mut self, dtype: DType, bound: &[u32], origin: Origin<'a>) -> Result<TensorId> {
        let refuse = |detail: String| Error::Malformed(format!("a tensor of shape {bound:?}: {detail}"));
        let dims = Dims::new(bound).ok_or_else(|| refuse(format!("the rank exceeds {MAX_RANK}")))?;
        if bound.contains(&0) {
            return Err(refuse("a size is 0".into()));
        }
        let bytes = bound.iter().try_fold(dtype.size_bytes() as u64, |bytes, &size| bytes.checked_mul(size.into()));
        if bytes.is_none_or(|bytes| bytes > i64::MAX as u64) {
            return Err(refuse("its bytes overflow".into()));
        }
        self.tensors.push(Tensor { dtype, bound: dims, origin });
        Ok(TensorId(self.tensors.len() as u32 - 1))
    }

    /// Adds a symbolic integer.
    pub(super) fn sym_int(&mut self) -> SymIntId {
        self.sym_ints += 1;
        SymIntId(self.sym_ints - 1)
    }

    /// Marks what is written, and checks types and shapes at their upper bounds.
    pub(super) fn checked(mut self) -> Result<Self> {
        self.mark_written();
        let mut written = vec![false; self.tensors.len()];
        for node in &self.nodes {
            self.check_node(node)?;
            for id in node.operator.reads() {
                if self.tensor(id).origin == Origin::Computed && !written[id.index()] {
                    let (name, node) = (node.operator.name(), node.id);
                    return Err(Error::Malformed(format!("{name} (node {node}) reads tensor {} unwritten", id.0)));
                }
            }
            for id in node.operator.writes() {
                written[id.index()] = true;
            }
        }
        let zeros: Vec<Vec<i32>> = self.inputs.iter().map(|input| self.zeros(input)).collect();
        let integers = |input: usize| zeros.get(input).map(Vec::as_slice);
        let mut live = Live::new(&self);
        for node in &self.nodes {
            match live.infer_node(node, integers) {
                // Whether a live number of rows fits is known only when it runs.
                Ok(()) | Err(Error::CacheFull { .. } | Error::EmptySlice { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self)
    }

    fn zeros(&self, input: &GraphInput) -> Vec<i32> {
        let tensor = self.tensor(input.tensor);
        // Integer inputs are token ids and positions; the host reads single elements of them, never whole images.
        let elements = if tensor.dtype == DType::I32 { tensor.bound.elements().min(1 << 20) } else { 0 };
        vec![0; elements as usize]
    }

    /// Types, and the rule that no operator reads what it writes except through a cache.
    fn check_node(&self, node: &Node) -> Result<()> {
        let operator = node.operator.name();
        let refuse = |detail: String| Err(Error::Shape { operator, node: node.id, detail });
        let (reads, writes) = (node.operator.reads(), node.operator.writes());
        for (place, &id) in reads.iter().chain(&writes).enumerate() {
            let dtype = self.tensor(id).dtype;
            if let Some(wanted) = node.operator.dtype_at(place).filter(|&wanted| wanted != dtype) {
                return refuse(format!("wants {wanted} tensors, got {dtype}"));
            }
        }
        if let Operator::ViewCopy(_) | Operator::SliceCopy(_) = node.operator {
            let [from, to] = [reads[0], writes[0]].map(|id| self.tensor(id).dtype);
            if from != to {
                return refuse(format!("wants one type of elements, got {from} and {to}"));
            }
            if matches!(node.operator, Operator::SliceCopy(_)) && from.size_bytes() != 4 {
                return refuse(format!("wants elements of 4 bytes, got {from}"));
            }
        }
        let caches = match &node.operator {
            Operator::SdpaWithKvCache(op) => Some([op.k_cache, op.v_cache]),
            Operator::Attend(op) => Some([op.k_cache, op.v_cache]),
            Operator::RotaryUpdateCache(op) => Some([op.k_cache, op.v_cache]),
            _ => None,
        };
        if caches.is_some_and(|[k_cache, v_cache]| k_cache == v_cache) {
            return refuse("the key cache and the value cache are the same tensor".into());
        }
        let caches: &[TensorId] = match &node.operator {
            Operator::SdpaWithKvCache(op) => &[op.k_cache, op.v_cache],
            _ => &[],
        };
        let overlap = writes.iter().find(|id| reads.contains(id) && !caches.contains(id));
        let fresh = match &node.operator {
            Operator::SdpaWithKvCache(op) => [op.q, op.k, op.v].iter().any(|id| caches.contains(id)),
            _ => false,
        };
        if overlap.is_some() || fresh {
            return refuse("it would read a tensor while writing it".into());
        }
        let constant = writes.iter().find(|id| self.is_constant(**id));
        if let Some(id) = constant {
            return refuse(format!("it writes constant {}", id.0));
        }
        Ok(())
    }
}
