// embedding: row ids[i] of a table becomes row i of the result.
//
// One invocation a lane of the result. An id outside the table takes the nearest row of it: what the host can see it
// refuses before a run, and nothing may be read outside.

// variant {
alias Lanes = f32;
// }

struct Params {
    lanes: u32,      // of the result
    row_lanes: u32,  // of a row
    rows: u32,       // of the table
}

const WORKGROUP_SIZE: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> table: array<Lanes>;
@group(0) @binding(2) var<storage, read> ids: array<i32>;
@group(0) @binding(3) var<storage, read_write> out: array<Lanes>;

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
    let id = min(u32(max(ids[lane / params.row_lanes], 0)), params.rows - 1u);
    out[lane] = table[id * params.row_lanes + lane % params.row_lanes];
}
