//! The dispatches of attention: those of every implementation that some step can take.

use std::sync::Arc;

use super::attention::{Implementation, Rules};
use super::buffers::Scratch;
use super::builder::{Builder, Draft, Operand};
use super::launch::{Attention, Launch, attention_problem};
use super::refusal::Refusal;
use super::stage::{Parts, Stage};
use super::table::{Table, Tokens};
use super::{Alternative, Choice, PARAMS_SLOT_BYTES, Route};
use crate::error::{Error, Result};
use crate::graph::{Attend, IntArg, SdpaWithKvCache, UpdateCache};
use crate::kernels::{
    AttentionProblem, Variant, Width, sdpa_compute_attn_weights, sdpa_compute_out, sdpa_matrix, sdpa_merge,
    sdpa_softmax, sdpa_split, sdpa_streaming,
};

/// A kernel of an implementation.
struct Kernel {
    variant: Variant,
    operands: Vec<Operand>,
    stage: Stage,
}

impl Builder<'_, '_> {
    /// Keys and values into their caches, then attention.
    pub(super) fn sdpa_with_kv_cache(&mut self, node: u32, op: &SdpaWithKvCache) -> Result<Vec<Draft>> {
        let SdpaWithKvCache { q, k, v, k_cache, v_cache, input_pos, scale, out } = *op;
        let writes = [(k, k_cache), (v, v_cache)].map(|(value, cache)| UpdateCache { value, cache, input_pos });
        let mut drafts: Vec<Draft> = writes.iter().map(|write| self.update_cache(write)).collect();
        drafts.extend(self.attend(node, &Attend { q, k_cache, v_cache, input_pos, scale, out })?);
        Ok(drafts)
    }

    /// Attention in every way that some step can take.
    pub(super) fn attend(&mut self, node: u32, op: &Attend) -> Result<Vec<Draft>> {
        let largest = self.largest_problem(op);
        let tokens = if self.is_static(op.q) { Tokens::Exactly } else { Tokens::UpTo };
        let rules = Rules::new(self.options, self.facts, &largest, tokens);
        let table = self.table(&rules, &largest);
        if let Some(refusal) = table.refusal() {
            return Err(unsupported(self.graph.nodes[node as usize].id, &rules, &largest, refusal));
        }
        let attention =
            Attention { q: op.q, k_cache: op.k_cache, input_pos: op.input_pos, scale: op.scale, kv: self.options.kv };
        let choice = self.choices.len() as u32;
        let mut drafts = Vec::new();
        for implementation in table.reachable() {
            let steps: Vec<AttentionProblem> = table
                .steps_of(implementation)
                .map(|[new_tokens, keys]| AttentionProblem { new_tokens, input_pos: keys - new_tokens, ..largest })
                .collect();
            for kernel in self.kernels(node, op, implementation, &steps)? {
                let Kernel { variant, operands, stage } = kernel;
                let mut slot = [0; PARAMS_SLOT_BYTES as usize];
                let workgroups = steps.iter().map(|problem| stage.resolve(problem, self.options.kv, &mut slot)).max();
                drafts.push(Draft {
                    variant,
                    operands,
                    alternative: Some(Alternative { choice, implementation }),
                    launch: Launch::Attention(attention, stage),
                    max_workgroups: workgroups,
                });
            }
        }
        self.choices.push(Choice { node, attention, largest, rules, table });
        Ok(drafts)
    }

    /// The table of choices; layers of one model share theirs.
    fn table(&self, rules: &Rules, largest: &AttentionProblem) -> Arc<Table> {
        let known = self.choices.iter().find(|choice| choice.rules == *rules && choice.largest == *largest);
        known.map_or_else(|| Arc::new(rules.table(largest)), |choice| choice.table.clone())
    }

    /// The most tokens over the longest context that a program's bounds allow.
    fn largest_problem(&self, op: &Attend) -> AttentionProblem {
        let [q, cache] = [op.q, op.k_cache].map(|tensor| self.graph.tensor(tensor).bound);
        let mut problem = attention_problem(q, cache, 0, op.scale);
        let cache_rows = cache.as_slice().get(1).copied().unwrap_or(0);
        // More tokens than the cache has rows are refused when they are run.
        problem.new_tokens = problem.new_tokens.min(cache_rows).max(1);
        let last_pos = cache_rows.saturating_sub(problem.new_tokens);
        problem.input_pos = match op.input_pos {
            IntArg::Known(position) => u32::try_from(position).unwrap_or(0).min(last_pos),
            IntArg::Live(_) => last_pos,
        };
        problem
    }

    fn kernels(
        &mut self,
        node: u32,
        op: &Attend,
        implementation: Implementation,
        steps: &[AttentionProblem],
    ) -> Result<Vec<Kernel>> {
        match implementation {
            Implementation::Materialised => self.materialised(node, op, steps),
            Implementation::Streaming(shape) => {
                let operands = [op.q, op.k_cache, op.v_cache, op.out].map(Operand::Tensor).to_vec();
                let variant = sdpa_streaming::variant(shape);
                Ok(vec![Kernel { variant, operands, stage: Stage::Streaming(shape) }])
            }
            Implementation::Split(shape) => Ok(self.split(op, shape, steps)),
            Implementation::Matrix(shape) => Ok(self.matrix(op, shape, steps)),
        }
    }

    /// Scores and weights as a tensor of their own.
    fn materialised(&mut self, node: u32, op: &Attend, steps: &[AttentionProblem]) -> Result<Vec<Kernel>> {
        let Some(largest) = steps.iter().max_by_key(|problem| problem.scores()) else { return Ok(vec![]) };
        let scores = Operand::Scratch(self.scores_scratch(node, largest));
        let kv = self.options.kv;
        let width = Width::dividing(largest.head_dim, kv);
        let tensor = Operand::Tensor;
        Ok(vec![
            Kernel {
                variant: sdpa_compute_attn_weights::variant(width, kv),
                operands: vec![tensor(op.q), tensor(op.k_cache), scores],
                stage: Stage::ComputeAttnWeights,
            },
            Kernel { variant: sdpa_softmax::variant(), operands: vec![scores], stage: Stage::Softmax },
            Kernel {
                variant: sdpa_compute_out::variant(width, kv),
                operands: vec![scores, tensor(op.v_cache), tensor(op.out)],
                stage: Stage::ComputeOut,
            },
        ])
    }

    fn split(&mut self, op: &Attend, shape: sdpa_split::Shape, steps: &[AttentionProblem]) -> Vec<Kernel> {
        let target_workgroups = self.target_workgroups();
        let splits = |problem: &AttentionProblem| sdpa_split::splits(problem, shape, target_workgroups);
        let (parts, [partial_out, partial_max_sum]) = self.parts(target_workgroups, steps, splits);
        let blocks = steps.iter().map(|problem| sdpa_split::workgroups(problem, shape, 1)).max().unwrap_or(1);
        self.counters = self.counters.max(blocks);
        let tensor = Operand::Tensor;
        let inputs = [op.q, op.k_cache, op.v_cache].map(tensor);
        let mut kernels = vec![Kernel {
            variant: sdpa_split::variant(shape),
            operands: [&inputs[..], &[partial_out, partial_max_sum, Operand::Counters, tensor(op.out)]].concat(),
            stage: Stage::Split(shape, parts),
        }];
        if shape.merge == sdpa_split::Merge::Dispatch && steps.iter().any(|problem| splits(problem) > 1) {
            let variant = sdpa_merge::variant(sdpa_merge::Shape { head_dim: shape.head_dim });
            let operands = vec![partial_out, partial_max_sum, tensor(op.out)];
            kernels.push(Kernel { variant, operands, stage: Stage::MergeSplit(shape, parts) });
        }
        kernels
    }

    fn matrix(&mut self, op: &Attend, shape: sdpa_matrix::Shape, steps: &[AttentionProblem]) -> Vec<Kernel> {
        let splits = |problem: &AttentionProblem| sdpa_matrix::splits(problem, shape);
        let (parts, [partial_out, partial_max_sum]) = self.parts(self.target_workgroups(), steps, splits);
        let tensor = Operand::Tensor;
        let inputs = [op.q, op.k_cache, op.v_cache].map(tensor);
        let mut kernels = vec![Kernel {
            variant: sdpa_matrix::variant(shape),
            operands: [&inputs[..], &[partial_out, partial_max_sum, tensor(op.out)]].concat(),
            stage: Stage::Matrix(shape, parts),
        }];
        if shape.split {
            let variant = sdpa_merge::variant(sdpa_merge::Shape { head_dim: shape.head_dim });
            let operands = vec![partial_out, partial_max_sum, tensor(op.out)];
            kernels.push(Kernel { variant, operands, stage: Stage::MergeMatrix(shape, parts) });
        }
        kernels
    }

    fn target_workgroups(&self) -> u32 {
        if self.facts.is_cpu { sdpa_split::CPU_WORKGROUPS } else { sdpa_split::GPU_WORKGROUPS }
    }

    /// Scratch for the parts of the keys: outputs, then maxima and sums. It holds as many as the steps want, or as many
    /// as one binding can.
    fn parts(
        &mut self,
        target_workgroups: u32,
        steps: &[AttentionProblem],
        splits: impl Fn(&AttentionProblem) -> u32,
    ) -> (Parts, [Operand; 2]) {
        let head_dim = steps.first().map_or(4, |problem| u64::from(problem.head_dim));
        let rows = |problem: &AttentionProblem| match splits(problem) {
            // Nothing is left to join: the result is written in its place.
            1 => 0,
            splits => u64::from(problem.q_heads) * u64::from(problem.new_tokens) * u64::from(splits),
        };
        let wanted = steps.iter().map(rows).max().unwrap_or(0);
        let limits = &self.facts.limits;
        let capacity_rows = wanted.min(limits.largest_binding() / (4 * head_dim));
        let mut scratch = |row_bytes: u64| {
            let size_bytes = (capacity_rows * row_bytes).max(16);
            let what = "sdpa_with_kv_cache: partial results".to_owned();
            self.scratch.push(Scratch { size_bytes, what, hint: String::new() });
            Operand::Scratch(self.scratch.len() - 1)
        };
        (Parts { target_workgroups, capacity_rows }, [scratch(4 * head_dim), scratch(8)])
    }

    fn scores_scratch(&mut self, node: u32, problem: &AttentionProblem) -> usize {
        let token_bytes = 4 * u64::from(problem.q_heads) * u64::from(problem.context_len());
        let limits = &self.facts.limits;
        let fitting = limits.largest_binding() / token_bytes;
        let (s, t, id) = (problem.new_tokens, problem.context_len(), self.graph.nodes[node as usize].id);
        self.scratch.push(Scratch {
            // Saturates at a multiple of 16, which no device allows.
            size_bytes: problem.scores().saturating_mul(4).min(u64::MAX - 15),
            what: format!(
                "sdpa_with_kv_cache (node {id}): scores of {} heads x {s} tokens x {t} keys",
                problem.q_heads
            ),
            hint: format!("; steps of up to {fitting} tokens would fit"),
        });
        self.scratch.len() - 1
    }
}

/// A route that was asked for and cannot serve, with those that can.
pub(super) fn unsupported(node: u32, rules: &Rules, problem: &AttentionProblem, refusal: Refusal) -> Error {
    let (_, others) = rules.explain(problem);
    let serving =
        |&(route, refusal): &(Route, Refusal)| matches!(refusal, Refusal::NotAskedFor(_)).then(|| route.name());
    let serving: Vec<&str> = others.iter().filter_map(serving).collect();
    let asked = rules.asked_for().map_or("any", Route::name);
    Error::Unsupported {
        what: format!("sdpa_with_kv_cache (node {node}) by route {asked}: {refusal}"),
        supported: serving.join(", "),
    }
}
