// sdpa_compute_attn_weights: scores[h, s, t] = scale * dot(q[s, h], k_cache[t, h / group]), for the keys a row may see.
//
// Row s attends to the keys 0..=input_pos + s. Later keys are not computed: their scores stay unwritten, and no later
// stage reads them. Every row of scores has context_len elements.

// variant {
alias Lanes = vec4<f32>;
alias Stored = vec4<f32>;
fn unpack(x: Stored) -> Lanes { return x; }
fn sum_lanes(x: Lanes) -> f32 { return dot(x, Lanes(1.0)); }
// }

struct Params {
    q_heads: u32,
    kv_heads: u32,
    head_lanes: u32,   // lanes of one head: head_dim / width of Lanes
    new_tokens: u32,
    context_len: u32,  // input_pos + new_tokens
    scale: f32,
}

const WORKGROUP_SIZE: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<Lanes>;
@group(0) @binding(2) var<storage, read> k_cache: array<Stored>;
@group(0) @binding(3) var<storage, read_write> scores: array<f32>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    let t = index % params.context_len;
    let row = index / params.context_len;
    let s = row % params.new_tokens;
    let h = row / params.new_tokens;
    let input_pos = params.context_len - params.new_tokens;
    if (h >= params.q_heads || t > input_pos + s) {
        return;
    }
    let kv_head = h / (params.q_heads / params.kv_heads);
    let q_first = (s * params.q_heads + h) * params.head_lanes;
    let k_first = (t * params.kv_heads + kv_head) * params.head_lanes;
    var acc = Lanes(0.0);
    for (var lane = 0u; lane < params.head_lanes; lane += 1u) {
        acc += q[q_first + lane] * unpack(k_cache[k_first + lane]);
    }
    scores[index] = params.scale * sum_lanes(acc);
}
