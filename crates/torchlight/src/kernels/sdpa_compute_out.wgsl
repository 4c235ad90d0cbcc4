// sdpa_compute_out: out[s, h] = sum over the visible keys t of weights[h, s, t] * v_cache[t, h / group].
//
// One workgroup makes COLUMNS lanes of one row (h, s). Its invocations are COLUMNS x STRANDS: a strand takes every
// STRANDS-th key, and the strands are added at the end, so that a decode step with one row still fills the device.

// variant {
alias Lanes = vec4<f32>;
alias Stored = vec4<f32>;
fn unpack(x: Stored) -> Lanes { return x; }
// }

struct Params {
    q_heads: u32,
    kv_heads: u32,
    head_lanes: u32,     // lanes of one head: head_dim / width of Lanes
    new_tokens: u32,
    context_len: u32,    // input_pos + new_tokens
    column_blocks: u32,  // workgroups a row: ceil(head_lanes / COLUMNS)
}

const COLUMNS: u32 = 16u;
const STRANDS: u32 = 8u;
const WORKGROUP_SIZE: u32 = COLUMNS * STRANDS;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> weights: array<f32>;
@group(0) @binding(2) var<storage, read> v_cache: array<Stored>;
@group(0) @binding(3) var<storage, read_write> out: array<Lanes>;

var<workgroup> partial: array<Lanes, WORKGROUP_SIZE>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let block = group.y * groups.x + group.x;
    let row = block / params.column_blocks;
    if (row >= params.q_heads * params.new_tokens) {
        return;
    }
    let s = row % params.new_tokens;
    let h = row / params.new_tokens;
    let kv_head = h / (params.q_heads / params.kv_heads);
    let lane = block % params.column_blocks * COLUMNS + local % COLUMNS;
    let strand = local / COLUMNS;
    let visible = params.context_len - params.new_tokens + s + 1u;

    var acc = Lanes(0.0);
    if (lane < params.head_lanes) {
        for (var t = strand; t < visible; t += STRANDS) {
            let v = unpack(v_cache[(t * params.kv_heads + kv_head) * params.head_lanes + lane]);
            acc += weights[row * params.context_len + t] * v;
        }
    }
    partial[local] = acc;
    workgroupBarrier();
    if (strand == 0u && lane < params.head_lanes) {
        for (var other = 1u; other < STRANDS; other += 1u) {
            acc += partial[other * COLUMNS + local];
        }
        out[(s * params.q_heads + h) * params.head_lanes + lane] = acc;
    }
}
