//! Attention on the device against its f64 reference: contexts, head sizes, ratios of heads, steps and positions.

mod harness;

use harness::attention::{Attention, PLAIN, Qkv, Sizes, Way};
use harness::compare::{self, F32, Tolerance};
use harness::{gpu, random, rng};
use torchlight::kernels::KvType;
use torchlight::{Error, Input, Route, Session, SessionOptions};

const CONTEXTS: [u32; 19] = [1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1023, 1025];
const HEAD_SIZES: [u32; 16] = [4, 6, 7, 10, 40, 64, 72, 80, 96, 112, 128, 192, 256, 320, 512, 576];
const HEADS_A_KV_HEAD: [u32; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64];

/// Values so that each key shows in one lane of the output: a key that is skipped or taken twice changes its lane.
fn one_hot(keys: u32, sizes: &Sizes) -> Vec<f32> {
    let row = sizes.kv_row();
    let lane = |i: u32| (i % row % sizes.head_dim == i / row % sizes.head_dim) as u8;
    (0..keys * row).map(|i| f32::from(lane(i))).collect()
}

/// One-hot outputs are weights, or sums of few: no absolute slack that would hide a key among a thousand.
fn weights(way: Way) -> Tolerance {
    Tolerance { absolute: way.tolerance().absolute * 1e-3, ..way.tolerance() }
}

#[test]
fn a_prefill_of_every_context_takes_every_key_once() {
    for context in CONTEXTS {
        let sizes = Sizes { tokens: context, q_heads: 2, kv_heads: 1, head_dim: 16, cache_rows: context, ..PLAIN };
        let case = format!("prefill of {context}");
        let mut qkv = Qkv::random(&mut rng(&case), &sizes, context);
        qkv.v = one_hot(context, &sizes);
        // The reference of a thousand tokens takes longer than the device: once a type of cache.
        let mut wanted: Vec<(KvType, Vec<f64>)> = Vec::new();
        for way in Way::serving(gpu(), sizes) {
            let mut attention = Attention::new(gpu(), sizes, way);
            if wanted.iter().all(|(kv, _)| *kv != way.kv) {
                wanted.push((way.kv, attention.reference(0, &qkv)));
            }
            let (_, wanted) = wanted.iter().find(|(kv, _)| *kv == way.kv).unwrap();
            let got = attention.run(0, &qkv).unwrap_or_else(|error| panic!("{case}, {way:?}: {error}"));
            compare::assert_close(format!("{case}, {way:?}"), &got, wanted, weights(way));
        }
    }
}

#[test]
fn a_decode_step_of_every_context_takes_every_key_once() {
    for context in CONTEXTS {
        let sizes = Sizes { tokens: 1, q_heads: 4, kv_heads: 2, head_dim: 16, cache_rows: context, ..PLAIN };
        for way in Way::serving(gpu(), sizes) {
            let case = format!("decode at {context}, {way:?}");
            let rng = &mut rng(&case);
            let mut qkv = Qkv::random(rng, &sizes, 1);
            let (k_cache, v_cache) = (random(rng, sizes.cache_elements()), one_hot(context, &sizes));
            qkv.v = v_cache[v_cache.len() - sizes.kv_row() as usize..].to_vec();
            let mut attention = Attention::with_caches(gpu(), sizes, way, [k_cache, v_cache]);
            let got = attention.check(&case, context - 1, &qkv, weights(way));

            // The comparison would have told of a skipped key: the reference without key 0 is another result.
            if context > 1 {
                attention.v_cache[..sizes.kv_row() as usize].fill(0.0);
                let skipped = attention.reference(context - 1, &qkv);
                let shows = compare::difference(&got, &skipped, weights(way)).is_some();
                assert!(shows, "{case}: a skipped key does not show");
            }
        }
    }
}

#[test]
fn a_context_of_131072_keys() {
    let sizes = Sizes { tokens: 4, q_heads: 2, kv_heads: 1, head_dim: 128, cache_rows: 131_072, scale: None };
    let rng = &mut rng("long");
    let caches = [(); 2].map(|()| random(rng, sizes.cache_elements()));
    let qkv = Qkv::random(rng, &sizes, 1);
    let way = |route| Way { route: Some(route), kv: KvType::F16 };
    let mut attention = Attention::with_caches(gpu(), sizes, way(Route::Split), caches.clone());
    attention.check("split", sizes.cache_rows - 1, &qkv, compare::F16);

    // A software adapter would leave the streaming kernel's loops before their end: there it is refused.
    let content = caches.each_ref().map(|cache| harness::bytes(cache));
    let graph = sizes.graph(&content[0], &content[1]).unwrap();
    let options = SessionOptions { kv: KvType::F16, route: Some(Route::Streaming), ..SessionOptions::default() };
    match Session::new(gpu(), &graph, options) {
        Ok(mut session) if gpu().facts().is_cpu => {
            let inputs = qkv.inputs(&sizes, i64::from(sizes.cache_rows) - 1);
            let error = session.run(&inputs.each_ref().map(Input::from)).unwrap_err().to_string();
            assert!(error.contains("leaves loops over 131072 keys before their end"), "{error}");
        }
        Ok(_) => {
            let mut attention = Attention::with_caches(gpu(), sizes, way(Route::Streaming), caches);
            attention.check("streaming", sizes.cache_rows - 1, &qkv, compare::F16);
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn few_tokens_over_every_context() {
    for context in CONTEXTS.into_iter().filter(|&context| context >= 7) {
        for tokens in [2, 7] {
            let sizes = Sizes { tokens, cache_rows: context, ..PLAIN };
            for way in Way::serving(gpu(), sizes) {
                let case = format!("{tokens} tokens up to {context}, {way:?}");
                let rng = &mut rng(&case);
                let caches = [(); 2].map(|()| random(rng, sizes.cache_elements()));
                let qkv = Qkv::random(rng, &sizes, tokens);
                let mut attention = Attention::with_caches(gpu(), sizes, way, caches);
                attention.check(&case, context - tokens, &qkv, way.tolerance());
            }
        }
    }
}

#[test]
fn head_sizes() {
    for head_dim in HEAD_SIZES {
        let sizes = Sizes { head_dim, ..PLAIN };
        for way in Way::serving(gpu(), sizes) {
            let case = format!("head_dim {head_dim}, {way:?}");
            let rng = &mut rng(&case);
            let mut attention = Attention::new(gpu(), sizes, way);
            for (input_pos, tokens) in [(0, 7), (7, 1)] {
                let qkv = Qkv::random(rng, &sizes, tokens);
                attention.check(format!("{case} at {input_pos}"), input_pos, &qkv, way.tolerance());
            }
            attention.check_caches(&case);
        }
    }
}

#[test]
fn query_heads_a_kv_head() {
    for ratio in HEADS_A_KV_HEAD {
        for kv_heads in [1, 3] {
            let sizes = Sizes { q_heads: ratio * kv_heads, kv_heads, head_dim: 8, ..PLAIN };
            for way in Way::serving(gpu(), sizes) {
                let case = format!("{} query heads on {kv_heads} KV heads, {way:?}", sizes.q_heads);
                let rng = &mut rng(&case);
                let mut attention = Attention::new(gpu(), sizes, way);
                for (input_pos, tokens) in [(0, 5), (5, 1)] {
                    let qkv = Qkv::random(rng, &sizes, tokens);
                    attention.check(format!("{case} at {input_pos}"), input_pos, &qkv, way.tolerance());
                }
            }
        }
    }
}

#[test]
fn query_heads_that_are_no_multiple_of_the_kv_heads_are_refused() {
    for (q_heads, kv_heads) in [(5, 2), (1, 2), (7, 3)] {
        let sizes = Sizes { q_heads, kv_heads, ..PLAIN };
        let zeros = vec![0; sizes.cache_elements() * 4];
        let error = sizes.graph(&zeros, &zeros).unwrap_err();
        let wanted =
            format!("sdpa_with_kv_cache (node 1): {q_heads} query heads are not a multiple of {kv_heads} KV heads");
        assert_eq!(error.to_string(), wanted);
    }
}

#[test]
fn one_session_takes_steps_of_changing_length() {
    let sizes = Sizes { tokens: 111, cache_rows: 320, ..PLAIN };
    for way in Way::serving(gpu(), sizes) {
        let rng = &mut rng("changing length");
        let mut attention = Attention::new(gpu(), sizes, way);
        let mut input_pos = 0;
        for tokens in [111, 1, 1, 57, 1, 111, 17, 1, 17] {
            let qkv = Qkv::random(rng, &sizes, tokens);
            attention.check(format!("{tokens} tokens at {input_pos}, {way:?}"), input_pos, &qkv, way.tolerance());
            input_pos += tokens;
        }
        // And back to the start, over what the earlier steps left.
        attention.check("111 tokens at 0 again", 0, &Qkv::random(rng, &sizes, 111), way.tolerance());
        attention.check_caches(format!("changing length, {way:?}"));
    }
}

#[test]
fn the_last_row_of_the_cache_is_a_row() {
    let rng = &mut rng("last row");
    let mut attention = Attention::new(gpu(), PLAIN, Way::DEFAULT);
    let last = PLAIN.cache_rows - 1;
    attention.check("one token at the last row", last, &Qkv::random(rng, &PLAIN, 1), F32);
    attention.check("8 tokens up to the last row", PLAIN.cache_rows - 8, &Qkv::random(rng, &PLAIN, 8), F32);
    attention.check_caches("last row");
}

#[test]
fn positions_outside_the_cache_are_refused_and_change_nothing() {
    let rng = &mut rng("outside");
    let mut attention = Attention::new(gpu(), PLAIN, Way::DEFAULT);
    attention.check("before", 0, &Qkv::random(rng, &PLAIN, 8), F32);
    let rows = i64::from(PLAIN.cache_rows);
    for (input_pos, tokens) in [(rows, 1), (rows - 7, 8), (rows - 1, 2), (i64::from(i32::MAX), 8)] {
        let error = attention.run(input_pos, &Qkv::random(rng, &PLAIN, tokens)).unwrap_err();
        let full = matches!(error, Error::CacheFull { input_pos: p, new_tokens: n, cache_rows: 32, .. }
            if (p, n) == (input_pos, tokens));
        assert!(full, "{tokens} tokens at {input_pos}: {error}");
        attention.check_caches(format!("after {tokens} tokens at {input_pos} were refused"));
    }
    for negative in [-1, -8, i64::from(i32::MIN)] {
        let error = attention.run(negative, &Qkv::random(rng, &PLAIN, 1)).unwrap_err();
        assert!(matches!(error, Error::NegativePosition { input_pos, .. } if input_pos == negative), "{error}");
        attention.check_caches(format!("after position {negative} was refused"));
    }
    attention.check("after all refusals", 8, &Qkv::random(rng, &PLAIN, 1), F32);
    attention.check_caches("after all refusals");
}

#[test]
fn a_chunked_prefill_equals_one_prefill() {
    let sizes = Sizes { tokens: 16, cache_rows: 16, ..PLAIN };
    let qkv = Qkv::random(&mut rng("chunked"), &sizes, 16);
    let whole = Attention::new(gpu(), sizes, Way::DEFAULT).check("16 tokens at once", 0, &qkv, F32);
    let mut attention = Attention::new(gpu(), sizes, Way::DEFAULT);
    let mut chunked = Vec::new();
    for range in [0..5, 5..10, 10..16] {
        let case = format!("tokens {range:?}");
        chunked.extend(attention.check(case, range.start, &qkv.tokens(range), F32));
    }
    compare::assert_close("5, 5 and 6 tokens against 16", &chunked, &compare::widen(&whole), F32);
}

#[test]
fn an_output_of_the_size_of_a_cache_is_told_apart() {
    // s * h * d = rows * hk * d = 512, and k and v have that size, too.
    let sizes = Sizes { tokens: 16, q_heads: 2, kv_heads: 2, cache_rows: 16, ..PLAIN };
    assert_eq!(sizes.tokens * sizes.q_heads, sizes.cache_rows * sizes.kv_heads);
    let mut attention = Attention::new(gpu(), sizes, Way::DEFAULT);
    attention.check("equal sizes", 0, &Qkv::random(&mut rng("equal sizes"), &sizes, 16), F32);
    attention.check_caches("equal sizes");
}

#[test]
fn the_smallest_attention_returns_its_value() {
    let sizes = Sizes { tokens: 1, q_heads: 1, kv_heads: 1, head_dim: 4, cache_rows: 1, scale: None };
    let qkv = Qkv::random(&mut rng("smallest"), &sizes, 1);
    let got = Attention::new(gpu(), sizes, Way::DEFAULT).check("smallest", 0, &qkv, F32);
    compare::assert_same_bits("one key has weight 1", &got, &qkv.v);
}

#[test]
fn the_scale_is_the_one_given_or_follows_from_the_head_size() {
    let qkv = Qkv::random(&mut rng("scale"), &PLAIN, 8);
    let run = |scale| {
        let case = format!("scale {scale:?}");
        Attention::new(gpu(), Sizes { scale, ..PLAIN }, Way::DEFAULT).check(case, 0, &qkv, F32)
    };
    let default = run(None);
    compare::assert_same_bits("1 / sqrt(16) is 0.25", &run(Some(0.25)), &default);
    for other in [1.0, 0.0, -0.5] {
        let got = run(Some(other));
        assert!(compare::difference(&got, &compare::widen(&default), F32).is_some(), "scale {other} has no effect");
    }
}
