//! Attention without a program: steps, appended tokens and steps back, against the reference.

mod harness;

use harness::attention::{PLAIN, Sizes, Way};
use harness::{compare, gpu, random, rng};
use torchlight::kernels::update_cache::Rows;
use torchlight::{Attention, AttentionShape, Error, SessionOptions, reference};

const SIZES: Sizes = Sizes { tokens: 12, ..PLAIN };

fn shape() -> AttentionShape {
    AttentionShape {
        q_heads: SIZES.q_heads,
        kv_heads: SIZES.kv_heads,
        head_dim: SIZES.head_dim,
        max_new_tokens: SIZES.tokens,
        cache_rows: SIZES.cache_rows,
        scale: None,
    }
}

#[test]
fn steps_appended_tokens_and_steps_back_are_those_of_the_reference() {
    for way in Way::serving(gpu(), Sizes { tokens: 12, ..SIZES }) {
        let options = SessionOptions { kv: way.kv, route: way.route, ..SessionOptions::default() };
        let mut attention = Attention::new(gpu(), shape(), options).unwrap();
        let rng = &mut rng("alone");
        let mut caches = [(); 2].map(|()| vec![0.0; SIZES.cache_elements()]);
        for (context_len, tokens, attends) in
            [(0, 12, true), (12, 5, false), (17, 1, true), (9, 3, true), (12, 1, true)]
        {
            attention.rewind(context_len).unwrap();
            let problem = SIZES.problem(tokens, context_len);
            let q = random(rng, (tokens * SIZES.q_heads * SIZES.head_dim) as usize);
            let kv = [(); 2].map(|()| random(rng, (tokens * SIZES.kv_row()) as usize));
            for (cache, new) in caches.iter_mut().zip(&kv) {
                reference::update_cache::reference(Rows::from(problem), &way.cached(new), cache);
            }
            let case = format!("{tokens} tokens at {context_len}, {way:?}");
            if attends {
                let got = attention.attend(&q, &kv[0], &kv[1]).unwrap();
                let wanted = reference::attention(&problem, &q, &caches[0], &caches[1]);
                compare::assert_close(&case, &got, &wanted, way.tolerance());
            } else {
                attention.append(&kv[0], &kv[1]).unwrap();
            }
            assert_eq!(attention.context_len(), context_len + tokens, "{case}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut attention = Attention::new(gpu(), shape(), SessionOptions::default()).unwrap();
    let row = |heads: u32, tokens: u32| vec![0.5; (heads * tokens * SIZES.head_dim) as usize];
    attention.attend(&row(4, 12), &row(2, 12), &row(2, 12)).unwrap();
    let before = attention.session().read_states().unwrap();
    let cases: [(&str, [Vec<f32>; 3]); 5] = [
        ("q: wanted 64 elements, got 128", [row(4, 2), row(2, 1), row(2, 1)]),
        ("v: wanted 32 elements, got 64", [row(4, 1), row(2, 1), row(2, 2)]),
        ("k: wanted 1 to 12 tokens of 32 elements, got 416 elements", [row(4, 12), row(2, 13), row(2, 13)]),
        ("k: wanted 1 to 12 tokens of 32 elements, got 0 elements", [vec![], vec![], vec![]]),
        ("k: wanted 1 to 12 tokens of 32 elements, got 31 elements", [row(4, 1), row(2, 1)[1..].to_vec(), row(2, 1)]),
    ];
    for (wanted, [q, k, v]) in cases {
        assert_eq!(attention.attend(&q, &k, &v).unwrap_err().to_string(), wanted);
    }
    assert!(attention.rewind(13).unwrap_err().to_string().contains("at most the 12 tokens so far"));
    attention.append(&row(2, 12), &row(2, 12)).unwrap();
    let full = attention.append(&row(2, 9), &row(2, 9)).unwrap_err();
    assert!(matches!(full, Error::CacheFull { input_pos: 24, new_tokens: 9, cache_rows: 32, .. }), "{full}");
    assert_eq!(attention.context_len(), 24);
    attention.rewind(12).unwrap();
    let rows = 12 * 2 * 16;
    let after = attention.session().read_states().unwrap();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.to_f32().unwrap()[..rows], after.to_f32().unwrap()[..rows]);
    }
    let too_many = AttentionShape { max_new_tokens: 33, ..shape() };
    let error = Attention::new(gpu(), too_many, SessionOptions::default()).unwrap_err().to_string();
    assert_eq!(error, "max_new_tokens: wanted at most the cache's 32 rows, got 33");
}
