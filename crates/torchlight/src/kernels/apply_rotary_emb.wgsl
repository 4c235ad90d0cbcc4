// apply_rotary_emb: turns every pair of neighbours (2i, 2i + 1) of q's and k's heads by its token's i-th angle.
//
// One invocation a pair, those of q first. All heads of a token share its row of cosines and sines.

// variant {
alias Pair = vec2<f32>;
// }

struct Params {
    q_pairs: u32,    // of q in all
    k_pairs: u32,    // of k in all
    q_heads: u32,
    k_heads: u32,
    head_pairs: u32, // of a head, and angles of a token
}

const WORKGROUP_SIZE: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<Pair>;
@group(0) @binding(2) var<storage, read> k: array<Pair>;
@group(0) @binding(3) var<storage, read> cosines: array<f32>;
@group(0) @binding(4) var<storage, read> sines: array<f32>;
@group(0) @binding(5) var<storage, read_write> q_out: array<Pair>;
@group(0) @binding(6) var<storage, read_write> k_out: array<Pair>;

fn turned(x: Pair, pair: u32, heads: u32) -> Pair {
    let token = pair / (heads * params.head_pairs);
    let angle = token * params.head_pairs + pair % params.head_pairs;
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
    let pair = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    if (pair < params.q_pairs) {
        q_out[pair] = turned(q[pair], pair, params.q_heads);
        return;
    }
    let k_pair = pair - params.q_pairs;
    if (k_pair < params.k_pairs) {
        k_out[k_pair] = turned(k[k_pair], k_pair, params.k_heads);
    }
}
