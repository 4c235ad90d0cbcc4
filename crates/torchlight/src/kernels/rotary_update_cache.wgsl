// rotary_update_cache: turns the pairs of q's and k's heads by their tokens' angles, and writes keys and values to their caches.
//
// One invocation a pair of neighbours: of each token those of its queries, then of its keys, then of its values, which are
// not turned. q, k and v may be one buffer, in which a token's queries, keys and values stand one after the other: where
// each of them begins, and how far it is to the next token's, the params say. Caches are [1, rows, kv_heads, head_dim];
// one of f16 holds a pair in a u32, its first element in the low half.

// variant {
alias Stored = vec2<f32>;
fn pack(x: Pair) -> Stored { return x; }
// }

alias Pair = vec2<f32>;

struct Params {
    tokens: u32,
    q_pairs: u32,      // of a token's queries
    kv_pairs: u32,     // of a token's keys, and of its values
    head_pairs: u32,   // of a head, and angles of a token
    input_pos: u32,    // the cache row of the first token
    first_angle: u32,  // the row of cosines and sines of the first token
    q_first: u32,      // where the first token's queries begin
    k_first: u32,
    v_first: u32,
    q_step: u32,       // from a token's queries to the next one's
    k_step: u32,
    v_step: u32,
}

const WORKGROUP_SIZE: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<Pair>;
@group(0) @binding(2) var<storage, read> k: array<Pair>;
@group(0) @binding(3) var<storage, read> v: array<Pair>;
@group(0) @binding(4) var<storage, read> cosines: array<f32>;
@group(0) @binding(5) var<storage, read> sines: array<f32>;
@group(0) @binding(6) var<storage, read_write> k_cache: array<Stored>;
@group(0) @binding(7) var<storage, read_write> v_cache: array<Stored>;
@group(0) @binding(8) var<storage, read_write> q_out: array<Pair>;

const LARGEST_HALF: vec2<f32> = vec2<f32>(65504.0);
const INFINITY_BITS: vec2<u32> = vec2<u32>(0x7f800000u);

// Two halves: what lies beyond the largest becomes the largest, and NaN stays NaN. It is told by its bits, since
// compilers may assume that every number equals itself.
fn halves(x: Pair) -> u32 {
    let is_nan = (bitcast<vec2<u32>>(x) & vec2<u32>(0x7fffffffu)) > INFINITY_BITS;
    return pack2x16float(select(clamp(x, -LARGEST_HALF, LARGEST_HALF), x, is_nan));
}

fn turned(x: Pair, token: u32, pair: u32) -> Pair {
    let angle = (params.first_angle + token) * params.head_pairs + pair % params.head_pairs;
    let c = cosines[angle];
    let s = sines[angle];
    return Pair(x.x * c - x.y * s, x.x * s + x.y * c);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    let token_pairs = params.q_pairs + 2u * params.kv_pairs;
    let token = index / token_pairs;
    if (token >= params.tokens) {
        return;
    }
    let pair = index % token_pairs;
    if (pair < params.q_pairs) {
        q_out[token * params.q_pairs + pair] = turned(q[params.q_first + token * params.q_step + pair], token, pair);
        return;
    }
    let k_pair = pair - params.q_pairs;
    let row = (params.input_pos + token) * params.kv_pairs;
    if (k_pair < params.kv_pairs) {
        k_cache[row + k_pair] = pack(turned(k[params.k_first + token * params.k_step + k_pair], token, k_pair));
        return;
    }
    let v_pair = k_pair - params.kv_pairs;
    v_cache[row + v_pair] = pack(v[params.v_first + token * params.v_step + v_pair]);
}
