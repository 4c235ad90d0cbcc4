//! Which route a step of attention takes, and why no other.
//!
//! The choice is a pure function of the problem and of what is known of the device. A plan holds the dispatches of every
//! route that some step can take; each run launches those of one.

use super::refusal::Refusal;
use super::table::{Sizes, Table, Tokens};
use super::{DeviceFacts, PlanOptions, Route};
use crate::kernels::sdpa_matrix::Scores;
use crate::kernels::{AttentionProblem, KvType, Needs, sdpa_matrix, sdpa_split, sdpa_streaming};

/// The largest head that all routes but the plainest are made for.
pub(super) const MAX_HEAD_DIM: u32 = 256;
/// The most new tokens that the split route takes.
pub(super) const SPLIT_TOKENS: u32 = 8;

/// Mesa's software adapter leaves the loops of an invocation after 65535 turns in all, without a word.
const CPU_LOOP_TURNS: u64 = 65_000;

/// A route and the shape of its kernels: what a step's dispatches follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Implementation {
    /// [`Route::Materialised`].
    Materialised,
    /// [`Route::Split`].
    Split(sdpa_split::Shape),
    /// [`Route::Streaming`].
    Streaming(sdpa_streaming::Shape),
    /// [`Route::Matrix`].
    Matrix(sdpa_matrix::Shape),
}

impl Implementation {
    /// The route.
    pub const fn route(&self) -> Route {
        match self {
            Self::Materialised => Route::Materialised,
            Self::Split(_) => Route::Split,
            Self::Streaming(_) => Route::Streaming,
            Self::Matrix(_) => Route::Matrix,
        }
    }
}

/// How routes are chosen on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    options: PlanOptions,
    workgroup_bytes: u32,
    workgroup_size: u32,
    subgroup_sizes: Option<[u32; 2]>,
    shader_f16: bool,
    cooperative_matrix: bool,
    is_cpu: bool,
    /// Where the last workgroup of a dispatch was tested to see what the others wrote.
    merges_in_dispatch: bool,
    sizes: Sizes,
}

impl Rules {
    /// The rules for steps of at most `largest`'s context, and its tokens or fewer, as `tokens` says.
    pub fn new(options: PlanOptions, facts: &DeviceFacts, largest: &AttentionProblem, tokens: Tokens) -> Self {
        Self {
            options,
            workgroup_bytes: facts.limits.max_compute_workgroup_storage_size,
            workgroup_size: facts.limits.max_compute_invocations_per_workgroup,
            subgroup_sizes: facts.subgroup_sizes,
            shader_f16: facts.shader_f16,
            cooperative_matrix: facts.cooperative_matrix,
            is_cpu: facts.is_cpu,
            merges_in_dispatch: facts.backend == "vulkan" && facts.name.contains("NVIDIA"),
            sizes: Sizes {
                most_tokens: largest.new_tokens,
                most_keys: largest.context_len(),
                dynamic: tokens == Tokens::UpTo,
            },
        }
    }

    /// The route that was asked for.
    pub fn asked_for(&self) -> Option<Route> {
        self.options.route
    }

    /// What a step takes.
    ///
    /// # Errors
    /// Why the route that was asked for cannot serve it.
    pub fn choose(&self, problem: &AttentionProblem) -> Result<Implementation, Refusal> {
        let stand_in = self.sizes.standing_for(problem);
        match self.options.route.map(|route| self.implementation(route, &stand_in)) {
            // Of the step itself, not of what stands for it.
            Some(Err(Refusal::Tokens(_))) => Err(Refusal::Tokens(problem.new_tokens)),
            Some(choice) => choice,
            None => Ok(self.fastest(&stand_in)),
        }
    }

    /// What a step takes, and why it does not take each other route.
    pub fn explain(&self, problem: &AttentionProblem) -> (Result<Implementation, Refusal>, Vec<(Route, Refusal)>) {
        let chosen = self.choose(problem);
        let taken = chosen.ok().map(|implementation| implementation.route());
        let others = Route::ALL.into_iter().filter(|&route| Some(route) != taken).map(|route| {
            let refusal =
                match (self.implementation(route, &self.sizes.standing_for(problem)), self.options.route, taken) {
                    (Err(refusal), ..) => refusal,
                    (Ok(_), Some(asked), _) => Refusal::NotAskedFor(asked),
                    (Ok(_), None, taken) => Refusal::Slower(taken.unwrap_or(Route::Materialised)),
                };
            (route, refusal)
        });
        (chosen, others.collect())
    }

    /// The choice for every step, ready to be looked up.
    pub fn table(&self, largest: &AttentionProblem) -> Table {
        let entry = |[new_tokens, keys]: [u32; 2]| {
            let problem = AttentionProblem { new_tokens, input_pos: keys - new_tokens, ..*largest };
            ([new_tokens, keys], self.choose(&problem))
        };
        let mut entries: Vec<_> = self.sizes.all().map(entry).collect();
        entries.sort_by_key(|(sizes, _)| *sizes);
        entries.dedup_by_key(|(sizes, _)| *sizes);
        Table { sizes: self.sizes, entries }
    }

    fn fastest(&self, problem: &AttentionProblem) -> Implementation {
        // Without subgroups a CPU is faster in plain steps.
        let plain_cpu = self.is_cpu && self.subgroup_sizes.is_none();
        let order: &[Route] = match problem.new_tokens {
            1 if plain_cpu => &[Route::Materialised],
            1 => &[Route::Split, Route::Streaming],
            // The rows of a matrix tile are worth their work where there are at least so many.
            tokens if tokens * (problem.q_heads / problem.kv_heads) >= 16 => {
                &[Route::Matrix, Route::Split, Route::Streaming]
            }
            _ => &[Route::Split, Route::Matrix, Route::Streaming],
        };
        let first = order.iter().find_map(|&route| self.implementation(route, problem).ok());
        first.unwrap_or(Implementation::Materialised)
    }

    /// How a route serves a problem.
    fn implementation(&self, route: Route, problem: &AttentionProblem) -> Result<Implementation, Refusal> {
        let kv = self.options.kv;
        let multiple_of = |multiple_of: u32| {
            let fits = problem.head_dim.is_multiple_of(multiple_of) && problem.head_dim <= MAX_HEAD_DIM;
            if fits { Ok(()) } else { Err(Refusal::HeadDim { head_dim: problem.head_dim, multiple_of }) }
        };
        match route {
            Route::Materialised => Ok(Implementation::Materialised),
            Route::Split => {
                multiple_of(4)?;
                if problem.new_tokens > SPLIT_TOKENS {
                    return Err(Refusal::Tokens(problem.new_tokens));
                }
                let merge = match self.merges_in_dispatch {
                    true => sdpa_split::Merge::Fused,
                    false => sdpa_split::Merge::Dispatch,
                };
                let shape = sdpa_split::shape(problem, kv, self.subgroup_sizes.map(|[least, _]| least), merge);
                self.check(&sdpa_split::variant(shape))?;
                Ok(Implementation::Split(shape))
            }
            Route::Streaming => {
                multiple_of(4)?;
                let limits =
                    sdpa_streaming::Limits { workgroup_bytes: self.workgroup_bytes, invocations: self.workgroup_size };
                let queries = match self.options.scores {
                    Scores::F16 => sdpa_streaming::Queries::Rounded,
                    Scores::F32 => sdpa_streaming::Queries::Full,
                };
                let processor = match self.is_cpu {
                    true => sdpa_streaming::Processor::Cpu,
                    false => sdpa_streaming::Processor::Gpu,
                };
                let shape = sdpa_streaming::shape(problem.head_dim, kv, queries, limits, processor)
                    .ok_or(Refusal::NoTile { bytes: self.workgroup_bytes, invocations: self.workgroup_size })?;
                if self.is_cpu && sdpa_streaming::turns(problem.context_len(), &shape) > CPU_LOOP_TURNS {
                    return Err(Refusal::LongLoops(problem.context_len()));
                }
                Ok(Implementation::Streaming(shape))
            }
            Route::Matrix => {
                if kv != KvType::F16 {
                    return Err(Refusal::KvType);
                }
                multiple_of(16)?;
                self.matrix(problem).map(Implementation::Matrix)
            }
        }
    }

    fn matrix(&self, problem: &AttentionProblem) -> Result<sdpa_matrix::Shape, Refusal> {
        const SUBGROUPS: [u32; 2] = [sdpa_matrix::SUBGROUP; 2];
        if !self.cooperative_matrix {
            return Err(Refusal::CooperativeMatrix);
        }
        if !self.shader_f16 {
            return Err(Refusal::ShaderF16);
        }
        let subgroup_sizes = self.subgroup_sizes.filter(|sizes| *sizes == SUBGROUPS);
        let allowed = sdpa_matrix::Allowed {
            subgroup_sizes: subgroup_sizes.ok_or(Refusal::Subgroup(sdpa_matrix::SUBGROUP))?,
            workgroup_bytes: self.workgroup_bytes,
            invocations: self.workgroup_size,
        };
        if !sdpa_matrix::offers(problem.head_dim) {
            return Err(Refusal::LargeHead { head_dim: problem.head_dim, most: sdpa_matrix::MAX_HEAD_DIM });
        }
        sdpa_matrix::choose(problem, self.options.scores, allowed)
            .map(|choice| choice.shape)
            .ok_or(Refusal::NoTile { bytes: self.workgroup_bytes, invocations: self.workgroup_size })
    }

    /// Holds what a variant needs against what the device has.
    fn check(&self, variant: &crate::kernels::Variant) -> Result<(), Refusal> {
        let Needs { subgroup_size, shader_f16, cooperative_matrix } = variant.needs;
        if cooperative_matrix && !self.cooperative_matrix {
            return Err(Refusal::CooperativeMatrix);
        }
        if shader_f16 && !self.shader_f16 {
            return Err(Refusal::ShaderF16);
        }
        let least = self.subgroup_sizes.map_or(0, |[least, _]| least);
        if subgroup_size > least {
            return Err(Refusal::Subgroup(subgroup_size));
        }
        if variant.workgroup_bytes > self.workgroup_bytes {
            return Err(Refusal::Workgroup { bytes: variant.workgroup_bytes, limit: self.workgroup_bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(new_tokens: u32, context_len: u32) -> AttentionProblem {
        let input_pos = context_len - new_tokens;
        AttentionProblem { q_heads: 32, kv_heads: 8, head_dim: 64, new_tokens, input_pos, scale: 1.0 }
    }

    #[test]
    fn every_step_finds_its_choice() {
        for (most_tokens, most_keys) in [(1, 1), (1, 700), (3, 3), (5, 9), (111, 320), (2048, 4096)] {
            let largest = problem(most_tokens, most_keys);
            for facts in [DeviceFacts::webgpu_defaults(), gpu()] {
                let options = PlanOptions { kv: KvType::F16, ..PlanOptions::default() };
                let rules = Rules::new(options, &facts, &largest, Tokens::UpTo);
                let table = rules.table(&largest);
                let reachable = table.reachable();
                for new_tokens in 1..=most_tokens {
                    for context_len in (new_tokens..=most_keys).step_by(1 + most_keys as usize / 50) {
                        let step = problem(new_tokens, context_len);
                        let chosen = table.look_up(&step).unwrap();
                        assert_eq!(rules.choose(&step), Ok(chosen), "{step:?}");
                        assert!(reachable.contains(&chosen), "{step:?}");
                    }
                }
            }
        }
    }

    /// A GPU with all features.
    fn gpu() -> DeviceFacts {
        let mut facts = DeviceFacts {
            name: "NVIDIA H200".into(),
            backend: "vulkan".into(),
            shader_f16: true,
            subgroup_sizes: Some([32, 32]),
            cooperative_matrix: true,
            ..DeviceFacts::webgpu_defaults()
        };
        facts.limits.max_compute_workgroup_storage_size = 49152;
        facts.limits.max_compute_invocations_per_workgroup = 1024;
        facts
    }

    /// The route of a step, or why the one that was asked for does not serve it.
    fn route(facts: &DeviceFacts, options: PlanOptions, step: AttentionProblem) -> Result<Route, Refusal> {
        let largest = AttentionProblem { new_tokens: 4096, input_pos: 4096, ..step };
        Rules::new(options, facts, &largest, Tokens::UpTo).choose(&step).map(|chosen| chosen.route())
    }

    #[test]
    fn the_fastest_route_follows_from_problem_and_device() {
        let modest = DeviceFacts::webgpu_defaults();
        let f32 = PlanOptions::default();
        let f16 = PlanOptions { kv: KvType::F16, ..f32 };
        let odd = AttentionProblem { head_dim: 66, ..problem(1, 100) };
        let large = AttentionProblem { head_dim: 320, ..problem(100, 100) };
        let cases = [
            (&modest, f32, problem(1, 1000), Route::Split),
            (&modest, f32, problem(8, 1000), Route::Split),
            (&modest, f32, problem(9, 1000), Route::Streaming),
            (&modest, f16, problem(100, 100), Route::Streaming),
            (&modest, f32, odd, Route::Materialised),
            (&modest, f32, large, Route::Materialised),
            (&gpu(), f32, problem(100, 100), Route::Streaming),
            (&gpu(), f16, problem(1, 100), Route::Split),
            (&gpu(), f16, problem(100, 100), Route::Matrix),
            (&gpu(), f16, problem(4, 8000), Route::Matrix),
            (&gpu(), f16, large, Route::Materialised),
        ];
        for (facts, options, step, wanted) in cases {
            assert_eq!(route(facts, options, step), Ok(wanted), "{} {options:?} {step:?}", facts.name);
        }
    }

    #[test]
    fn a_route_that_cannot_serve_says_why() {
        let by = |route| PlanOptions { route: Some(route), ..PlanOptions::default() };
        let modest = DeviceFacts::webgpu_defaults();
        let few = problem(1, 100);
        let cases = [
            (by(Route::Split), problem(9, 100), "9 new tokens are more than 8"),
            (by(Route::Matrix), few, "the cache is f32, and it wants f16 (--kv f16)"),
            (
                PlanOptions { kv: KvType::F16, ..by(Route::Matrix) },
                few,
                "the device offers no cooperative matrices of 16 x 16",
            ),
            (
                by(Route::Streaming),
                AttentionProblem { head_dim: 260, ..few },
                "head_dim 260 is no multiple of 4 up to 256",
            ),
        ];
        for (options, step, wanted) in cases {
            let refusal = route(&modest, options, step).unwrap_err();
            assert_eq!(refusal.to_string(), wanted, "{options:?}");
        }
        let rules = Rules::new(PlanOptions::default(), &modest, &problem(100, 100), Tokens::UpTo);
        let (chosen, others) = rules.explain(&few);
        assert_eq!(chosen.map(|chosen| chosen.route()), Ok(Route::Split));
        let others: Vec<String> = others.iter().map(|(route, why)| format!("{route}: {why}")).collect();
        let wanted = [
            "materialised: split is faster here",
            "streaming: split is faster here",
            "matrix: the cache is f32, and it wants f16 (--kv f16)",
        ];
        assert_eq!(others, wanted);
    }
}
