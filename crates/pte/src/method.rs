//! The methods of a program: instructions over values, and the delegates that they call.

use crate::bounds::checked_index;
use crate::budget::Budget;
use crate::error::{Error, Within, quoted};
use crate::generated::program as wire;
use crate::{Value, ValueId};

/// One entry point of a program. Every id and index in it is in range.
#[derive(Clone, Debug)]
pub struct Method<'a> {
    /// The name that callers use, such as "forward".
    pub name: &'a str,
    /// Everything that the method refers to; a [`ValueId`] is an index here.
    pub values: Vec<Value<'a>>,
    /// Values that the caller fills.
    pub inputs: Vec<ValueId>,
    /// Values that the caller reads. An output may be an input or, without any instruction, a constant.
    pub outputs: Vec<ValueId>,
    /// What to do, in order; several chains stand one behind the other.
    pub instructions: Vec<Instruction>,
    /// Operators that [`Instruction::KernelCall`] refers to.
    pub operators: Vec<OperatorName<'a>>,
    /// Delegates that [`Instruction::DelegateCall`] refers to.
    pub delegates: Vec<Delegate<'a>>,
}

/// One step of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Runs an operator outside of all delegates.
    KernelCall {
        /// Index into [`Method::operators`].
        operator: usize,
        /// Arguments in the order of the operator's schema, outputs last.
        args: Vec<ValueId>,
    },
    /// Runs a delegate.
    DelegateCall {
        /// Index into [`Method::delegates`].
        delegate: usize,
        /// The delegate's inputs, then its outputs, in the delegate's own order.
        args: Vec<ValueId>,
    },
    /// Makes a value the same as another.
    Move {
        /// The value to take.
        from: ValueId,
        /// The value to set.
        to: ValueId,
    },
    /// Jumps where a truth value is false.
    JumpFalse {
        /// The truth value.
        condition: ValueId,
        /// Index into [`Method::instructions`], or their number: the end.
        destination: usize,
    },
    /// Frees the memory of a tensor.
    Free {
        /// The tensor.
        value: ValueId,
    },
}

/// The name of an operator outside of all delegates, such as `aten::copy_` without overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperatorName<'a> {
    /// Name with namespace.
    pub name: &'a str,
    /// Overload; often empty.
    pub overload: &'a str,
}

/// A part of a method that a back end runs.
#[derive(Clone, Debug)]
pub struct Delegate<'a> {
    /// The back end, such as `VulkanBackend`.
    pub id: &'a str,
    /// The back end's own format; [`DelegateGraph::parse`](crate::DelegateGraph::parse) reads the Vulkan one.
    pub blob: &'a [u8],
    /// Options that the delegate was compiled with.
    pub compile_specs: Vec<CompileSpec<'a>>,
}

/// One option that a delegate was compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileSpec<'a> {
    /// The option's name.
    pub key: &'a str,
    /// The option's value, in the back end's own encoding.
    pub value: &'a [u8],
}

/// Where the delegates of a program keep their blobs.
pub(crate) struct DelegateBlobs<'a> {
    pub(crate) inline: Vec<&'a [u8]>,
    pub(crate) segments: Vec<&'a [u8]>,
}

impl<'a> Method<'a> {
    pub(crate) fn decode(
        plan: wire::ExecutionPlanRef<'a>,
        blobs: &DelegateBlobs<'a>,
        budget: &mut Budget,
    ) -> Result<Self, Error> {
        let name = budget.text(plan.name()?)?.ok_or_else(|| Error::malformed("method", "has no name"))?;
        Self::decode_named(name, plan, blobs, budget).within(|| format!("method {}", quoted(name)))
    }

    fn decode_named(
        name: &'a str,
        plan: wire::ExecutionPlanRef<'a>,
        blobs: &DelegateBlobs<'a>,
        budget: &mut Budget,
    ) -> Result<Self, Error> {
        let value_count = plan.values()?.map_or(0, |values| values.len());
        let values = budget.list(plan.values()?, |budget, index, value| {
            Value::decode(value?, value_count, budget).within(|| format!("value {index}"))
        })?;
        let inputs = value_ids(plan.inputs()?, value_count, budget).within(|| "inputs".into())?;
        let outputs = value_ids(plan.outputs()?, value_count, budget).within(|| "outputs".into())?;
        let operators = budget.list(plan.operators()?, |budget, _, operator| {
            let operator = operator?;
            Ok(OperatorName {
                name: budget.text(operator.name()?)?.unwrap_or_default(),
                overload: budget.text(operator.overload()?)?.unwrap_or_default(),
            })
        })?;
        let delegates = budget.list(plan.delegates()?, |budget, index, delegate| {
            Delegate::decode(delegate?, blobs, budget).within(|| format!("delegate {index}"))
        })?;
        let counts = Counts { values: value_count, operators: operators.len(), delegates: delegates.len() };
        let instructions = counts.decode_chains(plan, budget)?;
        Ok(Self { name, values, inputs, outputs, instructions, operators, delegates })
    }
}

impl<'a> Delegate<'a> {
    fn decode(
        delegate: wire::BackendDelegateRef<'a>,
        blobs: &DelegateBlobs<'a>,
        budget: &mut Budget,
    ) -> Result<Self, Error> {
        let Some(id) = budget.text(delegate.id()?)? else {
            return Err(Error::malformed("id", "missing"));
        };
        let Some(place) = delegate.processed()? else {
            return Err(Error::malformed("blob", "the delegate does not say where it is"));
        };
        let (list, what) = match place.location()? {
            0 => (&blobs.inline, "inline delegate data"),
            1 => (&blobs.segments, "segment"),
            other => return Err(Error::unsupported("blob", format!("location {other}"))),
        };
        let blob = list[checked_index(place.index()?, list.len(), what)? as usize];
        let compile_specs = budget.list(delegate.compile_specs()?, |budget, _, spec| {
            let spec = spec?;
            Ok(CompileSpec {
                key: budget.text(spec.key()?)?.unwrap_or_default(),
                value: spec.value()?.unwrap_or_default(),
            })
        })?;
        Ok(Self { id, blob, compile_specs })
    }
}

/// How many of each thing an instruction may refer to.
struct Counts {
    values: usize,
    operators: usize,
    delegates: usize,
}

impl Counts {
    fn decode_chains(&self, plan: wire::ExecutionPlanRef<'_>, budget: &mut Budget) -> Result<Vec<Instruction>, Error> {
        let Some(chains) = plan.chains()? else {
            return Ok(Vec::new());
        };
        let mut instructions = Vec::new();
        for (chain_index, chain) in chains.iter().enumerate() {
            let wire = chain?.instructions()?;
            let count = wire.map_or(0, |wire| wire.len());
            let chain = budget.list(wire, |budget, index, instruction| {
                let decoded = self.decode_instruction(instruction?, count, budget);
                decoded.within(|| format!("chain {chain_index}, instruction {index}"))
            })?;
            // Behind another chain the destination would be an index into the wrong list.
            if chains.len() > 1 && chain.iter().any(|step| matches!(step, Instruction::JumpFalse { .. })) {
                return Err(Error::unsupported(
                    format!("chain {chain_index}"),
                    format!("a jump in a method of {} chains", chains.len()),
                ));
            }
            instructions.extend(chain);
        }
        Ok(instructions)
    }

    fn decode_instruction(
        &self,
        instruction: wire::InstructionRef<'_>,
        chain_length: usize,
        budget: &mut Budget,
    ) -> Result<Instruction, Error> {
        use wire::InstructionArgumentsRef as Wire;
        let Some(arguments) = instruction.instr_args()? else {
            return Err(Error::malformed("instruction", "has no content"));
        };
        let value = |raw: i32| ValueId::checked(raw, self.values);
        Ok(match arguments {
            Wire::KernelCall(call) => Instruction::KernelCall {
                operator: checked_index(call.op_index()?, self.operators, "operator")? as usize,
                args: value_ids(call.args()?, self.values, budget)?,
            },
            Wire::DelegateCall(call) => Instruction::DelegateCall {
                delegate: checked_index(call.delegate_index()?, self.delegates, "delegate")? as usize,
                args: value_ids(call.args()?, self.values, budget)?,
            },
            Wire::MoveCall(call) => Instruction::Move { from: value(call.move_from()?)?, to: value(call.move_to()?)? },
            Wire::JumpFalseCall(call) => Instruction::JumpFalse {
                condition: value(call.cond_value_index()?)?,
                destination: checked_index(call.destination_instruction()?, chain_length + 1, "destination")? as usize,
            },
            Wire::FreeCall(call) => Instruction::Free { value: value(call.value_index()?)? },
        })
    }
}

fn value_ids(
    ids: Option<planus::Vector<'_, i32>>,
    value_count: usize,
    budget: &mut Budget,
) -> Result<Vec<ValueId>, Error> {
    budget.list(ids, |_, _, id| ValueId::checked(id, value_count))
}
