// linear_vector: out = x * transpose(weight) + bias, for up to ROWS rows of x, in one pass over the weight.
//
// An invocation computes four neighbouring output features of all rows, over every LANES-th quad of columns: what it
// loads of x serves four rows of the weight. LANES invocations, a strip, share the columns and are summed in the end
// through workgroup memory. Output features past the last one compute it again, and nobody writes them.

// variant {
const ROWS: u32 = 4u;
alias Floats = vec4<f32>;
fn x_quad(first: u32) -> vec4<f32> { return x[first / 4u]; }
fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> { return quad; }
fn weight_quad(first: u32) -> vec4<f32> { return weight[first / 4u]; }
// }

struct Params {
    rows: u32,
    in_features: u32,
    out_features: u32,
    has_bias: u32,
    group: u32,
    eps: f32,
}

const WORKGROUP_SIZE: u32 = 64u;
const LANES: u32 = 32u;
const OUTPUTS: u32 = WORKGROUP_SIZE / LANES * 4u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Floats>;
@group(0) @binding(2) var<storage, read> weight: array<Floats>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;  // anything where there is none
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

var<workgroup> parts: array<vec4<f32>, ROWS * WORKGROUP_SIZE>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first_output = (group.y * groups.x + group.x) * OUTPUTS;
    if (first_output >= params.out_features) {
        return;
    }
    let lane = local % LANES;
    let output = first_output + local / LANES * 4u;
    let outputs = min(vec4<u32>(output, output + 1u, output + 2u, output + 3u), vec4<u32>(params.out_features - 1u));
    let starts = outputs * params.in_features;

    var sums: array<vec4<f32>, ROWS>;
    for (var row = 0u; row < ROWS; row += 1u) { // unrolled
        sums[row] = vec4<f32>(0.0);
    }
    for (var column = lane * 4u; column < params.in_features; column += LANES * 4u) {
        let w0 = inside(weight_quad(starts.x + column), column);
        let w1 = inside(weight_quad(starts.y + column), column);
        let w2 = inside(weight_quad(starts.z + column), column);
        let w3 = inside(weight_quad(starts.w + column), column);
        for (var row = 0u; row < ROWS; row += 1u) { // unrolled
            // The same for all invocations: rows that are not there cost nothing.
            if (row == 0u || row < params.rows) {
                let xs = inside(x_quad(row * params.in_features + column), column);
                sums[row] += vec4<f32>(dot(w0, xs), dot(w1, xs), dot(w2, xs), dot(w3, xs));
            }
        }
    }

    for (var row = 0u; row < ROWS; row += 1u) { // unrolled
        parts[row * WORKGROUP_SIZE + local] = sums[row];
    }
    for (var distance = LANES / 2u; distance > 0u; distance /= 2u) {
        workgroupBarrier();
        if (lane < distance) {
            for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                parts[row * WORKGROUP_SIZE + local] += parts[row * WORKGROUP_SIZE + local + distance];
            }
        }
    }
    workgroupBarrier();

    let own = output + lane;
    if (lane >= 4u || own >= params.out_features) {
        return;
    }
    var added = 0.0;
    if (params.has_bias != 0u) {
        added = bias[own];
    }
    for (var row = 0u; row < ROWS; row += 1u) { // unrolled
        if (row < params.rows) {
            out[row * params.out_features + own] = parts[row * WORKGROUP_SIZE + local - lane][lane] + added;
        }
    }
}
