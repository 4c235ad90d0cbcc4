// linear_q4_tile: out = x * transpose(weight) + bias, for any number of rows of x and a weight of 4-bit numbers.
//
// A workgroup computes 32 rows by 64 output features, an invocation 4 by 4 of them. Columns go through workgroup memory
// 32 at a time, as quads of rows; numbers become values on the way there, once a tile. Half of the invocations load a
// word of eight columns of four rows of the weight, the others four columns of four rows of x, and store them transposed.
// The place of a quad is turned by its column, so that neither stores nor loads meet in a bank. Rows and output features
// past the end compute the last one again, and nobody writes them.

// variant {
alias Floats = vec4<f32>;
fn x_quad(first: u32) -> vec4<f32> { return x[first / 4u]; }
fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> { return quad; }
const WORDS: u32 = 1u;
alias Packed = u32;
fn load(first: u32) -> Packed { return weight[first / 4u]; }
fn word(load: Packed, index: u32) -> u32 { return load; }
fn shared_scales(column: u32, output: u32) -> vec4<f32> { return scales[(column / params.group * params.out_features + output) / 4u]; }
fn scaled(quad: vec4<f32>, column: u32, output: u32) -> vec4<f32> { return quad; }
fn store(first: u32, count: u32, quad: vec4<f32>) { out[first / 4u] = quad; }
// }

struct Params {
    rows: u32,
    in_features: u32,
    out_features: u32,
    has_bias: u32,
    group: u32,  // columns that share a scale
    eps: f32,
}

const WORKGROUP_SIZE: u32 = 128u;
const COLUMNS: u32 = 32u;
const COLUMN_QUADS: u32 = COLUMNS / 4u;
const ROW_QUADS: u32 = 8u;      // of a tile
const OUTPUT_QUADS: u32 = 16u;
const TILE_WORDS: u32 = COLUMNS / 8u;
const LOADERS: u32 = TILE_WORDS * OUTPUT_QUADS;  // of the weight; the other invocations load x
const POWERS: vec4<f32> = vec4<f32>(1.0, 16.0, 256.0, 4096.0);
const INVERSE_POWERS: vec4<f32> = 1.0 / POWERS;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Floats>;
@group(0) @binding(2) var<storage, read> weight: array<Packed>;
@group(0) @binding(3) var<storage, read> scales: array<Floats>;  // groups by output features
@group(0) @binding(4) var<storage, read> bias: array<f32>;       // anything where there is none
@group(0) @binding(5) var<storage, read_write> out: array<Floats>;

// Columns by quads of rows.
var<workgroup> x_tile: array<vec4<f32>, COLUMNS * ROW_QUADS>;
var<workgroup> weight_tile: array<vec4<f32>, COLUMNS * OUTPUT_QUADS>;

// A quad of x in some row, 0 past its end. The last quads of a tile may lie there as a whole.
fn x_at(row: u32, column: u32) -> vec4<f32> {
    let quad = inside(x_quad(min(row, params.rows - 1u) * params.in_features + column), column);
    return select(vec4<f32>(0.0), quad, column < params.in_features);
}

// Four numbers, from the low 16 bits up: (number - 8) * 16^i, exactly. Their bits are put into the mantissa of 2^23 where
// they stand, which costs no shift and no conversion.
fn numbers(bits: u32) -> vec4<f32> {
    let parts = (vec4<u32>(bits) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u)) | vec4<u32>(0x4b000000u);
    return bitcast<vec4<f32>>(parts) - (8388608.0 + 8.0 * POWERS);
}

// Eight values of an output feature, 0 past the end.
fn weight_at(output: u32, column: u32, shared_scale: f32) -> array<vec4<f32>, 2> {
    let own = min(output, params.out_features - 1u);
    let bits = load(own * (params.in_features / 2u) + column / 2u);
    let low = scaled(numbers(bits), column, own) * INVERSE_POWERS * shared_scale;
    let high = scaled(numbers(bits >> 16u), column + 4u, own) * INVERSE_POWERS * shared_scale;
    let is_inside = column < params.in_features;
    return array<vec4<f32>, 2>(select(vec4<f32>(0.0), low, is_inside), select(vec4<f32>(0.0), high, is_inside));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row_tiles = (params.rows + ROW_QUADS * 4u - 1u) / (ROW_QUADS * 4u);
    let tile = group.y * groups.x + group.x;
    let first_output = tile / row_tiles * (OUTPUT_QUADS * 4u);
    if (first_output >= params.out_features) {
        return;
    }
    let first_row = tile % row_tiles * (ROW_QUADS * 4u);

    // What this invocation loads: a word of a quad of output features, or a quad of columns of a quad of rows.
    let load_word = local % TILE_WORDS;
    let load_outputs = local / TILE_WORDS;
    let load_column = (local - LOADERS) % COLUMN_QUADS;
    let load_rows = (local - LOADERS) / COLUMN_QUADS;
    // What it computes.
    let row_quad = local / OUTPUT_QUADS;
    let output_quad = local % OUTPUT_QUADS;

    var sums: array<vec4<f32>, 4>;
    for (var row = 0u; row < 4u; row += 1u) { // unrolled
        sums[row] = vec4<f32>(0.0);
    }
    for (var first_column = 0u; first_column < params.in_features; first_column += COLUMNS) {
        if (local < LOADERS) {
            let column = first_column + load_word * 8u;
            let output = first_output + load_outputs * 4u;
            let shared_scale = shared_scales(column, output);
            let w0 = weight_at(output, column, shared_scale.x);
            let w1 = weight_at(output + 1u, column, shared_scale.y);
            let w2 = weight_at(output + 2u, column, shared_scale.z);
            let w3 = weight_at(output + 3u, column, shared_scale.w);
            for (var half = 0u; half < 2u; half += 1u) { // unrolled
                let quad = load_word * 2u + half;
                for (var i = 0u; i < 4u; i += 1u) { // unrolled
                    let place = (quad * 4u + i) * OUTPUT_QUADS + (load_outputs ^ quad);
                    weight_tile[place] = vec4<f32>(w0[half][i], w1[half][i], w2[half][i], w3[half][i]);
                }
            }
        } else {
            let column = first_column + load_column * 4u;
            let row = first_row + load_rows * 4u;
            let x0 = x_at(row, column);
            let x1 = x_at(row + 1u, column);
            let x2 = x_at(row + 2u, column);
            let x3 = x_at(row + 3u, column);
            for (var i = 0u; i < 4u; i += 1u) { // unrolled
                let place = (load_column * 4u + i) * ROW_QUADS + (load_rows ^ load_column);
                x_tile[place] = vec4<f32>(x0[i], x1[i], x2[i], x3[i]);
            }
        }
        workgroupBarrier();
        for (var quad = 0u; quad < COLUMN_QUADS; quad += 1u) {
            for (var i = 0u; i < 4u; i += 1u) { // unrolled
                let xs = x_tile[(quad * 4u + i) * ROW_QUADS + (row_quad ^ quad)];
                let ws = weight_tile[(quad * 4u + i) * OUTPUT_QUADS + (output_quad ^ quad)];
                for (var row = 0u; row < 4u; row += 1u) { // unrolled
                    sums[row] += xs[row] * ws;
                }
            }
        }
        workgroupBarrier();
    }

    let output = first_output + output_quad * 4u;
    if (output >= params.out_features) {
        return;
    }
    let count = min(params.out_features - output, 4u);
    var added = vec4<f32>(0.0);
    if (params.has_bias != 0u) {
        let last = params.out_features - 1u;
        added = vec4<f32>(
            bias[output], bias[min(output + 1u, last)], bias[min(output + 2u, last)], bias[min(output + 3u, last)]
        );
    }
    for (var i = 0u; i < 4u; i += 1u) { // unrolled
        let row = first_row + row_quad * 4u + i;
        if (row < params.rows) {
            store(row * params.out_features + output, count, sums[i] + added);
        }
    }
}
