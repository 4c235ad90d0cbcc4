// rms_norm: out = x / sqrt(mean(x^2) + eps) * weight, row by row.
//
// One workgroup a row. Its invocations add up squares of lanes WORKGROUP_SIZE apart, then join their sums in workgroup
// memory; the second reading of the row comes from the cache.

// variant {
alias Lanes = f32;
const WORKGROUP_SIZE: u32 = 64u;
fn squares(x: Lanes) -> f32 { return x * x; }
// }

struct Params {
    rows: u32,
    row_lanes: u32,  // lanes of a row, and of the weight
    width: u32,      // elements of a row
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Lanes>;
@group(0) @binding(2) var<storage, read> weight: array<Lanes>;
@group(0) @binding(3) var<storage, read_write> out: array<Lanes>;

var<workgroup> partial: array<f32, WORKGROUP_SIZE>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = group.y * groups.x + group.x;
    if (row >= params.rows) {
        return;
    }
    let first = row * params.row_lanes;

    var sum = 0.0;
    for (var i = local; i < params.row_lanes; i += WORKGROUP_SIZE) {
        sum += squares(x[first + i]);
    }
    partial[local] = sum;
    workgroupBarrier();
    for (var stride = WORKGROUP_SIZE / 2u; stride > 0u; stride /= 2u) {
        if (local < stride) {
            partial[local] += partial[local + stride];
        }
        workgroupBarrier();
    }
    let factor = inverseSqrt(partial[0] / f32(params.width) + params.eps);

    for (var i = local; i < params.row_lanes; i += WORKGROUP_SIZE) {
        out[first + i] = x[first + i] * factor * weight[i];
    }
}
