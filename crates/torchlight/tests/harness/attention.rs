//! `sdpa_with_kv_cache` on the device, step by step, beside its f64 reference with caches of its own.

use std::fmt::Display;

use half::f16;
use torchlight::gpu::BoundsChecks;
use torchlight::kernels::{AttentionProblem, KvType, update_cache};
use torchlight::{
    DType, Gpu, Graph, GraphBuilder, HostTensor, Input, Result, Route, Session, SessionOptions, reference,
};

use super::compare::{self, Tolerance};
use super::{bytes, f32_tensor, i64_tensor, random, tensors};

/// The sizes of a session; `tokens` is the most of one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) tokens: u32,
    pub(crate) q_heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) head_dim: u32,
    pub(crate) cache_rows: u32,
    pub(crate) scale: Option<f32>,
}

/// A plain size that cases vary one field of.
pub(crate) const PLAIN: Sizes = Sizes { tokens: 8, q_heads: 4, kv_heads: 2, head_dim: 16, cache_rows: 32, scale: None };

impl Sizes {
    fn has_tiles(&self, multiple_of: u32) -> bool {
        self.head_dim.is_multiple_of(multiple_of) && self.head_dim <= 256
    }

    fn shape(&self, tokens: u32, heads: u32) -> [u32; 4] {
        [1, tokens, heads, self.head_dim]
    }

    /// Elements of one cache.
    pub(crate) fn cache_elements(&self) -> usize {
        (self.cache_rows * self.kv_row()) as usize
    }

    /// Elements of one key or value, all heads.
    pub(crate) fn kv_row(&self) -> u32 {
        self.kv_heads * self.head_dim
    }

    /// The problem of a step.
    pub(crate) fn problem(&self, new_tokens: u32, input_pos: u32) -> AttentionProblem {
        AttentionProblem {
            q_heads: self.q_heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            new_tokens,
            input_pos,
            scale: self.scale.unwrap_or_else(|| (1.0 / f64::from(self.head_dim).sqrt()) as f32),
        }
    }

    /// A graph whose inputs are q, k, v and the position, and whose caches start with the bytes given.
    pub(crate) fn graph<'a>(&self, k_cache: &'a [u8], v_cache: &'a [u8]) -> Result<Graph<'a>> {
        let mut graph = GraphBuilder::new("attention");
        let q = graph.input(DType::F32, &self.shape(self.tokens, self.q_heads))?;
        let k = graph.input(DType::F32, &self.shape(self.tokens, self.kv_heads))?;
        let v = graph.input(DType::F32, &self.shape(self.tokens, self.kv_heads))?;
        graph.input(DType::I64, &[1])?;
        let input_pos = graph.select_as_symint(3, 0);
        let caches = [k_cache, v_cache]
            .map(|bytes| graph.constant(DType::F32, &self.shape(self.cache_rows, self.kv_heads), bytes));
        let [k_cache, v_cache] = caches;
        let out = graph.sdpa_with_kv_cache([q, k, v], [k_cache?, v_cache?], input_pos, self.scale)?;
        graph.output(out);
        graph.finish()
    }
}

/// How a session computes: by which route, over which type of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) route: Option<Route>,
    pub(crate) kv: KvType,
}

impl Way {
    /// By the route that the session chooses, over f32 caches.
    pub(crate) const DEFAULT: Self = Self { route: None, kv: KvType::F32 };

    const fn by(route: Route, kv: KvType) -> Self {
        Self { route: Some(route), kv }
    }

    /// Every route over every type of cache that it takes. The matrix route is tried where the device has it.
    pub(crate) const ALL: [Self; 8] = [
        Self::DEFAULT,
        Self { route: None, kv: KvType::F16 },
        Self::by(Route::Materialised, KvType::F32),
        Self::by(Route::Materialised, KvType::F16),
        Self::by(Route::Split, KvType::F32),
        Self::by(Route::Split, KvType::F16),
        Self::by(Route::Streaming, KvType::F32),
        Self::by(Route::Streaming, KvType::F16),
    ];

    /// All ways that serve steps of these sizes on a device.
    pub(crate) fn serving(gpu: &Gpu, sizes: Sizes) -> Vec<Self> {
        let mut ways = Self::ALL.to_vec();
        if gpu.facts().cooperative_matrix {
            ways.push(Self::by(Route::Matrix, KvType::F16));
        }
        ways.retain(|way| match way.route {
            Some(Route::Split) => sizes.tokens <= 8 && sizes.has_tiles(4),
            Some(Route::Streaming) => sizes.has_tiles(4),
            Some(Route::Matrix) => sizes.has_tiles(16) && sizes.head_dim <= 128,
            _ => way.kv == KvType::F32 || sizes.head_dim.is_multiple_of(2),
        });
        ways
    }

    /// Values as a cache of this way holds them.
    pub(crate) fn cached(self, values: &[f32]) -> Vec<f32> {
        let half = |value: &f32| f16::from_f32(value.clamp(-65504.0, 65504.0)).to_f32();
        match self.kv {
            KvType::F32 => values.to_vec(),
            KvType::F16 => values.iter().map(half).collect(),
        }
    }

    /// What results are held to.
    pub(crate) fn tolerance(self) -> Tolerance {
        match self.kv {
            KvType::F32 => compare::F32,
            KvType::F16 => compare::F16,
        }
    }
}

/// New queries, keys and values.
#[derive(Clone, Debug)]
pub(crate) struct Qkv {
    pub(crate) tokens: u32,
    pub(crate) q: Vec<f32>,
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
}

impl Qkv {
    /// Seeded numbers from -1 to 1.
    pub(crate) fn random(rng: &mut fastrand::Rng, sizes: &Sizes, tokens: u32) -> Self {
        let (q, kv) = ((tokens * sizes.q_heads * sizes.head_dim) as usize, (tokens * sizes.kv_row()) as usize);
        Self { tokens, q: random(rng, q), k: random(rng, kv), v: random(rng, kv) }
    }

    /// Some of the tokens.
    pub(crate) fn tokens(&self, range: std::ops::Range<u32>) -> Self {
        let part = |values: &[f32]| {
            let row = values.len() / self.tokens as usize;
            values[range.start as usize * row..range.end as usize * row].to_vec()
        };
        Self { tokens: range.end - range.start, q: part(&self.q), k: part(&self.k), v: part(&self.v) }
    }

    /// The inputs of a run.
    pub(crate) fn inputs(&self, sizes: &Sizes, input_pos: i64) -> [HostTensor; 4] {
        let tensor = |heads, values: &[f32]| f32_tensor(&sizes.shape(self.tokens, heads), values);
        let (q, kv) = (sizes.q_heads, sizes.kv_heads);
        [tensor(q, &self.q), tensor(kv, &self.k), tensor(kv, &self.v), i64_tensor(&[1], &[input_pos])]
    }
}

/// A session and the reference's caches.
pub(crate) struct Attention {
    pub(crate) session: Session,
    pub(crate) sizes: Sizes,
    pub(crate) way: Way,
    pub(crate) k_cache: Vec<f32>,
    pub(crate) v_cache: Vec<f32>,
}

impl Attention {
    /// Caches of zeros.
    pub(crate) fn new(gpu: &Gpu, sizes: Sizes, way: Way) -> Self {
        let zeros = vec![0.0; sizes.cache_elements()];
        Self::with_caches(gpu, sizes, way, [zeros.clone(), zeros])
    }

    /// Caches with a content: keys, then values.
    pub(crate) fn with_caches(gpu: &Gpu, sizes: Sizes, way: Way, caches: [Vec<f32>; 2]) -> Self {
        let content = caches.each_ref().map(|cache| bytes(cache));
        // A run with checks by the compiler finds an index that leaves its buffer where one without reads what is there.
        let checks = match std::env::var_os("TORCHLIGHT_CHECKED") {
            Some(_) => BoundsChecks::Everywhere,
            None => BoundsChecks::WhereNeeded,
        };
        let options = SessionOptions { kv: way.kv, route: way.route, checks, ..SessionOptions::default() };
        let session = sizes
            .graph(&content[0], &content[1])
            .and_then(|graph| Session::new(gpu, &graph, options))
            .unwrap_or_else(|error| panic!("{sizes:?}, {way:?}: {error}"));
        let [k_cache, v_cache] = caches.map(|cache| way.cached(&cache));
        Self { session, sizes, way, k_cache, v_cache }
    }

    /// One step on the device.
    pub(crate) fn run(&mut self, input_pos: i64, qkv: &Qkv) -> Result<Vec<f32>> {
        let inputs = qkv.inputs(&self.sizes, input_pos);
        let outputs = self.session.run(&inputs.each_ref().map(Input::from))?;
        tensors(&outputs)[0].to_f32()
    }

    /// The same step by the reference.
    pub(crate) fn reference(&mut self, input_pos: u32, qkv: &Qkv) -> Vec<f64> {
        let problem = self.sizes.problem(qkv.tokens, input_pos);
        for (value, cache) in [(&qkv.k, &mut self.k_cache), (&qkv.v, &mut self.v_cache)] {
            let value = self.way.cached(value);
            reference::update_cache::reference(update_cache::Rows::from(problem), &value, cache);
        }
        reference::attention(&problem, &qkv.q, &self.k_cache, &self.v_cache)
    }

    /// One step on both, which must agree. Returns the device's output.
    #[track_caller]
    pub(crate) fn check(&mut self, case: impl Display, input_pos: u32, qkv: &Qkv, tolerance: Tolerance) -> Vec<f32> {
        let got = self.run(i64::from(input_pos), qkv).unwrap_or_else(|error| panic!("{case}: {error}"));
        compare::assert_close(case, &got, &self.reference(input_pos, qkv), tolerance);
        got
    }

    /// The caches on the device must hold what the reference's hold, bit for bit.
    #[track_caller]
    pub(crate) fn check_caches(&self, case: impl Display) {
        let states = self.session.read_states().unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(states.len(), 2, "{case}");
        for (name, state, wanted) in [("keys", &states[0], &self.k_cache), ("values", &states[1], &self.v_cache)] {
            let got = state.to_f32().unwrap_or_else(|error| panic!("{case}: {error}"));
            compare::assert_same_bits(format!("{case}: cached {name}"), &got, wanted);
        }
    }
}
