// linear_tile: out = x * transpose(weight) + bias, and what becomes of it, for any number of rows of x.
//
// A workgroup computes TILE_ROWS rows by TILE_OUTPUTS rows of the weight; an invocation ROW_QUADS quads of rows by two
// quads of outputs, ROW_LANES and OUTPUT_LANES apart. Columns go through workgroup memory COLUMNS at a time, as quads of
// rows: an invocation loads blocks of four rows by a word of columns, four columns of floats or eight of 4-bit numbers,
// and stores them transposed, numbers as values. The next columns are on their way in registers while one lot is used.
// The place of a quad is turned by its column, so that neither stores nor loads meet in a bank.
//
// SwiGLU: the first quad of outputs that an invocation has is of the gate, the second of the up projection, of the same
// features. So both halves of a feature meet in one invocation.
//
// Bounds: rows of x and of the weight are clamped to the last ones, columns to the last word or element of a row, so what
// lies beyond computes something again, and nobody writes it; values of columns past the last are 0. Quads are loaded
// where features are multiples of four. Blocks beyond a tile are neither loaded nor placed; a turned place stays inside
// its column's quads, since these are a multiple of COLUMN_QUADS. The loop over columns ends because COLUMNS is above 0
// and in_features + COLUMNS below 2^32.

// variant {
const ROW_LANES: u32 = 8u;
const OUTPUT_LANES: u32 = 8u;
const ROW_QUADS: u32 = 1u;
const COLUMNS: u32 = 32u;
const ENDING: u32 = 0u;
const HALVES: u32 = 1u;
alias Floats = vec4<f32>;
fn quad_of_x(row: u32, column: u32) -> vec4<f32> { return x[(row * params.in_features + min(column, params.in_features - 4u)) / 4u]; }
fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> { return select(vec4<f32>(), quad, column < params.in_features); }
fn quad_of_bias(first: u32, last: u32) -> vec4<f32> { return bias[first / 4u]; }
fn quad_of_residual(first: u32, last: u32) -> vec4<f32> { return residual[first / 4u]; }
fn store(first: u32, count: u32, quad: vec4<f32>) { out[first / 4u] = quad; }
const WORD_QUADS: u32 = 1u;
alias Stored = vec4<f32>;
alias Word = vec4<f32>;
fn load_word(row: u32, column: u32) -> Word { return weight[(row * params.in_features + min(column, params.in_features - 4u)) / 4u]; }
fn load_scales(row: u32, column: u32, rows: u32) -> vec4<f32> { return vec4<f32>(1.0); }
fn values(word: Word, part: u32, scale: f32, row: u32, column: u32, rows: u32) -> vec4<f32> { return word; }
// }

struct Params {
    rows: u32,
    in_features: u32,
    out_features: u32,
    has_bias: u32,
    group: u32,  // columns that share a scale
    eps: f32,
}

// What becomes of a product.
const ADD: u32 = 1u;
const SWIGLU: u32 = 2u;

const POWERS: vec4<f32> = vec4<f32>(1.0, 16.0, 256.0, 4096.0);
const INVERSE_POWERS: vec4<f32> = 1.0 / POWERS;

const WORKGROUP_SIZE: u32 = ROW_LANES * OUTPUT_LANES;
const COLUMN_QUADS: u32 = COLUMNS / 4u;
const TILE_ROW_QUADS: u32 = ROW_LANES * ROW_QUADS;
const TILE_OUTPUT_QUADS: u32 = OUTPUT_LANES * 2u;
const TILE_ROWS: u32 = TILE_ROW_QUADS * 4u;
const LANE_ROWS: u32 = ROW_QUADS * 4u;
// Quads of features of the result; the weight has HALVES rows for each feature.
const FEATURE_QUADS: u32 = TILE_OUTPUT_QUADS / HALVES;
const LANE_FEATURE_QUADS: u32 = 2u / HALVES;
// Blocks of a tile, and how many of them an invocation loads.
const X_BLOCKS: u32 = TILE_ROW_QUADS * COLUMN_QUADS;
const LAST_X_BLOCK: u32 = X_BLOCKS - 1u;
const X_LOADS: u32 = LAST_X_BLOCK / WORKGROUP_SIZE + 1u;
const COLUMN_WORDS: u32 = COLUMN_QUADS / WORD_QUADS;
const WEIGHT_BLOCKS: u32 = TILE_OUTPUT_QUADS * COLUMN_WORDS;
const LAST_WEIGHT_BLOCK: u32 = WEIGHT_BLOCKS - 1u;
const WEIGHT_LOADS: u32 = LAST_WEIGHT_BLOCK / WORKGROUP_SIZE + 1u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Floats>;
@group(0) @binding(2) var<storage, read> norm_weight: array<f32>;  // not used
@group(0) @binding(3) var<storage, read> weight: array<Stored>;
@group(0) @binding(4) var<storage, read> scales: array<Floats>;    // groups by rows of the weight; anything for floats
@group(0) @binding(5) var<storage, read> bias: array<Floats>;      // anything where there is none
@group(0) @binding(6) var<storage, read> residual: array<Floats>;  // anything but for ADD
@group(0) @binding(7) var<storage, read_write> out: array<Floats>;

// Columns by quads of rows.
var<workgroup> x_tile: array<vec4<f32>, COLUMNS * TILE_ROW_QUADS>;
var<workgroup> weight_tile: array<vec4<f32>, COLUMNS * TILE_OUTPUT_QUADS>;

// What this invocation has loaded of the next columns.
var<private> x_quads: array<vec4<f32>, X_LOADS * 4u>;
var<private> weight_words: array<Word, WEIGHT_LOADS * 4u>;
var<private> weight_scales: array<vec4<f32>, WEIGHT_LOADS>;

// Four 4-bit numbers, from the low 16 bits up: number - 8, exactly. Their bits are put into the mantissa of 2^23 where
// they stand, which costs no shift and no conversion, and leaves them multiplied with powers of 16.
fn numbers(bits: u32) -> vec4<f32> {
    let parts = (vec4<u32>(bits) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u)) | vec4<u32>(0x4b000000u);
    return (bitcast<vec4<f32>>(parts) - (8388608.0 + 8.0 * POWERS)) * INVERSE_POWERS;
}

// The row of the weight for a row of a quad of the tile.
fn weight_row(first_feature: u32, quad: u32, i: u32) -> u32 {
    let feature = min(first_feature + quad % FEATURE_QUADS * 4u + i, params.out_features - 1u);
    return quad / FEATURE_QUADS * params.out_features + feature;
}

fn weight_rows() -> u32 {
    return HALVES * params.out_features;
}

// Sends for the columns from first_column on.
fn fetch(first_row: u32, first_feature: u32, first_column: u32, local: u32) {
    for (var load = 0u; load < X_LOADS; load += 1u) { // unrolled
        let block = local + load * WORKGROUP_SIZE;
        if ((load + 1u) * WORKGROUP_SIZE <= X_BLOCKS || block < X_BLOCKS) {
            let column = first_column + block % COLUMN_QUADS * 4u;
            for (var i = 0u; i < 4u; i += 1u) { // unrolled
                let row = min(first_row + block / COLUMN_QUADS * 4u + i, params.rows - 1u);
                x_quads[load * 4u + i] = quad_of_x(row, column);
            }
        }
    }
    for (var load = 0u; load < WEIGHT_LOADS; load += 1u) { // unrolled
        let block = local + load * WORKGROUP_SIZE;
        if ((load + 1u) * WORKGROUP_SIZE <= WEIGHT_BLOCKS || block < WEIGHT_BLOCKS) {
            let column = first_column + block % COLUMN_WORDS * WORD_QUADS * 4u;
            let quad = block / COLUMN_WORDS;
            for (var i = 0u; i < 4u; i += 1u) { // unrolled
                weight_words[load * 4u + i] = load_word(weight_row(first_feature, quad, i), column);
            }
            weight_scales[load] = load_scales(weight_row(first_feature, quad, 0u), column, weight_rows());
        }
    }
}

// Puts the columns that have arrived into workgroup memory.
fn place(first_feature: u32, first_column: u32, local: u32) {
    for (var load = 0u; load < X_LOADS; load += 1u) { // unrolled
        let block = local + load * WORKGROUP_SIZE;
        if ((load + 1u) * WORKGROUP_SIZE <= X_BLOCKS || block < X_BLOCKS) {
            let column_quad = block % COLUMN_QUADS;
            let column = first_column + column_quad * 4u;
            let x0 = inside(x_quads[load * 4u], column);
            let x1 = inside(x_quads[load * 4u + 1u], column);
            let x2 = inside(x_quads[load * 4u + 2u], column);
            let x3 = inside(x_quads[load * 4u + 3u], column);
            let place = column_quad * 4u * TILE_ROW_QUADS + ((block / COLUMN_QUADS) ^ column_quad);
            for (var i = 0u; i < 4u; i += 1u) { // unrolled
                x_tile[place + i * TILE_ROW_QUADS] = vec4<f32>(x0[i], x1[i], x2[i], x3[i]);
            }
        }
    }
    for (var load = 0u; load < WEIGHT_LOADS; load += 1u) { // unrolled
        let block = local + load * WORKGROUP_SIZE;
        if ((load + 1u) * WORKGROUP_SIZE <= WEIGHT_BLOCKS || block < WEIGHT_BLOCKS) {
            let quad = block / COLUMN_WORDS;
            let scale = weight_scales[load];
            let rows = weight_rows();
            for (var part = 0u; part < WORD_QUADS; part += 1u) { // unrolled
                let column_quad = block % COLUMN_WORDS * WORD_QUADS + part;
                let column = first_column + column_quad * 4u;
                let row0 = weight_row(first_feature, quad, 0u);
                let row1 = weight_row(first_feature, quad, 1u);
                let row2 = weight_row(first_feature, quad, 2u);
                let row3 = weight_row(first_feature, quad, 3u);
                let w0 = inside(values(weight_words[load * 4u], part, scale.x, row0, column, rows), column);
                let w1 = inside(values(weight_words[load * 4u + 1u], part, scale.y, row1, column, rows), column);
                let w2 = inside(values(weight_words[load * 4u + 2u], part, scale.z, row2, column, rows), column);
                let w3 = inside(values(weight_words[load * 4u + 3u], part, scale.w, row3, column, rows), column);
                let place = column_quad * 4u * TILE_OUTPUT_QUADS + (quad ^ column_quad);
                for (var i = 0u; i < 4u; i += 1u) { // unrolled
                    weight_tile[place + i * TILE_OUTPUT_QUADS] = vec4<f32>(w0[i], w1[i], w2[i], w3[i]);
                }
            }
        }
    }
}

fn silu(x: vec4<f32>) -> vec4<f32> {
    return x / (1.0 + exp(-x));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row_tiles = (params.rows + TILE_ROWS - 1u) / TILE_ROWS;
    let tile = group.y * groups.x + group.x;
    let first_feature = tile / row_tiles * (FEATURE_QUADS * 4u);
    if (first_feature >= params.out_features) {
        return;
    }
    let first_row = tile % row_tiles * TILE_ROWS;
    let row_lane = local / OUTPUT_LANES;
    let output_lane = local % OUTPUT_LANES;

    var sums: array<vec4<f32>, LANE_ROWS * 2u>;  // a row's two quads stand together
    for (var i = 0u; i < LANE_ROWS * 2u; i += 1u) { // unrolled
        sums[i] = vec4<f32>();
    }
    fetch(first_row, first_feature, 0u, local);
    for (var first_column = 0u; first_column < params.in_features; first_column += COLUMNS) {
        workgroupBarrier();
        place(first_feature, first_column, local);
        workgroupBarrier();
        if (first_column + COLUMNS < params.in_features) {
            fetch(first_row, first_feature, first_column + COLUMNS, local);
        }
        for (var column_quad = 0u; column_quad < COLUMN_QUADS; column_quad += 1u) {
            for (var i = 0u; i < 4u; i += 1u) { // unrolled
                let column = column_quad * 4u + i;
                let w0 = weight_tile[column * TILE_OUTPUT_QUADS + (output_lane ^ column_quad)];
                let w1 = weight_tile[column * TILE_OUTPUT_QUADS + ((output_lane + OUTPUT_LANES) ^ column_quad)];
                for (var quad = 0u; quad < ROW_QUADS; quad += 1u) { // unrolled
                    let xs = x_tile[column * TILE_ROW_QUADS + ((row_lane + quad * ROW_LANES) ^ column_quad)];
                    for (var row = 0u; row < 4u; row += 1u) { // unrolled
                        sums[(quad * 4u + row) * 2u] += xs[row] * w0;
                        sums[(quad * 4u + row) * 2u + 1u] += xs[row] * w1;
                    }
                }
            }
        }
    }

    for (var half = 0u; half < LANE_FEATURE_QUADS; half += 1u) { // unrolled
        let feature = first_feature + (output_lane + half * OUTPUT_LANES) * 4u;
        let count = min(max(params.out_features, feature) - feature, 4u);
        var bias0 = vec4<f32>();
        var bias1 = vec4<f32>();
        if (params.has_bias != 0u && count > 0u) {
            bias0 = quad_of_bias(feature, params.out_features - 1u);
            if (ENDING == SWIGLU) {
                bias1 = quad_of_bias(params.out_features + feature, 2u * params.out_features - 1u);
            }
        }
        for (var i = 0u; i < LANE_ROWS; i += 1u) { // unrolled
            let row = first_row + (row_lane + i / 4u * ROW_LANES) * 4u + i % 4u;
            if (row < params.rows && count > 0u) {
                let first = row * params.out_features + feature;
                var result = sums[i * 2u + half] + bias0;
                if (ENDING == ADD) {
                    result += quad_of_residual(first, first + count - 1u);
                }
                if (ENDING == SWIGLU) {
                    result = silu(result) * (sums[i * 2u + 1u] + bias1);
                }
                store(first, count, result);
            }
        }
    }
}
