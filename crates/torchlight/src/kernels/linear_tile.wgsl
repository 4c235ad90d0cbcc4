// linear_tile: out = x * transpose(weight) + bias, for any number of rows of x.
//
// A workgroup computes 32 rows by 64 output features, an invocation 4 by 4 of them. Columns go through workgroup memory
// 32 at a time, as quads of rows: an invocation loads four rows by four columns and stores them transposed. The place of
// a quad is turned by its column, so that neither stores nor loads meet in a bank. Rows and output features past the end
// compute the last one again, and nobody writes them.

// variant {
alias Floats = vec4<f32>;
fn x_quad(first: u32) -> vec4<f32> { return x[first / 4u]; }
fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> { return quad; }
fn weight_quad(first: u32) -> vec4<f32> { return weight[first / 4u]; }
fn store(first: u32, count: u32, quad: vec4<f32>) { out[first / 4u] = quad; }
// }

struct Params {
    rows: u32,
    in_features: u32,
    out_features: u32,
    has_bias: u32,
    group: u32,
    eps: f32,
}

const WORKGROUP_SIZE: u32 = 128u;
const COLUMNS: u32 = 32u;
const COLUMN_QUADS: u32 = COLUMNS / 4u;
const ROW_QUADS: u32 = 8u;      // of a tile
const OUTPUT_QUADS: u32 = 16u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Floats>;
@group(0) @binding(2) var<storage, read> weight: array<Floats>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;  // anything where there is none
@group(0) @binding(4) var<storage, read_write> out: array<Floats>;

// Columns by quads of rows.
var<workgroup> x_tile: array<vec4<f32>, COLUMNS * ROW_QUADS>;
var<workgroup> weight_tile: array<vec4<f32>, COLUMNS * OUTPUT_QUADS>;

// A quad of x in some row, 0 past its end. The last quads of a tile may lie there as a whole.
fn x_at(row: u32, column: u32) -> vec4<f32> {
    let quad = inside(x_quad(min(row, params.rows - 1u) * params.in_features + column), column);
    return select(vec4<f32>(0.0), quad, column < params.in_features);
}

fn weight_at(output: u32, column: u32) -> vec4<f32> {
    let first = min(output, params.out_features - 1u) * params.in_features + column;
    return select(vec4<f32>(0.0), inside(weight_quad(first), column), column < params.in_features);
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

    // What this invocation loads: a quad of columns of a quad of rows.
    let load_column = local % COLUMN_QUADS;
    let load_quad = local / COLUMN_QUADS;
    let load_row = first_row + load_quad * 4u;
    let load_output = first_output + load_quad * 4u;
    // What it computes.
    let row_quad = local / OUTPUT_QUADS;
    let output_quad = local % OUTPUT_QUADS;

    var sums: array<vec4<f32>, 4>;
    for (var row = 0u; row < 4u; row += 1u) { // unrolled
        sums[row] = vec4<f32>(0.0);
    }
    for (var first_column = 0u; first_column < params.in_features; first_column += COLUMNS) {
        let column = first_column + load_column * 4u;
        if (load_quad < ROW_QUADS) {
            let x0 = x_at(load_row, column);
            let x1 = x_at(load_row + 1u, column);
            let x2 = x_at(load_row + 2u, column);
            let x3 = x_at(load_row + 3u, column);
            for (var i = 0u; i < 4u; i += 1u) { // unrolled
                let place = (load_column * 4u + i) * ROW_QUADS + (load_quad ^ load_column);
                x_tile[place] = vec4<f32>(x0[i], x1[i], x2[i], x3[i]);
            }
        }
        let w0 = weight_at(load_output, column);
        let w1 = weight_at(load_output + 1u, column);
        let w2 = weight_at(load_output + 2u, column);
        let w3 = weight_at(load_output + 3u, column);
        for (var i = 0u; i < 4u; i += 1u) { // unrolled
            let place = (load_column * 4u + i) * OUTPUT_QUADS + (load_quad ^ load_column);
            weight_tile[place] = vec4<f32>(w0[i], w1[i], w2[i], w3[i]);
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
