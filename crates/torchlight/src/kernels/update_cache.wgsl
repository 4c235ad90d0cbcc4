// update_cache: writes the rows of a step into their place in a KV cache.
//
// Value and cache are [1, rows, kv_heads, head_dim], so the new rows are one run of lanes in both.

// variant {
alias Lanes = vec4<f32>;
// }

struct Params {
    lanes: u32,       // lanes to write
    first_lane: u32,  // where the run starts in the cache
}

const WORKGROUP_SIZE: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> value: array<Lanes>;
@group(0) @binding(2) var<storage, read_write> cache: array<Lanes>;

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
    cache[params.first_lane + lane] = value[lane];
}
