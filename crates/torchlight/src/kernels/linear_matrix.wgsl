// linear_matrix: out = x * transpose(weight) + bias, and what becomes of it, on cooperative matrices.
//
// A workgroup computes TILE_ROWS rows by TILE_OUTPUTS rows of the weight, COLUMN_WAYS times, each time over some of the
// columns, which are added in the end. ROW_WAYS by OUTPUT_WAYS subgroups share a way; each keeps ROW_TILES by OUTPUT_TILES
// sums of 16 x 16 in matrix registers. A way walks through its columns a lot of COLUMNS at a time: a lot lies in workgroup
// memory as halves, and numbers of 4 bits become values on the way there. The next AHEAD lots are on their way in
// registers. Where a way is one subgroup, it waits for no other until the end.
//
// Workgroups that share rows of the weight begin at different lots, so that they do not all ask for the same ones at once.
//
// SwiGLU: the first half of a subgroup's outputs is of the gate, the second of the up projection, of the same features.
// So both halves of a feature meet in one subgroup.
//
// x and the weight are rounded to f16, sums are f32. What lies beyond 65504 becomes infinite, and every sum that it enters
// infinite or NaN. So where a result is not finite it is computed again in f32: what is not finite then has a reason in x,
// weight, bias or residual. At the other end, what is below 2^-14 loses digits, and below 2^-25 becomes 0.
//
// Bounds: rows of x and of the weight are clamped to the last ones, columns to the last quad or word of a row. What lies
// beyond is computed from these, and nobody writes it; x past the last column is 0. Features are multiples of four, with
// 4-bit numbers in_features is one of eight and so is a group. Rows beyond a tile are not placed. Offsets into workgroup
// memory are made of constants, of the subgroup's number, below SUBGROUPS because subgroups are 32 consecutive
// invocations, and of the lane. The loop over lots ends because done grows; the others have known bounds.

enable f16;
enable wgpu_cooperative_matrix;

// variant {
const ROW_TILES: u32 = 2u;
const OUTPUT_TILES: u32 = 2u;
const ROW_WAYS: u32 = 2u;
const OUTPUT_WAYS: u32 = 2u;
const COLUMN_WAYS: u32 = 1u;
const COLUMNS: u32 = 64u;
const AHEAD: u32 = 1u;
const ENDING: u32 = 0u;
const HALVES: u32 = 1u;
const WORD_QUADS: u32 = 1u;
alias Word = vec4<f32>;
fn load_scale(column: u32, row: u32) -> f32 { return 1.0; }
fn exact(word: Word, part: u32, scale: f32) -> vec4<f32> { return word; }
fn rounded(word: Word, part: u32, scale: f32) -> vec4<f16> { return vec4<f16>(word); }
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

const WAY_SUBGROUPS: u32 = ROW_WAYS * OUTPUT_WAYS;
const WAY_THREADS: u32 = WAY_SUBGROUPS * 32u;
const SUBGROUPS: u32 = WAY_SUBGROUPS * COLUMN_WAYS;
const THREADS: u32 = SUBGROUPS * 32u;
const ALL_COLUMNS: u32 = COLUMNS * COLUMN_WAYS;  // of a lot of each way
const TILE_ROWS: u32 = ROW_WAYS * ROW_TILES * 16u;
const TILE_OUTPUTS: u32 = OUTPUT_WAYS * OUTPUT_TILES * 16u;
// Features of the result: the weight has HALVES rows for each.
const TILE_FEATURES: u32 = TILE_OUTPUTS / HALVES;
const FEATURE_TILES: u32 = OUTPUT_TILES / HALVES;
const WAY_FEATURES: u32 = FEATURE_TILES * 16u;
const WAY_OUTPUTS: u32 = OUTPUT_TILES * 16u;
const STEPS: u32 = COLUMNS / 16u;
// Rows in workgroup memory are 16 bytes longer than their data: loads of matrices then meet all banks.
const STRIDE: u32 = COLUMNS / 4u + 2u;
// What an invocation copies: a quad of columns of each ROW_STEP-th row of x, and a word of the weight likewise.
const COLUMN_QUADS: u32 = COLUMNS / 4u;
const ROW_STEP: u32 = WAY_THREADS / COLUMN_QUADS;
const LAST_ROW: u32 = TILE_ROWS - 1u;
const X_LOADS: u32 = LAST_ROW / ROW_STEP + 1u;
const COLUMN_WORDS: u32 = COLUMN_QUADS / WORD_QUADS;
const WORD_COLUMNS: u32 = WORD_QUADS * 4u;
const LINE_STEP: u32 = WAY_THREADS / COLUMN_WORDS;
const LAST_LINE: u32 = TILE_OUTPUTS - 1u;
const WEIGHT_LOADS: u32 = LAST_LINE / LINE_STEP + 1u;
// A matrix of sums in workgroup memory, in quads of columns, and how many of them a lane takes.
const SUM_STRIDE: u32 = 5u;
const SUM_QUADS: u32 = 16u * SUM_STRIDE;
const WAY_LANES: u32 = 32u * COLUMN_WAYS;
const LANE_QUADS: u32 = 63u / WAY_LANES + 1u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm_weight: array<f32>;      // not used
@group(0) @binding(3) var<storage, read> weight: array<Word>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;           // groups by rows of the weight; anything for floats
@group(0) @binding(5) var<storage, read> bias: array<vec4<f32>>;       // anything where there is none
@group(0) @binding(6) var<storage, read> residual: array<vec4<f32>>;   // anything but for ADD
@group(0) @binding(7) var<storage, read_write> out: array<vec4<f32>>;

// Sizes are multiples of 16 bytes: matrices are loaded from multiples of 16 bytes.
var<workgroup> x_tile: array<vec4<f16>, COLUMN_WAYS * TILE_ROWS * STRIDE>;
var<workgroup> weight_tile: array<vec4<f16>, COLUMN_WAYS * TILE_OUTPUTS * STRIDE>;
var<workgroup> floats: array<vec4<f32>, SUBGROUPS * SUM_QUADS>;

// Matrices of this subgroup, [row tile][output tile].
var<private> sums: array<coop_mat16x16<f32, C>, ROW_TILES * OUTPUT_TILES>;
// What this invocation has loaded of the next columns, AHEAD lots of them.
var<private> x_quads: array<vec4<f32>, AHEAD * X_LOADS>;
var<private> weight_words: array<Word, AHEAD * WEIGHT_LOADS>;
var<private> weight_scales: array<f32, AHEAD * WEIGHT_LOADS>;
// Where the rows begin that it loads: of x in quads, of the weight in words, and which rows of the weight they are.
var<private> x_starts: array<u32, X_LOADS>;
var<private> weight_starts: array<u32, WEIGHT_LOADS>;
var<private> weight_lines: array<u32, WEIGHT_LOADS>;
// Which way this is, and the invocation's number in it; where the way's lot lies, and the matrices of the subgroup.
var<private> way: u32;
var<private> way_local: u32;
var<private> x_lot: u32;
var<private> weight_lot: u32;
var<private> x_base: u32;
var<private> weight_base: u32;
// Whether all that this invocation has written is finite.
var<private> all_finite: bool;

// Two 4-bit numbers, of bits 0 and 16 on: number - 8, exactly. Their bits are put into the mantissa of 1024, which costs
// no conversion.
fn numbers(bits: u32) -> vec2<f16> {
    return vec2<f16>(unpack2x16float((bits & 0x000f000fu) | 0x64006400u)) - vec2<f16>(1032.0h);
}

// The row of the weight for a line of the tile.
fn weight_row(first_feature: u32, line: u32) -> u32 {
    let feature = first_feature + line / WAY_OUTPUTS * WAY_FEATURES + line % WAY_FEATURES;
    return line % WAY_OUTPUTS / WAY_FEATURES * params.out_features + min(feature, params.out_features - 1u);
}

// Finds what this invocation is to load.
fn find_rows(first_row: u32, first_feature: u32) {
    for (var load = 0u; load < X_LOADS; load += 1u) { // unrolled
        let row = min(first_row + way_local / COLUMN_QUADS + load * ROW_STEP, params.rows - 1u);
        x_starts[load] = row * (params.in_features / 4u);
    }
    for (var load = 0u; load < WEIGHT_LOADS; load += 1u) { // unrolled
        let row = weight_row(first_feature, min(way_local / COLUMN_WORDS + load * LINE_STEP, LAST_LINE));
        weight_lines[load] = row;
        weight_starts[load] = row * (params.in_features / WORD_COLUMNS);
    }
}

// Sends for a lot. Past the last column it gets the last again.
fn fetch(slot: u32, lot: u32) {
    let first_column = lot * ALL_COLUMNS + way * COLUMNS;
    let quad = min(first_column / 4u + way_local % COLUMN_QUADS, params.in_features / 4u - 1u);
    for (var load = 0u; load < X_LOADS; load += 1u) { // unrolled
        x_quads[slot * X_LOADS + load] = x[x_starts[load] + quad];
    }
    let word = min(first_column / WORD_COLUMNS + way_local % COLUMN_WORDS, params.in_features / WORD_COLUMNS - 1u);
    for (var load = 0u; load < WEIGHT_LOADS; load += 1u) { // unrolled
        weight_words[slot * WEIGHT_LOADS + load] = weight[weight_starts[load] + word];
        weight_scales[slot * WEIGHT_LOADS + load] = load_scale(word * WORD_COLUMNS, weight_lines[load]);
    }
}

// Puts a lot that has arrived into workgroup memory.
fn place(slot: u32, lot: u32) {
    let first_column = lot * ALL_COLUMNS + way * COLUMNS;
    let x_at = x_lot + way_local / COLUMN_QUADS * STRIDE + way_local % COLUMN_QUADS;
    for (var load = 0u; load < X_LOADS; load += 1u) { // unrolled
        if ((load + 1u) * ROW_STEP <= TILE_ROWS || way_local / COLUMN_QUADS + load * ROW_STEP < TILE_ROWS) {
            x_tile[x_at + load * ROW_STEP * STRIDE] = vec4<f16>(x_quads[slot * X_LOADS + load]);
        }
    }
    // Past the last column x is 0, and the weight does not count. Other lots pay no more than a branch for it.
    if (first_column + COLUMNS > params.in_features
        && first_column + way_local % COLUMN_QUADS * 4u >= params.in_features) {
        for (var load = 0u; load < X_LOADS; load += 1u) { // unrolled
            if ((load + 1u) * ROW_STEP <= TILE_ROWS || way_local / COLUMN_QUADS + load * ROW_STEP < TILE_ROWS) {
                x_tile[x_at + load * ROW_STEP * STRIDE] = vec4<f16>();
            }
        }
    }
    let weight_at = weight_lot + way_local / COLUMN_WORDS * STRIDE + way_local % COLUMN_WORDS * WORD_QUADS;
    for (var load = 0u; load < WEIGHT_LOADS; load += 1u) { // unrolled
        if ((load + 1u) * LINE_STEP <= TILE_OUTPUTS || way_local / COLUMN_WORDS + load * LINE_STEP < TILE_OUTPUTS) {
            let held = slot * WEIGHT_LOADS + load;
            for (var part = 0u; part < WORD_QUADS; part += 1u) { // unrolled
                weight_tile[weight_at + load * LINE_STEP * STRIDE + part] =
                    rounded(weight_words[held], part, weight_scales[held]);
            }
        }
    }
}

// Adds the products of the lot in workgroup memory.
fn multiply() {
    for (var step = 0u; step < STEPS; step += 1u) { // unrolled
        var rows: array<coop_mat16x16<f16, A>, ROW_TILES>;
        for (var row_tile = 0u; row_tile < ROW_TILES; row_tile += 1u) { // unrolled
            rows[row_tile] =
                coopLoadT<coop_mat16x16<f16, A>>(&x_tile[x_base + row_tile * 16u * STRIDE + step * 4u], STRIDE);
        }
        for (var tile = 0u; tile < OUTPUT_TILES; tile += 1u) { // unrolled
            let outputs =
                coopLoad<coop_mat16x16<f16, B>>(&weight_tile[weight_base + tile * 16u * STRIDE + step * 4u], STRIDE);
            for (var row_tile = 0u; row_tile < ROW_TILES; row_tile += 1u) { // unrolled
                sums[row_tile * OUTPUT_TILES + tile] =
                    coopMultiplyAdd(rows[row_tile], outputs, sums[row_tile * OUTPUT_TILES + tile]);
            }
        }
    }
}

// Waits for the subgroups that share a way.
fn way_barrier() {
    if (WAY_SUBGROUPS > 1u) {
        workgroupBarrier();
    } else {
        subgroupBarrier();
    }
}

// Waits for the subgroups that share scratch.
fn scratch_barrier() {
    if (COLUMN_WAYS > 1u) {
        workgroupBarrier();
    } else {
        subgroupBarrier();
    }
}

// A quad of the sums in the scratch of all ways.
fn gather(ways_base: u32, quad: u32) -> vec4<f32> {
    let at = ways_base + quad / 4u * SUM_STRIDE + quad % 4u;
    var sum = floats[at];
    for (var other = 1u; other < COLUMN_WAYS; other += 1u) {
        sum += floats[at + other * SUM_QUADS];
    }
    return sum;
}

fn silu(x: vec4<f32>) -> vec4<f32> {
    return x / (1.0 + exp(-x));
}

// Adds bias and residual to sums, or joins gate and up, and writes the result.
fn write_quad(gate: vec4<f32>, up: vec4<f32>, row: u32, feature: u32) {
    let at = (row * params.out_features + feature) / 4u;
    var result = gate;
    if (params.has_bias != 0u) {
        result += bias[feature / 4u];
    }
    if (ENDING == ADD) {
        result += residual[at];
    }
    if (ENDING == SWIGLU) {
        var factor = up;
        if (params.has_bias != 0u) {
            factor += bias[(params.out_features + feature) / 4u];
        }
        result = silu(result) * factor;
    }
    out[at] = result;
    all_finite = all_finite && is_finite(result);
}

fn is_finite(x: vec4<f32>) -> bool {
    let exponents = vec4<u32>(0x7f800000u);
    return all((bitcast<vec4<u32>>(x) & exponents) != exponents);
}

// Writes the result of this subgroup, through its scratch.
fn write_tiles(first_row: u32, first_feature: u32) {
    let ways_base = way_local / 32u * COLUMN_WAYS * SUM_QUADS;
    let base = ways_base + way * SUM_QUADS;
    let way_lane = way * 32u + way_local % 32u;
    for (var row_tile = 0u; row_tile < ROW_TILES; row_tile += 1u) { // unrolled
        for (var tile = 0u; tile < FEATURE_TILES; tile += 1u) { // unrolled
            var gates: array<vec4<f32>, LANE_QUADS>;
            var ups: array<vec4<f32>, LANE_QUADS>;
            coopStoreT(sums[row_tile * OUTPUT_TILES + tile], &floats[base], SUM_STRIDE);
            scratch_barrier();
            for (var i = 0u; i < LANE_QUADS; i += 1u) { // unrolled
                gates[i] = gather(ways_base, min(way_lane + i * WAY_LANES, 63u));
            }
            scratch_barrier();
            if (HALVES == 2u) {
                coopStoreT(sums[row_tile * OUTPUT_TILES + (HALVES - 1u) * FEATURE_TILES + tile], &floats[base], SUM_STRIDE);
                scratch_barrier();
                for (var i = 0u; i < LANE_QUADS; i += 1u) { // unrolled
                    ups[i] = gather(ways_base, min(way_lane + i * WAY_LANES, 63u));
                }
                scratch_barrier();
            }
            for (var i = 0u; i < LANE_QUADS; i += 1u) { // unrolled
                let quad = way_lane + i * WAY_LANES;
                let row = first_row + row_tile * 16u + quad / 4u;
                let feature = first_feature + tile * 16u + quad % 4u * 4u;
                if (quad < 64u && row < params.rows && feature < params.out_features) {
                    write_quad(gates[i], ups[i], row, feature);
                }
            }
        }
    }
}

// Four elements of the product in f32.
fn product(row: u32, output: u32) -> vec4<f32> {
    let words = params.in_features / WORD_COLUMNS;
    var sum = vec4<f32>();
    for (var word = 0u; word < words; word += 1u) {
        for (var i = 0u; i < 4u; i += 1u) {
            let bits = weight[(output + i) * words + word];
            let scale = load_scale(word * WORD_COLUMNS, output + i);
            for (var part = 0u; part < WORD_QUADS; part += 1u) { // unrolled
                let xs = x[(row * words + word) * WORD_QUADS + part];
                sum[i] += dot(xs, exact(bits, part, scale));
            }
        }
    }
    return sum;
}

// Computes again, in f32, those quads of this invocation that have an element that is not finite.
fn mend_tiles(first_row: u32, first_feature: u32) {
    for (var tile = 0u; tile < ROW_TILES * FEATURE_TILES; tile += 1u) {
        for (var quad = way * 32u + way_local % 32u; quad < 64u; quad += WAY_LANES) {
            let row = first_row + tile / FEATURE_TILES * 16u + quad / 4u;
            let feature = first_feature + tile % FEATURE_TILES * 16u + quad % 4u * 4u;
            if (row < params.rows && feature < params.out_features
                && !is_finite(out[(row * params.out_features + feature) / 4u])) {
                var up = vec4<f32>();
                if (HALVES == 2u) {
                    up = product(row, params.out_features + feature);
                }
                write_quad(product(row, feature), up, row, feature);
            }
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    // Neighbours share rows of the weight.
    let row_blocks = (params.rows + TILE_ROWS - 1u) / TILE_ROWS;
    let flat = group.y * groups.x + group.x;
    let first_feature = flat / row_blocks * TILE_FEATURES;
    if (first_feature >= params.out_features) {
        return;
    }
    let first_row = flat % row_blocks * TILE_ROWS;

    way = local / WAY_THREADS;
    way_local = local % WAY_THREADS;
    let output_way = way_local / 32u % OUTPUT_WAYS;
    let row_way = way_local / 32u / OUTPUT_WAYS;
    x_lot = way * TILE_ROWS * STRIDE;
    weight_lot = way * TILE_OUTPUTS * STRIDE;
    x_base = x_lot + row_way * ROW_TILES * 16u * STRIDE;
    weight_base = weight_lot + output_way * OUTPUT_TILES * 16u * STRIDE;

    for (var i = 0u; i < ROW_TILES * OUTPUT_TILES; i += 1u) { // unrolled
        sums[i] = coop_mat16x16<f32, C>();
    }
    find_rows(first_row, first_feature);
    let lots = (params.in_features + ALL_COLUMNS - 1u) / ALL_COLUMNS;
    var next = flat % row_blocks * lots / row_blocks;
    var current = next;
    for (var slot = 0u; slot < AHEAD; slot += 1u) { // unrolled
        fetch(slot, next);
        next = select(next + 1u, 0u, next + 1u == lots);
    }
    var done = 0u;
    loop {
        if (done >= lots) {
            break;
        }
        for (var slot = 0u; slot < AHEAD; slot += 1u) { // unrolled
            if (done >= lots) {
                break;
            }
            way_barrier();
            place(slot, current);
            if (done + AHEAD < lots) {
                fetch(slot, next);
            }
            way_barrier();
            multiply();
            current = select(current + 1u, 0u, current + 1u == lots);
            next = select(next + 1u, 0u, next + 1u == lots);
            done += 1u;
        }
    }
    all_finite = true;
    write_tiles(first_row + row_way * ROW_TILES * 16u, first_feature + output_way * WAY_FEATURES);
    if (!all_finite) {
        mend_tiles(first_row + row_way * ROW_TILES * 16u, first_feature + output_way * WAY_FEATURES);
    }
}
