// embedding_q4: out[i] = values of row ids[i] of a table of 4-bit numbers; value = (number - 8) * scale of its group.
//
// An invocation an element. Neighbours read the same word and scale, and write side by side. An id outside the table
// takes the nearest row: the host refuses those that it sees.

// variant {
const LOW_COLUMN: u32 = 0u;
// }

struct Params {
    elements: u32,  // of the result
    rows: u32,      // of the table
    columns: u32,   // of a row
    group: u32,     // columns that share a scale
}

const WORKGROUP_SIZE: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> table: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;  // rows by groups
@group(0) @binding(3) var<storage, read> ids: array<i32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let element = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    if (element >= params.elements) {
        return;
    }
    let column = element % params.columns;
    let row = min(u32(max(ids[element / params.columns], 0)), params.rows - 1u);
    let byte = row * (params.columns / 2u) + column / 2u;
    let half = (column + LOW_COLUMN) % 2u;
    let number = (table[byte / 4u] >> (byte % 4u * 8u + half * 4u)) & 15u;
    let scale = scales[row * (params.columns / params.group) + column / params.group];
    out[element] = (f32(number) - 8.0) * scale;
}
