//! Attention on extreme content: logits, poisoned rows, NaN. No masked key may reach a row.

mod harness;

use harness::attention::{Attention, PLAIN, Qkv, Sizes, Way};
use harness::compare;
use harness::{gpu, random, rng};
use torchlight::kernels::KvType;

const ONE_HEAD: Sizes = Sizes { tokens: 4, q_heads: 1, kv_heads: 1, head_dim: 4, cache_rows: 4, scale: Some(1.0) };

/// Four tokens whose key `t` has the logit `logits[t]` for every query, exactly; values as given.
fn with_logits(logits: [f32; 4], v: Vec<f32>) -> Qkv {
    let lane_0 = |value: f32| [value, 0.0, 0.0, 0.0];
    let q = [1.0; 4].map(lane_0).concat();
    Qkv { tokens: 4, q, k: logits.map(lane_0).concat(), v }
}

#[test]
fn extreme_logits_give_the_weights_of_the_formula() {
    const CASES: [(&str, [f32; 4]); 7] = [
        ("1e4 and -1e4", [1e4, -1e4, 1e4, -1e4]),
        ("-1e4 alone", [-1e4; 4]),
        ("177 overflows exp", [177.0, 177.0, 176.0, -177.0]),
        ("-177 underflows exp", [-177.0, -178.0, -177.0, -176.0]),
        ("a future key that is far larger", [-1e4, -1e4, -1e4, 1e4]),
        ("largest finite", [f32::MAX, 0.0, f32::MAX, 0.0]),
        ("smallest finite", [f32::MIN, f32::MIN, f32::MIN, f32::MAX]),
    ];
    for (case, logits) in CASES {
        for way in Way::serving(gpu(), ONE_HEAD) {
            let qkv = with_logits(logits, random(&mut rng(case), 16));
            Attention::new(gpu(), ONE_HEAD, way).check(format!("{case}, {way:?}"), 0, &qkv, way.tolerance());
        }
    }
}

#[test]
fn logits_below_any_stand_in_for_minus_infinity_leak_nothing() {
    // Every score is -2e30, below the -1e30 that some kernels mask with. Row i sees the keys 0..=i, all alike.
    let sizes = Sizes { scale: None, ..ONE_HEAD };
    for way in Way::serving(gpu(), sizes) {
        let v = way.cached(&random(&mut rng("-2e30"), 16));
        let qkv = Qkv { tokens: 4, q: vec![1e15; 16], k: vec![-1e15; 16], v: v.clone() };
        let got = Attention::new(gpu(), sizes, way).check(format!("-2e30, {way:?}"), 0, &qkv, way.tolerance());
        compare::assert_same_bits(format!("row 0 attends key 0 alone, {way:?}"), &got[..4], &v[..4]);
    }
}

const POISONS: [f32; 4] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30];

fn poisons_and_ways() -> Vec<(f32, Way)> {
    let ways = Way::serving(gpu(), PLAIN);
    POISONS.into_iter().flat_map(|poison| ways.iter().map(move |&way| (poison, way))).collect()
}

#[test]
fn rows_beyond_the_context_are_never_read() {
    for (poison, way) in poisons_and_ways() {
        let rng = &mut rng("beyond");
        let mut clean = Attention::new(gpu(), PLAIN, way);
        let poisoned_rows = vec![poison; PLAIN.cache_elements()];
        let mut poisoned = Attention::with_caches(gpu(), PLAIN, way, [poisoned_rows.clone(), poisoned_rows]);
        for (input_pos, tokens) in [(0, 5), (5, 1), (6, 8)] {
            let qkv = Qkv::random(rng, &PLAIN, tokens);
            let case = format!("{tokens} tokens at {input_pos} before rows of {poison}, {way:?}");
            let [clean, poisoned] = [&mut clean, &mut poisoned].map(|it| it.run(input_pos, &qkv).unwrap());
            assert!(clean.iter().all(|value| value.is_finite()), "{case}");
            compare::assert_same_bits(case, &poisoned, &clean);
        }
    }
}

#[test]
fn rows_left_by_a_longer_past_are_never_read() {
    for (poison, way) in poisons_and_ways() {
        let rng = &mut rng("going back");
        let mut clean = Attention::new(gpu(), PLAIN, way);
        let mut poisoned = Attention::new(gpu(), PLAIN, way);
        let start = Qkv::random(rng, &PLAIN, 4);
        for attention in [&mut clean, &mut poisoned] {
            attention.run(0, &start).unwrap();
        }
        let mut past = Qkv::random(rng, &PLAIN, 8);
        past.k.fill(poison);
        past.v.fill(poison);
        let spoilt = poisoned.run(4, &past).unwrap();
        // An f16 cache holds no infinity and nothing beyond 65504.
        let shows = way.kv == KvType::F32 && poison != 1e30;
        assert!(!shows || spoilt.iter().any(|value| !value.is_finite()), "{poison} was not written");
        // Back to position 2: rows 4 to 11 hold the poison.
        for (input_pos, tokens) in [(2, 2), (4, 1), (5, 3)] {
            let qkv = Qkv::random(rng, &PLAIN, tokens);
            let case = format!("{tokens} tokens at {input_pos} after a past of {poison}, {way:?}");
            let [clean, poisoned] = [&mut clean, &mut poisoned].map(|it| it.run(input_pos, &qkv).unwrap());
            compare::assert_same_bits(case, &poisoned, &clean);
        }
    }
}

#[test]
fn one_nan_in_a_query_spoils_its_own_head_and_row_only() {
    let qkv = Qkv::random(&mut rng("one NaN"), &PLAIN, 8);
    let (token, head, head_dim) = (2, 1, PLAIN.head_dim as usize);
    let first = (token * PLAIN.q_heads as usize + head) * head_dim;
    let mut spoilt = qkv.clone();
    spoilt.q[first + 3] = f32::NAN;
    for way in Way::serving(gpu(), PLAIN) {
        let clean = Attention::new(gpu(), PLAIN, way).run(0, &qkv).unwrap();
        let got = Attention::new(gpu(), PLAIN, way).run(0, &spoilt).unwrap();
        for (index, (got, clean)) in got.iter().zip(&clean).enumerate() {
            let own = (first..first + head_dim).contains(&index);
            let right = if own { got.is_nan() } else { got.to_bits() == clean.to_bits() };
            assert!(right, "{way:?}: element {index} is {got}, without the NaN {clean}; its own row starts at {first}");
        }
    }
}

#[test]
fn values_beyond_the_range_of_f16_saturate_and_nan_stays() {
    let sizes = Sizes { tokens: 1, q_heads: 1, kv_heads: 1, cache_rows: 2, scale: None, ..PLAIN };
    let way = Way { kv: KvType::F16, ..Way::DEFAULT };
    let mut attention = Attention::new(gpu(), sizes, way);
    let mut v = [1e30, -1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 65519.0, 65520.0, 6e-8].to_vec();
    v.extend([0.1; 8]);
    let qkv = Qkv { tokens: 1, q: vec![1.0; 16], k: vec![1.0; 16], v };
    let got = attention.run(0, &qkv).unwrap();
    let wanted = [65504.0, -65504.0, 65504.0, -65504.0, f32::NAN, 65504.0, 65504.0, 5.9604645e-8];
    for (index, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        assert!(*got == wanted || (got.is_nan() && wanted.is_nan()), "element {index}: {got}, wanted {wanted}");
    }
}
