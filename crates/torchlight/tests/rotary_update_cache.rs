//! Rotations that write keys and values to their caches, against the f64 reference: caches of both types, queries, keys and
//! values apart and in one tensor.

mod harness;

use half::f16;
use harness::compare::{self, F32, Tolerance};
use harness::{bytes, f32_tensor, i64_tensor, modest_gpu, random, rng, tensors};
use torchlight::gpu::Command;
use torchlight::graph::Qkv;
use torchlight::kernels::KvType;
use torchlight::kernels::rotary_update_cache::{Layout, Step};
use torchlight::{DType, GraphBuilder, HostTensor, Input, Result, Session, SessionOptions, reference};

/// Keys are turned in f32 and then rounded to f16: by a step of it the other way at most.
const HALF_STEP: Tolerance = Tolerance { absolute: 1e-7, relative: 1e-3 };

/// Sizes of a session.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    q_heads: u32,
    kv_heads: u32,
    head_dim: u32,
    /// The most of a step.
    tokens: u32,
    cache_rows: u32,
}

impl Sizes {
    fn step(&self, tokens: u32, input_pos: u32, layout: Layout) -> Step {
        let Sizes { q_heads, kv_heads, head_dim, .. } = *self;
        Step { tokens, q_heads, kv_heads, head_dim, input_pos, first_angle: 0, layout }
    }

    /// The shapes of queries, keys and values, or of the one tensor that holds all.
    fn shapes(&self, tokens: u32, layout: Layout) -> Vec<Vec<u32>> {
        let heads = |heads| vec![1, tokens, heads, self.head_dim];
        match layout {
            Layout::Apart => vec![heads(self.q_heads), heads(self.kv_heads), heads(self.kv_heads)],
            Layout::Joined => vec![vec![1, tokens, (self.q_heads + 2 * self.kv_heads) * self.head_dim]],
        }
    }

    /// A session over caches with this content.
    fn session(&self, layout: Layout, kv: KvType, caches: &[Vec<f32>; 2]) -> Session {
        let content = caches.each_ref().map(|cache| bytes(cache));
        let mut graph = GraphBuilder::new("rotary");
        let shapes = self.shapes(self.tokens, layout);
        let qkv: Vec<_> = shapes.iter().map(|shape| graph.input(DType::F32, shape).unwrap()).collect();
        let angles = [(); 2].map(|()| graph.input(DType::F32, &[self.tokens, self.head_dim / 2]).unwrap());
        graph.input(DType::I64, &[1]).unwrap();
        let input_pos = graph.select_as_symint(shapes.len() + 2, 0);
        let rows = [1, self.cache_rows, self.kv_heads, self.head_dim];
        let caches = content.each_ref().map(|content| graph.constant(DType::F32, &rows, content).unwrap());
        let qkv = match qkv[..] {
            [q, k, v] => Qkv::Apart([q, k, v]),
            _ => Qkv::Joined(qkv[0]),
        };
        let out = graph.rotary_update_cache(qkv, angles, caches, input_pos).unwrap();
        graph.output(out);
        let options = SessionOptions { kv, ..SessionOptions::default() };
        Session::new(modest_gpu(), &graph.finish().unwrap(), options)
            .unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    /// Caches with a content, as they are kept.
    fn caches(&self, kv: KvType) -> [Vec<f32>; 2] {
        let count = (self.cache_rows * self.kv_heads * self.head_dim) as usize;
        let rng = &mut rng(&format!("{self:?}"));
        [(); 2].map(|()| kept(kv, &random(rng, count)))
    }
}

/// Values as a cache keeps them.
fn kept(kv: KvType, values: &[f32]) -> Vec<f32> {
    let half = |value: &f32| f16::from_f32(value.clamp(-65504.0, 65504.0)).to_f32();
    match kv {
        KvType::F32 => values.to_vec(),
        KvType::F16 => values.iter().map(half).collect(),
    }
}

/// What goes into a step.
struct Given {
    qkv: Vec<Vec<f32>>,
    angles: [Vec<f32>; 2],
}

impl Given {
    fn random(sizes: &Sizes, step: &Step) -> Self {
        let rng = &mut rng(&format!("{step:?}"));
        let shapes = sizes.shapes(step.tokens, step.layout);
        let qkv = shapes.iter().map(|shape| random(rng, shape.iter().product::<u32>() as usize)).collect();
        let angles: Vec<f32> = random(rng, (step.tokens * step.head_dim / 2) as usize);
        let parts: [fn(f32) -> f32; 2] = [f32::cos, f32::sin];
        Self { qkv, angles: parts.map(|part| angles.iter().map(|&angle| part(7.0 * angle)).collect()) }
    }

    fn inputs(&self, sizes: &Sizes, step: &Step) -> Vec<HostTensor> {
        let shapes = sizes.shapes(step.tokens, step.layout);
        let qkv = shapes.iter().zip(&self.qkv).map(|(shape, values)| f32_tensor(shape, values));
        let angles = self.angles.iter().map(|angles| f32_tensor(&[step.tokens, step.head_dim / 2], angles));
        qkv.chain(angles).chain([i64_tensor(&[1], &[i64::from(step.input_pos)])]).collect()
    }

    /// The step on the device: turned queries.
    fn run(&self, session: &mut Session, sizes: &Sizes, step: &Step) -> Result<Vec<f32>> {
        let inputs = self.inputs(sizes, step);
        let inputs: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
        tensors(&session.run(&inputs)?)[0].to_f32()
    }

    /// The step by the reference.
    fn reference(&self, step: &Step, caches: &mut [Vec<f32>; 2]) -> Vec<f64> {
        let part = |place: usize| self.qkv.get(place).unwrap_or(&self.qkv[0]).as_slice();
        let qkv = [part(0), part(1), part(2)];
        let [k_cache, v_cache] = caches;
        let angles = self.angles.each_ref().map(Vec::as_slice);
        reference::rotary_update_cache::reference(step, qkv, angles, [k_cache, v_cache])
    }
}

const LAYOUTS: [Layout; 2] = [Layout::Apart, Layout::Joined];
const KV: [KvType; 2] = [KvType::F32, KvType::F16];

#[test]
fn heads_of_every_even_size_are_turned_and_written() {
    for (q_heads, kv_heads, head_dim) in
        [(1, 1, 2), (4, 2, 16), (9, 3, 64), (3, 1, 6), (2, 2, 10), (5, 1, 66), (2, 1, 4)]
    {
        let sizes = Sizes { q_heads, kv_heads, head_dim, tokens: 7, cache_rows: 19 };
        for (layout, kv) in LAYOUTS.into_iter().flat_map(|layout| KV.map(|kv| (layout, kv))) {
            let mut caches = sizes.caches(kv);
            let mut session = sizes.session(layout, kv, &caches);
            for (tokens, input_pos) in [(7, 0), (3, 7), (1, 10), (7, 12)] {
                let step = sizes.step(tokens, input_pos, layout);
                let given = Given::random(&sizes, &step);
                let wanted = given.reference(&step, &mut caches);
                let got = given.run(&mut session, &sizes, &step).unwrap();
                compare::assert_close(format!("{step:?} {kv:?}: queries"), &got, &wanted, F32);
                let [keys, values] = [&session.read_states().unwrap()[0], &session.read_states().unwrap()[1]]
                    .map(|cache| cache.to_f32().unwrap());
                caches = caches.map(|cache| kept(kv, &cache));
                let tolerance = if kv == KvType::F32 { F32 } else { HALF_STEP };
                let wanted = compare::widen(&caches[0]);
                compare::assert_close(format!("{step:?} {kv:?}: keys"), &keys, &wanted, tolerance);
                compare::assert_same_bits(format!("{step:?} {kv:?}: values"), &values, &caches[1]);
                caches[0] = keys;
            }
        }
    }
}

#[test]
fn what_f16_cannot_hold_is_cut_off_and_nan_stays() {
    let sizes = Sizes { q_heads: 1, kv_heads: 1, head_dim: 4, tokens: 1, cache_rows: 2 };
    for layout in LAYOUTS {
        let mut session = sizes.session(layout, KvType::F16, &[vec![0.0; 8], vec![0.0; 8]]);
        let step = sizes.step(1, 1, layout);
        let (k, v) = ([1e6, -1e6, 3.0, f32::NAN], [f32::INFINITY, f32::NEG_INFINITY, 65520.0, f32::NAN]);
        let q = [1.0; 4];
        let qkv = match layout {
            Layout::Apart => vec![q.to_vec(), k.to_vec(), v.to_vec()],
            Layout::Joined => vec![[q, k, v].concat()],
        };
        // No turn at all.
        let given = Given { qkv, angles: [vec![1.0; 2], vec![0.0; 2]] };
        assert_eq!(given.run(&mut session, &sizes, &step).unwrap(), q);
        let states = session.read_states().unwrap();
        let [keys, values] = [&states[0], &states[1]].map(|cache| cache.to_f32().unwrap());
        assert_eq!(keys[4..6], [65504.0, -65504.0]);
        assert!(keys[7].is_nan(), "{keys:?}");
        assert_eq!(values[4..7], [65504.0, -65504.0, 65504.0]);
        assert!(values[7].is_nan(), "{values:?}");
        assert_eq!([&keys[..4], &values[..4]], [[0.0; 4]; 2], "the other row");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let sizes = Sizes { q_heads: 2, kv_heads: 1, head_dim: 4, tokens: 3, cache_rows: 5 };
    for layout in LAYOUTS {
        let caches = sizes.caches(KvType::F32);
        let mut session = sizes.session(layout, KvType::F32, &caches);
        let step = sizes.step(3, 3, layout);
        let error = Given::random(&sizes, &step).run(&mut session, &sizes, &step).unwrap_err();
        assert_eq!(error.to_string(), "sdpa_with_kv_cache (node 1): position 3 + 3 exceeds the cache's 5 rows");
        let step = sizes.step(3, 0, layout);
        let mut inputs = Given::random(&sizes, &step).inputs(&sizes, &step);
        let angles = inputs.len() - 3;
        for input in &mut inputs[angles..angles + 2] {
            *input = f32_tensor(&[2, 2], &[0.0; 4]);
        }
        let inputs: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
        let error = session.run(&inputs).unwrap_err().to_string();
        assert_eq!(error, "apply_rotary_emb (node 1): wants cosines and sines of shape [3, 2], got [2, 2] and [2, 2]");
        let states = session.read_states().unwrap();
        assert_eq!([&states[0], &states[1]].map(|cache| cache.to_f32().unwrap()), caches);
    }
}

#[test]
fn pairs_over_a_folded_grid() {
    // 3 pairs a token, 64 a workgroup.
    for (workgroups, grid) in [(65535, [65535, 1]), (65536, [65535, 2])] {
        let tokens = workgroups * 64 / 3;
        let sizes = Sizes { q_heads: 1, kv_heads: 1, head_dim: 2, tokens, cache_rows: tokens };
        let mut session = sizes.session(
            Layout::Joined,
            KvType::F16,
            &[vec![0.0; 2 * tokens as usize], vec![0.0; 2 * tokens as usize]],
        );
        let step = sizes.step(tokens, 0, Layout::Joined);
        let qkv = (0..6 * tokens).map(|element| (element / 6 % 100) as f32).collect();
        let given = Given { qkv: vec![qkv], angles: [vec![0.0; tokens as usize], vec![1.0; tokens as usize]] };
        let inputs = given.inputs(&sizes, &step);
        let inputs: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
        let (outputs, commands) = session.run_recorded(&inputs).unwrap();
        let grids = commands.iter().filter_map(|command| match command {
            Command::Dispatch { x, y } => Some([*x, *y]),
            _ => None,
        });
        assert_eq!(grids.collect::<Vec<_>>(), [grid]);
        let states = session.read_states().unwrap();
        let [q, k, v] = [tensors(&outputs)[0], &states[0], &states[1]].map(|tensor| tensor.to_f32().unwrap());
        // A quarter turn.
        let is_turned = |pair: &[f32], token: usize| pair == [-((token % 100) as f32), (token % 100) as f32];
        let wrong = (0..tokens as usize).find(|&token| {
            let of = |values: &[f32]| [values[2 * token], values[2 * token + 1]];
            !is_turned(&of(&q), token) || !is_turned(&of(&k), token) || of(&v) != [(token % 100) as f32; 2]
        });
        assert_eq!(wrong, None);
    }
}
