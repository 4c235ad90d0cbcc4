// calibrate_copy: copies lanes from one buffer to another, to measure how fast the device moves bytes.

// variant {
// }

struct Params {
    lanes: u32,
}

const WORKGROUP_SIZE: u32 = 256u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> destination: array<vec4<f32>>;

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
    destination[lane] = source[lane];
}
