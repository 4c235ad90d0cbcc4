// sdpa_merge: joins the results of the splits of each row: weighted by exp(max - highest max), then divided by the sum.
//
// One workgroup a row. All invocations share in finding the highest maximum; then STRIPES stripes of HEAD_QUADS columns
// each take every STRIPES-th split, and the stripes are added at the end. A split whose sum is 0 saw no key of the row: its
// maximum and its output do not count.
//
// Bounds: row < rows, else the workgroup returns; split < splits and column < HEAD_QUADS, so that every index is inside
// rows * splits entries of HEAD_QUADS columns and rows outputs. Workgroup arrays have one entry an invocation.

// variant {
const HEAD_QUADS: u32 = 16u;
// }

struct Params {
    rows: u32,    // q_heads * new_tokens
    splits: u32,
}

const WORKGROUP_SIZE: u32 = 128u;
const STRIPES: u32 = WORKGROUP_SIZE / HEAD_QUADS;
const LOWEST: f32 = -0x1.fffffep+127f;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partial_out: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> partial_max_sum: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

var<workgroup> share_max: array<f32, WORKGROUP_SIZE>;
var<workgroup> share_sum: array<f32, WORKGROUP_SIZE>;
var<workgroup> share_out: array<vec4<f32>, WORKGROUP_SIZE>;

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
    let first = row * params.splits;
    var highest = LOWEST;
    for (var split = local; split < params.splits; split += WORKGROUP_SIZE) {
        let max_sum = partial_max_sum[first + split];
        highest = max(highest, select(max_sum.x, LOWEST, max_sum.y == 0.0));
    }
    share_max[local] = highest;
    workgroupBarrier();
    for (var other = 0u; other < min(params.splits, WORKGROUP_SIZE); other += 1u) {
        highest = max(highest, share_max[other]);
    }

    let column = local % HEAD_QUADS;
    var sum = 0.0;
    var acc = vec4<f32>(0.0);
    if (local < STRIPES * HEAD_QUADS) {
        for (var split = local / HEAD_QUADS; split < params.splits; split += STRIPES) {
            let max_sum = partial_max_sum[first + split];
            if (max_sum.y != 0.0) {
                let factor = exp(max_sum.x - highest);
                sum += factor * max_sum.y;
                acc += factor * partial_out[(first + split) * HEAD_QUADS + column];
            }
        }
    }
    share_sum[local] = sum;
    share_out[local] = acc;
    workgroupBarrier();
    if (local < HEAD_QUADS) {
        for (var stripe = 1u; stripe < STRIPES; stripe += 1u) {
            sum += share_sum[stripe * HEAD_QUADS + local];
            acc += share_out[stripe * HEAD_QUADS + local];
        }
        out[row * HEAD_QUADS + local] = acc / sum;
    }
}
