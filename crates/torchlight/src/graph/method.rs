//! From a method of a program to one graph: delegate calls, copies and moves between values of the program.
//!
//! Values of a program are followed as names for tensors: a move or a copy gives a name another tensor, and costs
//! nothing. Only a delegate that writes into a tensor somebody still needs gets a copy of its own, and only an input
//! whose new content ended in another tensor is copied back at the end of the run.

use torchlight_pte::{DelegateGraph, FlatTensor, Instruction, Method, Program, ScalarType, Value, ValueId};
use torchlight_pte::{Dynamism, TensorMeta, VkValue, VkValueId};

use super::lower::{DelegateLowering, NamedData, tensor_dtype, written_values};
use super::{CopyTensor, Graph, GraphInput, GraphOutput, Node, Operator, Origin, TensorId};
use crate::error::{Error, Result};
use crate::tensor::DType;

const BACKEND: &str = "VulkanBackend";

impl<'a> Graph<'a> {
    /// Reads a method of a program.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names the first thing that Torchlight does not run; [`Error::Malformed`] and
    /// [`Error::Shape`] say what contradicts itself.
    pub fn from_method(program: &Program<'a>, method: &str) -> Result<Self> {
        Self::from_method_with_data(program, method, &[])
    }

    /// Reads a method of a program whose constants lie in `.ptd` files, or some of them.
    ///
    /// A constant is looked for in the program first, then in the files in their order.
    ///
    /// # Errors
    /// As [`Self::from_method`]; [`Error::Malformed`] where a constant is in none of them.
    pub fn from_method_with_data(program: &Program<'a>, method: &str, data: &[FlatTensor<'a>]) -> Result<Self> {
        let Some(method) = program.method(method) else {
            // A damaged file's names may hold anything: a message stays on one line.
            let names: Vec<String> =
                program.methods.iter().map(|method| method.name.escape_debug().to_string()).collect();
            let (wanted, got) = (format!("one of {}", names.join(", ")), format!("{method:?}"));
            return Err(Error::Input { what: "method".into(), wanted, got });
        };
        let graph = Graph {
            name: method.name.to_owned(),
            tensors: Vec::new(),
            sym_ints: 0,
            nodes: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let names = vec![None; method.values.len()];
        let mut lowering = MethodLowering { named: NamedData { program, data }, method, graph, names };
        lowering.inputs()?;
        for (index, instruction) in method.instructions.iter().enumerate() {
            lowering.instruction(index, instruction)?;
        }
        lowering.outputs()?;
        lowering.carry_inputs()?;
        lowering.graph.checked()
    }
}

struct MethodLowering<'p, 'a> {
    named: NamedData<'p, 'a>,
    method: &'p Method<'a>,
    graph: Graph<'a>,
    /// The tensor that each value of the program names now.
    names: Vec<Option<TensorId>>,
}

impl<'p, 'a> MethodLowering<'p, 'a> {
    fn inputs(&mut self) -> Result<()> {
        for (index, &id) in self.method.inputs.iter().enumerate() {
            let meta = self.meta(id)?;
            let host_dtype = host_dtype(id, meta.dtype)?;
            let tensor = self.graph.push_tensor(device_dtype(host_dtype), &meta.sizes, Origin::Input(index))?;
            let dynamic = match meta.dynamism {
                Dynamism::Static => false,
                Dynamism::DynamicBound => true,
                Dynamism::DynamicUnbound => {
                    return Err(Error::Unsupported {
                        what: format!("input {index} without an upper bound on its shape"),
                        supported: "static shapes, and dynamic ones with a bound".into(),
                    });
                }
            };
            self.graph.inputs.push(GraphInput { tensor, host_dtype, dynamic, mutated: false });
            self.names[id.0 as usize] = Some(tensor);
        }
        Ok(())
    }

    fn instruction(&mut self, index: usize, instruction: &Instruction) -> Result<()> {
        match instruction {
            Instruction::DelegateCall { delegate, args } => self.delegate_call(index, *delegate, args),
            Instruction::KernelCall { operator, args } => self.kernel_call(index, *operator, args),
            Instruction::Move { from, to } => self.rename(*from, *to),
            Instruction::Free { .. } => Ok(()),
            Instruction::JumpFalse { .. } => Err(Error::Unsupported {
                what: format!("instruction {index}, a conditional jump"),
                supported: "delegate calls, aten::copy_, moves".into(),
            }),
        }
    }

    fn kernel_call(&mut self, index: usize, operator: usize, args: &[ValueId]) -> Result<()> {
        let operator = &self.method.operators[operator];
        if operator.name != "aten::copy_" {
            let separator = if operator.overload.is_empty() { "" } else { "." };
            return Err(Error::Unsupported {
                what: format!(
                    "instruction {index}, operator {}{separator}{} on the CPU",
                    operator.name.escape_debug(),
                    operator.overload.escape_debug()
                ),
                supported: "aten::copy_ outside the delegate".into(),
            });
        }
        let &[destination, source, _non_blocking, out] = args else {
            let got = args.len();
            return Err(Error::Malformed(format!("instruction {index}: aten::copy_ wants 4 arguments, got {got}")));
        };
        let (to, from) = (self.meta(destination)?, self.meta(source)?);
        if (to.dtype, &to.sizes) != (from.dtype, &from.sizes) {
            return Err(Error::Unsupported {
                what: format!("instruction {index}, aten::copy_ of {:?} to {:?}", from.sizes, to.sizes),
                supported: "copies between tensors of one type and shape".into(),
            });
        }
        self.rename(source, destination)?;
        self.rename(source, out)
    }

    /// Lets `to` name what `from` names.
    fn rename(&mut self, from: ValueId, to: ValueId) -> Result<()> {
        let tensor = self.named(from)?;
        self.names[to.0 as usize] = Some(tensor);
        Ok(())
    }

    fn delegate_call(&mut self, index: usize, delegate: usize, args: &[ValueId]) -> Result<()> {
        let delegate = &self.method.delegates[delegate];
        if delegate.id != BACKEND {
            return Err(Error::Unsupported {
                what: format!("instruction {index}, a delegate {:?}", delegate.id),
                supported: BACKEND.into(),
            });
        }
        let is_set = |value: &[u8]| value.iter().any(|&byte| byte != 0);
        if delegate.compile_specs.iter().any(|spec| spec.key == "force_fp16" && is_set(spec.value)) {
            return Err(Error::Unsupported {
                what: format!("instruction {index}, a delegate exported with force_fp16"),
                supported: "delegates in f32".into(),
            });
        }
        let vk = DelegateGraph::parse(delegate.blob)?;
        let wanted = vk.inputs.len() + vk.outputs.len();
        if args.len() != wanted {
            let (inputs, outputs, got) = (vk.inputs.len(), vk.outputs.len(), args.len());
            return Err(Error::Malformed(format!(
                "instruction {index}: the delegate has {inputs} inputs and {outputs} outputs, the call gives {got}"
            )));
        }
        let (inputs, outputs) = args.split_at(vk.inputs.len());
        let written = written_values(&vk);
        let mut bound: Vec<TensorId> = Vec::with_capacity(inputs.len());
        for (position, (&value, &vk_input)) in inputs.iter().zip(&vk.inputs).enumerate() {
            let tensor = self.named(value)?;
            self.check_delegate_input((index, position), tensor, (vk_input, &vk.values[vk_input.0 as usize]))?;
            let shared = inputs
                .iter()
                .enumerate()
                .any(|(other, &id)| other != position && self.names[id.0 as usize] == Some(tensor));
            let writes = written.contains(&vk_input);
            let needed = writes && (shared || self.is_needed_after(index, tensor, outputs));
            bound.push(if needed { self.copy(index, tensor)? } else { tensor });
        }
        let mut lowering = DelegateLowering::new(&mut self.graph, self.named, &vk, index as u32);
        for (&vk_input, &tensor) in vk.inputs.iter().zip(&bound) {
            lowering.bind(vk_input, tensor);
        }
        lowering.lower_chain()?;
        let results: Vec<TensorId> = vk.outputs.iter().map(|&output| lowering.tensor(output)).collect::<Result<_>>()?;
        for (&value, tensor) in outputs.iter().zip(results) {
            self.names[value.0 as usize] = Some(tensor);
        }
        Ok(())
    }

    fn check_delegate_input(
        &self,
        (index, position): (usize, usize),
        tensor: TensorId,
        (id, value): (VkValueId, &VkValue<'_>),
    ) -> Result<()> {
        let tensor = self.graph.tensor(tensor);
        let VkValue::Tensor(meta) = value else {
            return Err(Error::Unsupported {
                what: format!("instruction {index}: delegate input {position}, which is no tensor"),
                supported: "tensors".into(),
            });
        };
        let dtype = tensor_dtype(id, meta.dtype)?;
        if (dtype, meta.dims.as_slice()) != (tensor.dtype, tensor.bound.as_slice()) {
            return Err(Error::Malformed(format!(
                "instruction {index}: delegate input {position} is {dtype}{:?}, and the program gives {}{}",
                meta.dims, tensor.dtype, tensor.bound
            )));
        }
        Ok(())
    }

    /// Whether anything after instruction `index` reads what `tensor` holds before the delegate writes into it.
    ///
    /// The names of `tensor` are followed until they are given another tensor. A copy of the delegate's own result
    /// into such a name ends it too: that is how a program keeps a cache on the host.
    fn is_needed_after(&self, index: usize, tensor: TensorId, results: &[ValueId]) -> bool {
        if matches!(self.graph.tensor(tensor).origin, Origin::Constant(_)) {
            return true;
        }
        let mut old: Vec<ValueId> = (0..self.names.len() as u32)
            .map(ValueId)
            .filter(|id| self.names[id.0 as usize] == Some(tensor) && !results.contains(id))
            .collect();
        for instruction in &self.method.instructions[index + 1..] {
            let (reads, writes): (&[ValueId], &[ValueId]) = match instruction {
                Instruction::KernelCall { args, .. } => match args.as_slice() {
                    [destination, source, _, out] if destination == out => (&[*source][..], &[*destination][..]),
                    args => (args, &[]),
                },
                Instruction::DelegateCall { args, .. } => (args, &[]),
                Instruction::Move { from, to } => (&[*from][..], &[*to][..]),
                Instruction::JumpFalse { .. } | Instruction::Free { .. } => (&[], &[]),
            };
            if reads.iter().any(|id| old.contains(id)) {
                return true;
            }
            old.retain(|id| !writes.contains(id));
        }
        // An input's name outlives the run: its buffer may be given to the next one as it is. That the delegate wrote
        // into it and nothing was copied back would change it unasked.
        self.method.outputs.iter().chain(&self.method.inputs).any(|id| old.contains(id))
    }

    /// A copy of a tensor for a delegate to write into.
    fn copy(&mut self, index: usize, from: TensorId) -> Result<TensorId> {
        let source = self.graph.tensor(from);
        let (dtype, bound) = (source.dtype, source.bound);
        let to = self.graph.push_tensor(dtype, bound.as_slice(), Origin::Computed)?;
        self.push_copy(index, from, to);
        Ok(to)
    }

    fn push_copy(&mut self, index: usize, from: TensorId, to: TensorId) {
        let operator = Operator::CopyTensor(CopyTensor { from, to });
        self.graph.nodes.push(Node { id: index as u32, instruction: index as u32, operator });
    }

    fn outputs(&mut self) -> Result<()> {
        for &id in &self.method.outputs {
            let output = match &self.method.values[id.0 as usize] {
                Value::Int(value) => GraphOutput::Int(*value),
                Value::Bool(value) => GraphOutput::Bool(*value),
                Value::Double(value) => GraphOutput::Double(*value),
                Value::Tensor(meta) => {
                    let host_dtype = host_dtype(id, meta.dtype)?;
                    GraphOutput::Tensor { tensor: self.named(id)?, host_dtype, mutates_input: None }
                }
                other => {
                    return Err(Error::Unsupported {
                        what: format!("an output {other:?} (value {})", id.0),
                        supported: "tensors and scalars".into(),
                    });
                }
            };
            self.graph.outputs.push(output);
        }
        Ok(())
    }

    /// Copies the new content of an input back where it ended in another tensor.
    fn carry_inputs(&mut self) -> Result<()> {
        let ends: Vec<(TensorId, TensorId)> = (self.method.inputs.iter().zip(&self.graph.inputs))
            .filter_map(|(id, input)| Some((self.names[id.0 as usize]?, input.tensor)))
            .filter(|(end, own)| end != own)
            .collect();
        let last = self.method.instructions.len().saturating_sub(1);
        for &(end, own) in &ends {
            let read_elsewhere = ends.iter().any(|(other, _)| *other == own)
                || self
                    .graph
                    .outputs
                    .iter()
                    .any(|output| matches!(output, GraphOutput::Tensor { tensor, .. } if *tensor == own));
            if read_elsewhere {
                return Err(Error::Unsupported {
                    what: "a program that both changes an input and returns what it held before".into(),
                    supported: "inputs that are changed, or returned".into(),
                });
            }
            self.push_copy(last, end, own);
        }
        Ok(())
    }

    /// The tensor that a value names now.
    fn named(&mut self, id: ValueId) -> Result<TensorId> {
        if let Some(tensor) = self.names[id.0 as usize] {
            return Ok(tensor);
        }
        let meta = self.meta(id)?;
        let Some(bytes) = self.named.program.constant(meta.data_buffer_idx) else {
            return Err(Error::Malformed(format!("value {} is read before anything writes it", id.0)));
        };
        let dtype = host_dtype(id, meta.dtype)?;
        crate::tensor::TensorView::new(dtype, &meta.sizes, bytes)
            .map_err(|error| Error::Malformed(format!("value {}: {error}", id.0)))?;
        if dtype == DType::I64 {
            return Err(Error::Unsupported {
                what: format!("a constant of 64-bit integers outside the delegate (value {})", id.0),
                supported: "f32, i32, u8, i8, bool".into(),
            });
        }
        let tensor = self.graph.push_tensor(dtype, &meta.sizes, Origin::Constant(bytes))?;
        self.names[id.0 as usize] = Some(tensor);
        Ok(tensor)
    }

    fn meta(&self, id: ValueId) -> Result<&'p TensorMeta> {
        match &self.method.values[id.0 as usize] {
            Value::Tensor(meta) => Ok(meta),
            other => Err(Error::Unsupported {
                what: format!("value {} used as a tensor, which is {other:?}", id.0),
                supported: "tensors".into(),
            }),
        }
    }
}

/// The type in which the host gives or gets a value.
fn host_dtype(id: ValueId, dtype: ScalarType) -> Result<DType> {
    Ok(match dtype {
        ScalarType::F32 => DType::F32,
        ScalarType::F16 => DType::F16,
        ScalarType::I32 => DType::I32,
        ScalarType::I64 => DType::I64,
        ScalarType::U8 => DType::U8,
        ScalarType::I8 => DType::I8,
        ScalarType::Bool => DType::Bool,
        other => {
            return Err(Error::Unsupported {
                what: format!("a tensor of type {other:?} (value {})", id.0),
                supported: "f32, f16, i32, i64, u8, i8, bool".into(),
            });
        }
    })
}

/// The type on the GPU: 64-bit integers are narrowed.
fn device_dtype(host: DType) -> DType {
    if host == DType::I64 { DType::I32 } else { host }
}
