// linear_vector: a linear layer of up to ROWS rows of x, one pass over the weight, with a norm in front and an ending behind.
//
// A strip of LANES invocations computes OUTPUTS neighbouring elements of each row of the result, each from PARTS rows of
// the weight. Its lanes share the columns. A lane loads COLUMNS of them at once, TURNS such loads before it uses the first,
// and what it loads of x serves all the strip's rows of the weight. Where there is a norm, x is multiplied by its weight
// only: the squares of x are summed beside the products, and the products are divided by their root in the end.
//
// The lanes' sums are added across subgroups, 2^LANE_STEPS lanes each, and what is left through workgroup memory, by the
// invocation that writes the element. It loads bias and residual in the beginning, so that they are there in the end.
// Rows of x and elements of the result past the last are computed as the last, and nobody writes them.

// variant {
const WORKGROUP_SIZE: u32 = 64u;
const LANES: u32 = 16u;
const LANE_STEPS: u32 = 0u;
const TURNS: u32 = 2u;
const ROWS: u32 = 1u;
const OUTPUTS: u32 = 4u;
const PARTS: u32 = 1u;
const HAS_NORM: bool = false;
alias Floats = vec4<f32>;
fn x_quad(first: u32) -> vec4<f32> { return x[first / 4u]; }
fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> { return quad; }
fn norm_quad(first: u32) -> vec4<f32> { return norm[first / 4u]; }
const COLUMNS: u32 = 4u;
alias Stored = vec4<f32>;
alias Load = vec4<f32>;
fn load(weight_row: u32, column: u32) -> Load { return weight[(weight_row * params.in_features + column) / 4u]; }
fn where_there(load: Load, is_there: bool) -> Load { return select(vec4<f32>(0.0), load, is_there); }
fn values(load: Load, quad: u32, column: u32, weight_row: u32) -> vec4<f32> { return load; }
alias Scales = f32;
fn shared_scales(column: u32, weight_row: u32) -> Scales { return 1.0; }
fn scale(scales: Scales, output: u32) -> f32 { return scales; }
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

const QUADS: u32 = COLUMNS / 4u;
const PRODUCTS: u32 = OUTPUTS * PARTS;  // of a strip and row
const SUMS: u32 = ROWS * PRODUCTS;
const LOADS: u32 = TURNS * PRODUCTS;
const TURN_SCALES: u32 = TURNS * PARTS;
const STRIDE: u32 = LANES * COLUMNS;
const STRIPS: u32 = WORKGROUP_SIZE / LANES;
const GROUP_OUTPUTS: u32 = STRIPS * OUTPUTS;
// What a strip leaves in workgroup memory: so many parts of each sum.
const JOINED: u32 = 1u << LANE_STEPS;
const PARTIALS: u32 = LANES / JOINED;
const VALUES: u32 = SUMS + select(0u, ROWS, HAS_NORM);

const POWERS: vec4<f32> = vec4<f32>(8388608.0, 524288.0, 32768.0, 2048.0);  // 2^23, 2^19, 2^15, 2^11

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Floats>;
@group(0) @binding(2) var<storage, read> norm: array<Floats>;    // anything where there is none; so are the next ones
@group(0) @binding(3) var<storage, read> weight: array<Stored>;
@group(0) @binding(4) var<storage, read> scales: array<Scales>;  // groups by rows of the weight
@group(0) @binding(5) var<storage, read> bias: array<f32>;
@group(0) @binding(6) var<storage, read> residual: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;

var<workgroup> partial: array<f32, VALUES * STRIPS * PARTIALS>;

// Of a weight of 4-bit numbers, four from the low 16 bits up, less 8. Their bits are put where they stand into the mantissa
// of the power of two of which they count the ones: that costs no shift and no conversion, and is exact.
fn numbers(bits: u32) -> vec4<f32> {
    let parts = (vec4<u32>(bits) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u)) | bitcast<vec4<u32>>(POWERS);
    return bitcast<vec4<f32>>(parts) - (POWERS + 8.0);
}

fn add_dot(sum: f32, a: vec4<f32>, b: vec4<f32>) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// Adds up a value over 2^LANE_STEPS lanes and leaves the sum in workgroup memory.
fn leave(value: u32, own: f32, local: u32) {
    var sum = own;
    for (var step = 0u; step < LANE_STEPS; step += 1u) { // unrolled
        sum += across(sum, 1u << step);
    }
    let lane = local % LANES;
    if (lane % JOINED == 0u) {
        partial[(value * STRIPS + local / LANES) * PARTIALS + lane / JOINED] = sum;
    }
}

fn total(value: u32, strip: u32) -> f32 {
    var sum = 0.0;
    for (var part = 0u; part < PARTIALS; part += 1u) {
        sum += partial[(value * STRIPS + strip) * PARTIALS + part];
    }
    return sum;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first_output = (group.y * groups.x + group.x) * GROUP_OUTPUTS;
    if (first_output >= params.out_features) {
        return;
    }

    // The element that this invocation writes.
    let own_row = local / GROUP_OUTPUTS;
    let own_place = local % GROUP_OUTPUTS;
    let own_output = first_output + own_place;
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

    let lane = local % LANES;
    var weight_rows: array<u32, PRODUCTS>;
    for (var part = 0u; part < PARTS; part += 1u) { // unrolled
        for (var output = 0u; output < OUTPUTS; output += 1u) { // unrolled
            let wanted = first_output + local / LANES * OUTPUTS + output;
            weight_rows[part * OUTPUTS + output] = part * params.out_features + min(wanted, params.out_features - 1u);
        }
    }
    var sums: array<f32, SUMS>;
    for (var sum = 0u; sum < SUMS; sum += 1u) { // unrolled
        sums[sum] = 0.0;
    }
    var squares: array<f32, ROWS>;
    for (var row = 0u; row < ROWS; row += 1u) { // unrolled
        squares[row] = 0.0;
    }

    let last_column = (params.in_features - 1u) / COLUMNS * COLUMNS;
    var loads: array<Load, LOADS>;
    var turn_scales: array<Scales, TURN_SCALES>;
    var dots: array<f32, SUMS>;
    for (var first = lane * COLUMNS; first < params.in_features; first += TURNS * STRIDE) {
        for (var turn = 0u; turn < TURNS; turn += 1u) { // unrolled
            let column = min(first + turn * STRIDE, last_column);
            for (var product = 0u; product < PRODUCTS; product += 1u) { // unrolled
                loads[turn * PRODUCTS + product] = load(weight_rows[product], column);
            }
            for (var part = 0u; part < PARTS; part += 1u) { // unrolled
                turn_scales[turn * PARTS + part] = shared_scales(column, weight_rows[part * OUTPUTS]);
            }
        }
        for (var turn = 0u; turn < TURNS; turn += 1u) { // unrolled
            let wanted = first + turn * STRIDE;
            let is_there = wanted < params.in_features;
            for (var product = 0u; product < PRODUCTS; product += 1u) { // unrolled
                loads[turn * PRODUCTS + product] = where_there(loads[turn * PRODUCTS + product], is_there);
            }
            for (var sum = 0u; sum < SUMS; sum += 1u) { // unrolled
                dots[sum] = 0.0;
            }
            for (var quad = 0u; quad < QUADS; quad += 1u) { // unrolled
                let column = min(wanted, last_column) + quad * 4u;
                var ws: array<vec4<f32>, PRODUCTS>;
                for (var product = 0u; product < PRODUCTS; product += 1u) { // unrolled
                    ws[product] = values(loads[turn * PRODUCTS + product], quad, column, weight_rows[product]);
                }
                for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                    let row_start = min(row, params.rows - 1u) * params.in_features;
                    let quad_x = select(vec4<f32>(0.0), inside(x_quad(row_start + column), column), is_there);
                    var xs = quad_x;
                    if (HAS_NORM) {
                        squares[row] = add_dot(squares[row], quad_x, quad_x);
                        xs *= inside(norm_quad(column), column);
                    }
                    for (var product = 0u; product < PRODUCTS; product += 1u) { // unrolled
                        dots[row * PRODUCTS + product] = add_dot(dots[row * PRODUCTS + product], ws[product], xs);
                    }
                }
            }
            for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                for (var product = 0u; product < PRODUCTS; product += 1u) { // unrolled
                    let factor = scale(turn_scales[turn * PARTS + product / OUTPUTS], product % OUTPUTS);
                    sums[row * PRODUCTS + product] += dots[row * PRODUCTS + product] * factor;
                }
            }
        }
    }

    for (var sum = 0u; sum < SUMS; sum += 1u) { // unrolled
        leave(sum, sums[sum], local);
    }
    if (HAS_NORM) {
        for (var row = 0u; row < ROWS; row += 1u) { // unrolled
            leave(SUMS + row, squares[row], local);
        }
    }
    workgroupBarrier();

    if (!is_own) {
        return;
    }
    let strip = own_place / OUTPUTS;
    var factor = 1.0;
    if (HAS_NORM) {
        factor = inverseSqrt(total(SUMS + own_row, strip) / f32(params.in_features) + params.eps);
    }
    var products = vec2<f32>(0.0);
    for (var part = 0u; part < PARTS; part += 1u) { // unrolled
        let value = own_row * PRODUCTS + part * OUTPUTS + own_place % OUTPUTS;
        products[part] = total(value, strip) * factor + added[part];
    }
    out[own_index] = ending(products, own_residual);
}
