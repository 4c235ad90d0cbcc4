// unary: out = apply(x), element by element.
//
// Four elements a lane, whatever the count: buffers are padded to 16 bytes, so a last lane may reach beyond the tensor.

// variant {
fn apply(x: Lanes) -> Lanes { let t = exp(-abs(x)); return select(t, Lanes(1.0), x >= Lanes(0.0)) / (1.0 + t); }
// }

alias Lanes = vec4<f32>;

struct Params {
    lanes: u32,
}

const WORKGROUP_SIZE: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Lanes>;
@group(0) @binding(2) var<storage, read_write> out: array<Lanes>;

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
    out[lane] = apply(x[lane]);
}
