// slice_copy: every step-th position of one dimension, from a first one on.
//
// One invocation a lane of the result. The dimensions before the sliced one and those behind it count as one each:
// [outer, size, inner]. Elements are moved as words of 32 bits, whatever they are.

// variant {
alias Lanes = u32;
// }

struct Params {
    lanes: u32,        // of the result
    inner_lanes: u32,  // behind the sliced dimension
    count: u32,        // positions of the result
    size: u32,         // positions of x
    first: u32,
    step: u32,
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
    let inner = lane % params.inner_lanes;
    let row = lane / params.inner_lanes;
    let position = params.first + row % params.count * params.step;
    out[lane] = x[(row / params.count * params.size + position) * params.inner_lanes + inner];
}
