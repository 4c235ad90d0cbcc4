// linear_q4_vector: out = x * transpose(weight) + bias, for up to ROWS rows of x, in one pass over a weight of 4-bit numbers.
//
// An invocation computes four neighbouring output features of all rows, over every LANES-th load of columns: what it
// loads of x serves four rows of the weight. LANES invocations, a strip, share the columns and are summed in the end
// through workgroup memory. Output features past the last one compute it again, and nobody writes them.

// variant {
const ROWS: u32 = 4u;
alias Floats = vec4<f32>;
fn x_quad(first: u32) -> vec4<f32> { return x[first / 4u]; }
fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> { return quad; }
const WORDS: u32 = 4u;
alias Packed = vec4<u32>;
fn load(first: u32) -> Packed { return weight[first / 16u]; }
fn word(load: Packed, index: u32) -> u32 { return load[index]; }
fn shared_scales(column: u32, output: u32) -> vec4<f32> { return scales[(column / params.group * params.out_features + output) / 4u]; }
fn scaled(quad: vec4<f32>, column: u32, output: u32) -> vec4<f32> { return quad; }
// }

struct Params {
    rows: u32,
    in_features: u32,
    out_features: u32,
    has_bias: u32,
    group: u32,  // columns that share a scale
    eps: f32,
}

const WORKGROUP_SIZE: u32 = 64u;
const LANES: u32 = 32u;
const OUTPUTS: u32 = WORKGROUP_SIZE / LANES * 4u;
const COLUMNS: u32 = WORDS * 8u;  // of a load
const QUADS: u32 = WORDS * 2u;
const POWERS: vec4<f32> = vec4<f32>(1.0, 16.0, 256.0, 4096.0);
const INVERSE_POWERS: vec4<f32> = 1.0 / POWERS;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Floats>;
@group(0) @binding(2) var<storage, read> weight: array<Packed>;
@group(0) @binding(3) var<storage, read> scales: array<Floats>;  // groups by output features
@group(0) @binding(4) var<storage, read> bias: array<f32>;       // anything where there is none
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

var<workgroup> parts: array<vec4<f32>, ROWS * WORKGROUP_SIZE>;

// Four numbers, from the low 16 bits up: (number - 8) * 16^i, exactly. Their bits are put into the mantissa of 2^23 where
// they stand, which costs no shift and no conversion.
fn numbers(bits: u32) -> vec4<f32> {
    let parts = (vec4<u32>(bits) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u)) | vec4<u32>(0x4b000000u);
    return bitcast<vec4<f32>>(parts) - (8388608.0 + 8.0 * POWERS);
}

// The bits of four columns of a load.
fn part(load: Packed, quad: u32) -> u32 {
    return word(load, quad / 2u) >> (quad % 2u * 16u);
}

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
    let starts = outputs * (params.in_features / 2u);

    var sums: array<vec4<f32>, ROWS>;
    var dots: array<vec4<f32>, ROWS>;
    for (var row = 0u; row < ROWS; row += 1u) { // unrolled
        sums[row] = vec4<f32>(0.0);
    }
    for (var first_column = lane * COLUMNS; first_column < params.in_features; first_column += LANES * COLUMNS) {
        let load0 = load(starts.x + first_column / 2u);
        let load1 = load(starts.y + first_column / 2u);
        let load2 = load(starts.z + first_column / 2u);
        let load3 = load(starts.w + first_column / 2u);
        let shared_scale = shared_scales(first_column, output);
        for (var row = 0u; row < ROWS; row += 1u) { // unrolled
            dots[row] = vec4<f32>(0.0);
        }
        for (var quad = 0u; quad < QUADS; quad += 1u) { // unrolled
            let column = first_column + quad * 4u;
            let w0 = scaled(numbers(part(load0, quad)), column, outputs.x);
            let w1 = scaled(numbers(part(load1, quad)), column, outputs.y);
            let w2 = scaled(numbers(part(load2, quad)), column, outputs.z);
            let w3 = scaled(numbers(part(load3, quad)), column, outputs.w);
            for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                // The same for all invocations: rows that are not there cost nothing.
                if (row == 0u || row < params.rows) {
                    let xs = inside(x_quad(row * params.in_features + column), column) * INVERSE_POWERS;
                    dots[row] += vec4<f32>(dot(w0, xs), dot(w1, xs), dot(w2, xs), dot(w3, xs));
                }
            }
        }
        for (var row = 0u; row < ROWS; row += 1u) { // unrolled
            sums[row] += dots[row] * shared_scale;
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
