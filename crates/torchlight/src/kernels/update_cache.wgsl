// update_cache: writes the rows of a step into their place in a KV cache.
//
// Value and cache are [1, rows, kv_heads, head_dim], so the new rows are one run of lanes in both. A cache of f16 holds
// pairs in u32, the first of two in its low half.

// variant {
alias Lanes = vec4<f32>;
alias Stored = vec4<f32>;
fn pack(x: Lanes) -> Stored { return x; }
// }

struct Params {
    lanes: u32,       // lanes to write
    first_lane: u32,  // where the run starts in the cache
}

const WORKGROUP_SIZE: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> value: array<Lanes>;
@group(0) @binding(2) var<storage, read_write> cache: array<Stored>;

const LARGEST_HALF: vec2<f32> = vec2<f32>(65504.0);
const INFINITY_BITS: vec2<u32> = vec2<u32>(0x7f800000u);

// Two halves: what lies beyond the largest becomes the largest, and NaN stays NaN. It is told by its bits, since
// compilers may assume that every number equals itself.
fn pair(x: vec2<f32>) -> u32 {
    let is_nan = (bitcast<vec2<u32>>(x) & vec2<u32>(0x7fffffffu)) > INFINITY_BITS;
    return pack2x16float(select(clamp(x, -LARGEST_HALF, LARGEST_HALF), x, is_nan));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let lane = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    if (lane >= params.lanes) {
        return;
    }
    cache[params.first_lane + lane] = pack(value[lane]);
}
