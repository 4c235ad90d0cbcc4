//! The choice for every step of a node, made ahead: a run looks it up.

use super::attention::Implementation;
use super::refusal::Refusal;
use crate::kernels::AttentionProblem;

/// How many new tokens a node's steps have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// As many as the bound.
    Exactly,
    /// One to as many as the bound.
    UpTo,
}

/// The sizes that a node's steps can have, each a stand-in for those below it: so that the choices can be counted, and
/// their pipelines made, before any step is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) most_tokens: u32,
    pub(super) most_keys: u32,
    /// Whether steps may have fewer than the most tokens.
    pub(super) dynamic: bool,
}

impl Sizes {
    /// The problem that stands for another: keys are rounded up to powers of two, and so are tokens, of which 2 are 4.
    pub(super) fn standing_for(&self, problem: &AttentionProblem) -> AttentionProblem {
        let new_tokens = match problem.new_tokens {
            1 => 1,
            2 => 4.min(self.most_tokens),
            many => many.next_power_of_two().min(self.most_tokens),
        };
        let keys = problem.context_len().next_power_of_two().min(self.most_keys).max(new_tokens);
        AttentionProblem { new_tokens, input_pos: keys - new_tokens, ..*problem }
    }

    /// Tokens and keys of all that stand for others.
    pub(super) fn all(self) -> impl Iterator<Item = [u32; 2]> {
        let powers = || (0..32).map(|power| 1u32 << power);
        let tokens = powers().filter(move |&tokens| self.dynamic && tokens != 2 && tokens < self.most_tokens);
        let tokens = tokens.chain([self.most_tokens]);
        tokens.flat_map(move |tokens| {
            let keys = powers().filter(move |&keys| keys > tokens && keys < self.most_keys);
            keys.chain([tokens, self.most_keys]).map(move |keys| [tokens, keys])
        })
    }
}

/// The choice for every step of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub(super) sizes: Sizes,
    /// By tokens and keys, sorted.
    pub(super) entries: Vec<([u32; 2], Result<Implementation, Refusal>)>,
}

impl Table {
    /// What a step takes.
    ///
    /// # Errors
    /// Why the route that was asked for cannot serve it.
    pub fn look_up(&self, problem: &AttentionProblem) -> Result<Implementation, Refusal> {
        let stand_in = self.sizes.standing_for(problem);
        let sizes = [stand_in.new_tokens, stand_in.context_len()];
        let found = self.entries.binary_search_by_key(&sizes, |(sizes, _)| *sizes);
        // A step beyond the most tokens was refused when shapes were inferred.
        match found.map_or(Err(Refusal::Tokens(problem.new_tokens)), |index| self.entries[index].1) {
            // Of the step itself, not of what stands for it.
            Err(Refusal::Tokens(_)) => Err(Refusal::Tokens(problem.new_tokens)),
            choice => choice,
        }
    }

    /// Every implementation that some step takes.
    pub fn reachable(&self) -> Vec<Implementation> {
        let mut found: Vec<Implementation> = Vec::new();
        for implementation in self.entries.iter().filter_map(|(_, choice)| choice.ok()) {
            if !found.contains(&implementation) {
                found.push(implementation);
            }
        }
        found
    }

    /// Tokens and keys of the steps that take an implementation.
    pub fn steps_of(&self, implementation: Implementation) -> impl Iterator<Item = [u32; 2]> {
        self.entries.iter().filter(move |(_, choice)| *choice == Ok(implementation)).map(|(sizes, _)| *sizes)
    }

    /// Why no step can be served, where none can.
    pub fn refusal(&self) -> Option<Refusal> {
        let refusals = self.entries.iter().map(|(_, choice)| choice.err()).collect::<Option<Vec<Refusal>>>()?;
        refusals.first().copied()
    }
}
