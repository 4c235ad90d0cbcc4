// linear_vector: a linear layer of up to ROWS rows of x, one pass over the weight, with a norm in front and an ending behind.
//
// A strip of LANES invocations multiplies each row of x with four rows of the weight at a time, a block: four elements of
// the result, or two where each takes a row of a gate and one of an up projection. Its lanes share the columns: a lane
// loads COLUMNS of them at once, and TURNS such loads of each row before it uses the first. Where that is the whole row
// (KEEPS_X), a lane's part of x is loaded once and kept for all blocks of its workgroup, and while it works on a block, the
// loads of the next one are under way. Where there is a norm, x is
// multiplied by its weight only: the squares of x are summed beside, and the products divided by their root in the end.
//
// The lanes' sums are added across subgroups, JOINED lanes each, and what is left through workgroup memory, by the
// invocation that writes the element. It loads bias and residual before the products are made, so that they are there in
// the end. Rows of x and elements of the result past the last are computed as the last, and nobody writes them.
//
// Bounds: rows of x are clamped to the last one, rows of the weight to the last of the gate or of the up projection, and
// columns to the last load of a row; a load reaches past the row only where it takes element by element, and clamps each,
// or where it takes any word, and clamps the second. Scales have a row for each group of columns, in which a row of the
// weight has its place. Bias, residual and result are touched where is_own. Workgroup arrays: strip < STRIPS, row < ROWS,
// and of own_row < params.rows <= ROWS too, lane / JOINED < PARTIALS. Loops end: a row has fewer than 2^31 columns.

// variant {
const WORKGROUP_SIZE: u32 = 64u;
const LANES: u32 = 32u;
const JOINED: u32 = 1u;
const TURNS: u32 = 1u;
const ROWS: u32 = 1u;
const KEEPS_X: bool = false;
const HAS_NORM: bool = false;
alias Floats = vec4<f32>;
fn x_quad(row: u32, column: u32) -> vec4<f32> { return x[row * (params.in_features / 4u) + column / 4u]; }
fn norm_quad(column: u32) -> vec4<f32> { return norm[column / 4u]; }
fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> { return quad; }
const COLUMNS: u32 = 4u;
alias Stored = vec4<f32>;
alias Load = vec4<f32>;
fn load(row: u32, column: u32) -> Load { return weight[row * (params.in_features / 4u) + column / 4u]; }
fn values(load: Load, quad: u32, row: u32, column: u32) -> vec4<f32> { return load; }
alias Scales = f32;
fn shared_scales(first_row: u32, column: u32) -> vec4<f32> { return vec4<f32>(1.0); }
const OUTPUTS: u32 = 4u;
fn residual_at(index: u32) -> f32 { return 0.0; }
fn ending(products: vec2<f32>, residual: f32) -> f32 { return products.x; }
fn across(x: f32, distance: u32) -> f32 { return x; }
// }

struct Params {
    rows: u32,
    in_features: u32,
    out_features: u32,
    has_bias: u32,
    group: u32,  // columns that share a scale
    eps: f32,    // of the norm
}

const PARTS: u32 = 4u / OUTPUTS;  // rows of the weight for an element of the result
const QUADS: u32 = COLUMNS / 4u;
const LOADS: u32 = TURNS * 4u;
const TURN_QUADS: u32 = TURNS * QUADS;
const XS: u32 = TURN_QUADS * ROWS;
const STRIDE: u32 = LANES * COLUMNS;
const STRIPS: u32 = WORKGROUP_SIZE / LANES;
const GROUP_OUTPUTS: u32 = STRIPS * OUTPUTS;
const PARTIALS: u32 = LANES / JOINED;  // what is left of a sum when subgroups have added
const BUFFER: u32 = ROWS * STRIPS * PARTIALS * 4u;
const POWERS: vec4<f32> = vec4<f32>(8388608.0, 524288.0, 32768.0, 2048.0);  // 2^23, 2^19, 2^15, 2^11

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Floats>;
@group(0) @binding(2) var<storage, read> norm: array<Floats>;    // anything where there is none; so are the next ones
@group(0) @binding(3) var<storage, read> weight: array<Stored>;
@group(0) @binding(4) var<storage, read> scales: array<Scales>;  // groups by rows of the weight
@group(0) @binding(5) var<storage, read> bias: array<f32>;
@group(0) @binding(6) var<storage, read> residual: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;

// Blocks take turns: one is read while the next is written.
var<workgroup> partial: array<f32, BUFFER * select(1u, 2u, KEEPS_X)>;
var<workgroup> partial_squares: array<f32, select(1u, ROWS * STRIPS * PARTIALS, HAS_NORM)>;

// Of a weight of 4-bit numbers, four from the low 16 bits up, less 8. Their bits are put where they stand into the mantissa
// of the power of two of which they count the ones: that costs no shift and no conversion, and is exact.
fn numbers(bits: u32) -> vec4<f32> {
    // Nothing is added to the masks, which a compiler cannot know: it would make two instructions of an and and an or with
    // literals, and makes one where the mask is in a register.
    let masks = vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u) + (params.has_bias >> 1u);
    let parts = (vec4<u32>(bits) & masks) | bitcast<vec4<u32>>(POWERS);
    return bitcast<vec4<f32>>(parts) - (POWERS + 8.0);
}

// The rows of the weight that a strip takes in a block.
fn block_rows(block: u32, strip: u32) -> vec4<u32> {
    let first = block * GROUP_OUTPUTS + strip * OUTPUTS;
    let outputs = min(first + vec4<u32>(0u, 1u, 2u, 3u) % OUTPUTS, vec4<u32>(params.out_features - 1u));
    return outputs + vec4<u32>(0u, 1u, 2u, 3u) / OUTPUTS * params.out_features;
}

fn add_dot(sum: f32, a: vec4<f32>, b: vec4<f32>) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// Leaves four sums of each lane in workgroup memory, added over JOINED lanes. A lane keeps half of them in a step, and adds
// those of a neighbour who keeps the others: six exchanges in place of twenty.
fn leave(first: u32, lane: u32, sums: vec4<f32>) {
    if (JOINED == 1u) {
        for (var i = 0u; i < 4u; i += 1u) { // unrolled
            partial[first + lane * 4u + i] = sums[i];
        }
        return;
    }
    let is_odd = (lane & 1u) != 0u;
    let kept = select(sums.xz, sums.yw, is_odd);
    let given = select(sums.yw, sums.xz, is_odd);
    let pair = kept + vec2<f32>(across(given.x, 1u), across(given.y, 1u));
    let is_high = (lane & 2u) != 0u;
    var sum = select(pair.x, pair.y, is_high) + across(select(pair.y, pair.x, is_high), 2u);
    for (var distance = 4u; distance < JOINED; distance *= 2u) {
        sum += across(sum, distance);
    }
    if (lane % JOINED < 4u) {
        partial[first + lane / JOINED * 4u + lane % JOINED] = sum;
    }
}

fn leave_squares(first: u32, lane: u32, squares: f32) {
    var sum = squares;
    for (var distance = 1u; distance < JOINED; distance *= 2u) {
        sum += across(sum, distance);
    }
    if (lane % JOINED == 0u) {
        partial_squares[first + lane / JOINED] = sum;
    }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let blocks = (params.out_features + GROUP_OUTPUTS - 1u) / GROUP_OUTPUTS;
    let group_blocks = select(1u, (blocks + groups.x * groups.y - 1u) / (groups.x * groups.y), KEEPS_X);
    let first_block = (group.y * groups.x + group.x) * group_blocks;
    let end_block = min(first_block + group_blocks, blocks);
    if (first_block >= end_block) {
        return;
    }
    let lane = local % LANES;
    let strip = local / LANES;
    let last_column = (params.in_features - 1u) / COLUMNS * COLUMNS;

    // The element that this invocation writes, of each block.
    let own_row = local / GROUP_OUTPUTS;
    let own_place = local % GROUP_OUTPUTS;

    var xs: array<vec4<f32>, XS>;
    var loads: array<Load, LOADS>;
    var scale: array<vec4<f32>, TURNS>;
    var next_loads: array<Load, LOADS>;
    var next_scale: array<vec4<f32>, TURNS>;
    var squares: array<f32, ROWS>;
    for (var row = 0u; row < ROWS; row += 1u) { // unrolled
        squares[row] = 0.0;
    }
    if (KEEPS_X) {
        let rows = block_rows(first_block, strip);
        for (var turn = 0u; turn < TURNS; turn += 1u) { // unrolled
            let column = min(lane * COLUMNS + turn * STRIDE, last_column);
            for (var product = 0u; product < 4u; product += 1u) { // unrolled
                next_loads[turn * 4u + product] = load(rows[product], column);
            }
            next_scale[turn] = shared_scales(rows.x, column);
        }
    }
    for (var block = first_block; block < end_block; block += 1u) {
        let own_output = block * GROUP_OUTPUTS + own_place;
        let is_own = own_row < params.rows && own_output < params.out_features;
        let own_index = own_row * params.out_features + own_output;
        var added = vec2<f32>(0.0);
        var own_residual = 0.0;
        if (is_own) {
            own_residual = residual_at(own_index);
            if (params.has_bias != 0u) {
                for (var part = 0u; part < PARTS; part += 1u) { // unrolled
                    added[part] = bias[part * params.out_features + own_output];
                }
            }
        }

        let rows = block_rows(block, strip);
        var sums: array<vec4<f32>, ROWS>;
        for (var row = 0u; row < ROWS; row += 1u) { // unrolled
            sums[row] = vec4<f32>(0.0);
        }
        var dots: array<vec4<f32>, ROWS>;
        var first = lane * COLUMNS;
        loop {
            if (!KEEPS_X && first >= params.in_features) {
                break;
            }
            for (var turn = 0u; turn < TURNS; turn += 1u) { // unrolled
                let column = min(first + turn * STRIDE, last_column);
                for (var product = 0u; product < 4u; product += 1u) { // unrolled
                    if (KEEPS_X) {
                        loads[turn * 4u + product] = next_loads[turn * 4u + product];
                    } else {
                        loads[turn * 4u + product] = load(rows[product], column);
                    }
                }
                if (KEEPS_X) {
                    scale[turn] = next_scale[turn];
                } else {
                    scale[turn] = shared_scales(rows.x, column);
                }
            }
            if (KEEPS_X && block + 1u < end_block) {
                let next_rows = block_rows(block + 1u, strip);
                for (var turn = 0u; turn < TURNS; turn += 1u) { // unrolled
                    let column = min(first + turn * STRIDE, last_column);
                    for (var product = 0u; product < 4u; product += 1u) { // unrolled
                        next_loads[turn * 4u + product] = load(next_rows[product], column);
                    }
                    next_scale[turn] = shared_scales(next_rows.x, column);
                }
            }
            if (!KEEPS_X || block == first_block) {
                for (var turn = 0u; turn < TURNS; turn += 1u) { // unrolled
                    let is_there = first + turn * STRIDE < params.in_features;
                    let turn_column = min(first + turn * STRIDE, last_column);
                    for (var quad = 0u; quad < QUADS; quad += 1u) { // unrolled
                        let column = turn_column + quad * 4u;
                        for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                            var own_x = inside(x_quad(min(row, params.rows - 1u), column), column);
                            own_x = select(vec4<f32>(0.0), own_x, is_there);
                            if (HAS_NORM) {
                                squares[row] = add_dot(squares[row], own_x, own_x);
                                own_x *= inside(norm_quad(column), column);
                            }
                            xs[(turn * QUADS + quad) * ROWS + row] = own_x;
                        }
                    }
                }
            }
            for (var turn = 0u; turn < TURNS; turn += 1u) { // unrolled
                let column = min(first + turn * STRIDE, last_column);
                for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                    dots[row] = vec4<f32>(0.0);
                }
                for (var quad = 0u; quad < QUADS; quad += 1u) { // unrolled
                    let w0 = values(loads[turn * 4u], quad, rows.x, column + quad * 4u);
                    let w1 = values(loads[turn * 4u + 1u], quad, rows.y, column + quad * 4u);
                    let w2 = values(loads[turn * 4u + 2u], quad, rows.z, column + quad * 4u);
                    let w3 = values(loads[turn * 4u + 3u], quad, rows.w, column + quad * 4u);
                    for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                        let own_x = xs[(turn * QUADS + quad) * ROWS + row];
                        dots[row].x = add_dot(dots[row].x, w0, own_x);
                        dots[row].y = add_dot(dots[row].y, w1, own_x);
                        dots[row].z = add_dot(dots[row].z, w2, own_x);
                        dots[row].w = add_dot(dots[row].w, w3, own_x);
                    }
                }
                for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                    sums[row] += dots[row] * scale[turn];
                }
            }
            if (KEEPS_X) {
                break;
            }
            first += TURNS * STRIDE;
        }

        let buffer = block % 2u * select(0u, BUFFER, KEEPS_X);
        for (var row = 0u; row < ROWS; row += 1u) { // unrolled
            leave(buffer + (row * STRIPS + strip) * PARTIALS * 4u, lane, sums[row]);
        }
        if (HAS_NORM && block == first_block) {
            for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                leave_squares((row * STRIPS + strip) * PARTIALS, lane, squares[row]);
            }
        }
        workgroupBarrier();

        if (is_own) {
            let own_partials = (own_row * STRIPS + own_place / OUTPUTS) * PARTIALS;
            var products = vec2<f32>(0.0);
            var sum_squares = 0.0;
            for (var i = 0u; i < PARTIALS; i += 1u) {
                for (var part = 0u; part < PARTS; part += 1u) { // unrolled
                    products[part] += partial[buffer + (own_partials + i) * 4u + part * OUTPUTS + own_place % OUTPUTS];
                }
                if (HAS_NORM) {
                    sum_squares += partial_squares[own_partials + i];
                }
            }
            if (HAS_NORM) {
                products *= inverseSqrt(sum_squares / f32(params.in_features) + params.eps);
            }
            out[own_index] = ending(products + added, own_residual);
        }
    }
}
