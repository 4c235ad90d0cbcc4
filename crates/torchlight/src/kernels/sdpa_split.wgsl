// sdpa_split: attention of a few new tokens, the keys split over workgroups.
//
// A workgroup takes one KV head, one block of ROWS packed rows and one chunk of keys, and loads each of these keys and
// values once for all rows of the block. Packed row r is token r / group_heads and query head r % group_heads of the
// KV head. Its invocations are STRANDS strands of LANES lanes. A strand takes every STRANDS-th key, KEYS of them a turn;
// a lane holds PIECES loads of the head, and while it works on a turn, the loads of the next one are under way. Lanes
// past the end of the head stand idle.
//
// Each strand keeps a running maximum, a sum and an output a row. What it has is rescaled only where a maximum grew by
// more than LAZY: until then weights are up to exp(LAZY). In the end the strands are joined, first inside a subgroup, then
// through workgroup memory. One split writes the output; of several, each writes its unnormalised output with its
// maximum and sum, and sdpa_merge joins them, or, where FUSED, the workgroup that finishes last: `counters` counts who
// has finished, and is left at zero. FUSED relies on barriers that order storage for the whole device.
//
// Where SCORES_IN_MEMORY, subgroups are not used: an invocation scores whole keys, and the strands read the scores.
//
// Bounds: kv_head < kv_heads, and split < splits, else the workgroup returns. chunk * (splits - 1) < context_len, so that
// first_key < end_key <= context_len; every cached row is clamped to end_key - 1 and every piece to the head, so reads
// stay inside the context. Packed rows are clamped to the last one where q is read, and not written beyond it; with
// split < splits that keeps partial_out and partial_max_sum inside rows * splits entries. A block has one counter.
// splits <= MAX_SPLITS where FUSED. Workgroup arrays: part < PARTS, row < ROWS, column < HEAD_QUADS; part_out
// also holds FUSED_ITEMS; a strand is clamped to STRANDS - 1. Loops end: chunk < 2^31, steps are constants.

// variant {
alias Load = vec4<f32>;
const HEAD_PIECES: u32 = 16u;
const ROWS: u32 = 4u;
const LOAD_QUADS: u32 = 1u;
const LANES: u32 = 16u;
const PIECES: u32 = 1u;
const KEYS: u32 = 4u;
const LANE_STEPS: u32 = 4u;
const JOIN_STEPS: u32 = 1u;
const ROUND_ROWS: u32 = 4u;
const SCORES_IN_MEMORY: bool = false;
const FUSED: bool = true;
fn quad(load: Load, index: u32) -> vec4<f32> { return load; }
fn across(x: f32, distance: u32) -> f32 { return subgroupShuffleXor(x, distance); }
fn any_lane(x: bool) -> bool { return subgroupAny(x); }
// }

struct Params {
    q_heads: u32,
    kv_heads: u32,
    group_heads: u32,  // query heads that share a KV head
    new_tokens: u32,
    context_len: u32,  // input_pos + new_tokens
    row_blocks: u32,   // ceil(new_tokens * group_heads / ROWS)
    splits: u32,
    chunk: u32,        // keys a split
    scale: f32,
}

const WORKGROUP_SIZE: u32 = 128u;
const LOWEST: f32 = -0x1.fffffep+127f;
const LAZY: f32 = 8.0;

const HEAD_QUADS: u32 = HEAD_PIECES * LOAD_QUADS;
const QUADS: u32 = PIECES * LOAD_QUADS;  // of a lane and row
const LANE_QUADS: u32 = ROWS * QUADS;
const LOADS: u32 = KEYS * PIECES;
const SCORES: u32 = KEYS * ROWS;
const STRANDS: u32 = WORKGROUP_SIZE / LANES;
const TURN_KEYS: u32 = STRANDS * KEYS;
const JOINED_LANES: u32 = LANES << JOIN_STEPS;
const PARTS: u32 = WORKGROUP_SIZE / JOINED_LANES;
const ROUNDS: u32 = ROWS / ROUND_ROWS;

// The merge of the splits, where FUSED: stripes share the splits of a column.
const MAX_SPLITS: u32 = 256u;
const COLUMNS: u32 = ROWS * HEAD_QUADS;
const STRIPES: u32 = max(WORKGROUP_SIZE / COLUMNS, 1u);
const AT_ONCE: u32 = 8u;
const FUSED_ITEMS: u32 = select(1u, COLUMNS * STRIPES, FUSED);

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k_cache: array<Load>;
@group(0) @binding(3) var<storage, read> v_cache: array<Load>;
@group(0) @binding(4) var<storage, read_write> partial_out: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> partial_max_sum: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read_write> counters: array<atomic<u32>>;
@group(0) @binding(7) var<storage, read_write> out: array<vec4<f32>>;

var<workgroup> part_out: array<vec4<f32>, max(PARTS * ROUND_ROWS * HEAD_QUADS, FUSED_ITEMS)>;
var<workgroup> part_max: array<f32, PARTS * ROWS>;
var<workgroup> part_sum: array<f32, PARTS * ROWS>;
var<workgroup> turn_scores: array<f32, select(1u, TURN_KEYS * ROWS, SCORES_IN_MEMORY)>;
var<workgroup> split_weight: array<f32, select(1u, MAX_SPLITS * ROWS, FUSED)>;
var<workgroup> finished_before: u32;

fn quad_across(x: vec4<f32>, distance: u32) -> vec4<f32> {
    return vec4<f32>(across(x.x, distance), across(x.y, distance), across(x.z, distance), across(x.w, distance));
}

// What an invocation works on.
struct Place {
    local: u32,
    strand: u32,
    kv_head: u32,
    first_row: u32,  // packed row
    last_row: u32,   // of all packed rows
    end_key: u32,
}

// Whether a row of the block sees a key: token t sees those up to input_pos + t. Told without a division, and anew for each
// key, so that no registers are held for it.
fn sees(place: Place, row: u32, key: u32) -> bool {
    let input_pos = params.context_len - params.new_tokens;
    return key < place.end_key && (max(key, input_pos) - input_pos) * params.group_heads <= place.first_row + row;
}

// Which row of q and of the output a packed row of a KV head is.
fn row_of(packed_row: u32, kv_head: u32) -> u32 {
    let token = packed_row / params.group_heads;
    return token * params.q_heads + kv_head * params.group_heads + (packed_row - token * params.group_heads);
}

// The scores of this lane's keys, from the lanes' parts of the products.
fn score_in_lanes(
    query: ptr<function, array<vec4<f32>, LANE_QUADS>>,
    k: ptr<function, array<Load, LOADS>>,
    scores: ptr<function, array<f32, SCORES>>,
) {
    for (var score = 0u; score < SCORES; score += 1u) { // unrolled
        (*scores)[score] = 0.0;
    }
    for (var key = 0u; key < KEYS; key += 1u) { // unrolled
        for (var part = 0u; part < QUADS; part += 1u) { // unrolled
            let k_quad = quad((*k)[key * PIECES + part / LOAD_QUADS], part % LOAD_QUADS);
            for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                (*scores)[key * ROWS + row] += dot((*query)[row * QUADS + part], k_quad);
            }
        }
    }
    for (var step = 0u; step < LANE_STEPS; step += 1u) { // unrolled
        for (var score = 0u; score < SCORES; score += 1u) { // unrolled
            (*scores)[score] += across((*scores)[score], 1u << step);
        }
    }
}

// The same through workgroup memory.
fn score_in_memory(place: Place, turn: u32, scores: ptr<function, array<f32, SCORES>>) {
    for (var pair = place.local; pair < TURN_KEYS * ROWS; pair += WORKGROUP_SIZE) {
        let packed_row = min(place.first_row + pair / TURN_KEYS, place.last_row);
        let q_first = row_of(packed_row, place.kv_head) * HEAD_QUADS;
        let key = min(turn + pair % TURN_KEYS, place.end_key - 1u);
        let k_first = (key * params.kv_heads + place.kv_head) * HEAD_PIECES;
        var products = vec4<f32>(0.0);
        for (var piece = 0u; piece < HEAD_PIECES; piece += 1u) {
            let load = k_cache[k_first + piece];
            for (var part = 0u; part < LOAD_QUADS; part += 1u) { // unrolled
                products += q[q_first + piece * LOAD_QUADS + part] * quad(load, part);
            }
        }
        turn_scores[pair] = params.scale * dot(products, vec4<f32>(1.0));
    }
    workgroupBarrier();
    for (var key = 0u; key < KEYS; key += 1u) { // unrolled
        for (var row = 0u; row < ROWS; row += 1u) { // unrolled
            (*scores)[key * ROWS + row] = turn_scores[row * TURN_KEYS + key * STRANDS + place.strand];
        }
    }
    workgroupBarrier();
}

// Raises the maxima and rescales what was summed so far, where some maximum grew by more than LAZY.
fn raise_highest(
    scores: ptr<function, array<f32, SCORES>>,
    highest: ptr<function, array<f32, ROWS>>,
    sum: ptr<function, array<f32, ROWS>>,
    acc: ptr<function, array<vec4<f32>, LANE_QUADS>>,
) {
    var turn_highest: array<f32, ROWS>;
    var grew = false;
    for (var row = 0u; row < ROWS; row += 1u) { // unrolled
        turn_highest[row] = (*highest)[row];
        for (var key = 0u; key < KEYS; key += 1u) { // unrolled
            turn_highest[row] = max(turn_highest[row], (*scores)[key * ROWS + row]);
        }
        grew = grew || turn_highest[row] > (*highest)[row] + LAZY;
    }
    if (any_lane(grew)) {
        for (var row = 0u; row < ROWS; row += 1u) { // unrolled
            let factor = exp((*highest)[row] - turn_highest[row]);
            (*highest)[row] = turn_highest[row];
            (*sum)[row] *= factor;
            for (var part = 0u; part < QUADS; part += 1u) { // unrolled
                (*acc)[row * QUADS + part] *= factor;
            }
        }
    }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = group.y * groups.x + group.x;
    let block = index / params.kv_heads;
    let kv_head = index - block * params.kv_heads;
    let split = block / params.row_blocks;
    let row_block = block - split * params.row_blocks;
    if (split >= params.splits) {
        return;
    }
    let lane = local % LANES;
    let strand = min(local / LANES, STRANDS - 1u);
    let first_key = split * params.chunk;
    let end_key = min(first_key + params.chunk, params.context_len);
    let key_stride = params.kv_heads * HEAD_PIECES;

    // Which loads of a cached row are this lane's.
    var piece_at: array<u32, PIECES>;
    for (var piece = 0u; piece < PIECES; piece += 1u) { // unrolled
        piece_at[piece] = kv_head * HEAD_PIECES + min(piece * LANES + lane, HEAD_PIECES - 1u);
    }
    var next_k: array<Load, LOADS>;
    var next_v: array<Load, LOADS>;
    for (var key = 0u; key < KEYS; key += 1u) { // unrolled
        let cached_row = min(first_key + key * STRANDS + strand, end_key - 1u) * key_stride;
        for (var piece = 0u; piece < PIECES; piece += 1u) { // unrolled
            if (!SCORES_IN_MEMORY) {
                next_k[key * PIECES + piece] = k_cache[cached_row + piece_at[piece]];
            }
            next_v[key * PIECES + piece] = v_cache[cached_row + piece_at[piece]];
        }
    }

    // The rows: their part of q, and what they have so far.
    let last_packed_row = params.new_tokens * params.group_heads - 1u;
    var query: array<vec4<f32>, LANE_QUADS>;
    var highest: array<f32, ROWS>;
    var sum: array<f32, ROWS>;
    var acc: array<vec4<f32>, LANE_QUADS>;
    for (var row = 0u; row < ROWS; row += 1u) { // unrolled
        let packed_row = min(row_block * ROWS + row, last_packed_row);
        let q_first = row_of(packed_row, kv_head) * HEAD_QUADS;
        highest[row] = LOWEST;
        sum[row] = 0.0;
        for (var piece = 0u; piece < PIECES; piece += 1u) { // unrolled
            let head_piece = piece * LANES + lane;
            for (var part = 0u; part < LOAD_QUADS; part += 1u) { // unrolled
                acc[row * QUADS + piece * LOAD_QUADS + part] = vec4<f32>(0.0);
                query[row * QUADS + piece * LOAD_QUADS + part] = vec4<f32>(0.0);
                if (!SCORES_IN_MEMORY && head_piece < HEAD_PIECES) {
                    query[row * QUADS + piece * LOAD_QUADS + part] =
                        params.scale * q[q_first + head_piece * LOAD_QUADS + part];
                }
            }
        }
    }

    let place = Place(local, strand, kv_head, row_block * ROWS, last_packed_row, end_key);
    var scores: array<f32, SCORES>;

    // The first row of the block sees the fewest keys: as long as it sees all keys of a turn, nothing is masked.
    let input_pos = params.context_len - params.new_tokens;
    let unmasked_end = min(end_key, input_pos + place.first_row / params.group_heads + 1u);
    var turn = first_key;
    for (; turn + TURN_KEYS <= unmasked_end; turn += TURN_KEYS) {
        // What was under way is here; the next turn's loads set out.
        var k: array<Load, LOADS>;
        var v: array<Load, LOADS>;
        for (var key = 0u; key < KEYS; key += 1u) { // unrolled
            let cached_row = min(turn + TURN_KEYS + key * STRANDS + strand, end_key - 1u) * key_stride;
            for (var piece = 0u; piece < PIECES; piece += 1u) { // unrolled
                if (!SCORES_IN_MEMORY) {
                    k[key * PIECES + piece] = next_k[key * PIECES + piece];
                    next_k[key * PIECES + piece] = k_cache[cached_row + piece_at[piece]];
                }
                v[key * PIECES + piece] = next_v[key * PIECES + piece];
                next_v[key * PIECES + piece] = v_cache[cached_row + piece_at[piece]];
            }
        }
        if (SCORES_IN_MEMORY) {
            score_in_memory(place, turn, &scores);
        } else {
            score_in_lanes(&query, &k, &scores);
        }
        raise_highest(&scores, &highest, &sum, &acc);
        for (var key = 0u; key < KEYS; key += 1u) { // unrolled
            for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                scores[key * ROWS + row] = exp(scores[key * ROWS + row] - highest[row]);
                sum[row] += scores[key * ROWS + row];
            }
            for (var part = 0u; part < QUADS; part += 1u) { // unrolled
                let v_quad = quad(v[key * PIECES + part / LOAD_QUADS], part % LOAD_QUADS);
                for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                    acc[row * QUADS + part] += scores[key * ROWS + row] * v_quad;
                }
            }
        }
    }

    // What is left: fewer keys than a turn, and those that only later rows see. A weight of 0 would not hide a value: 0 times
    // NaN is NaN.
    for (; turn < end_key; turn += TURN_KEYS) {
        if (SCORES_IN_MEMORY) {
            score_in_memory(place, turn, &scores);
        } else {
            score_in_lanes(&query, &next_k, &scores);
        }
        for (var key = 0u; key < KEYS; key += 1u) { // unrolled
            let key_at = turn + key * STRANDS + strand;
            for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                scores[key * ROWS + row] = select(LOWEST, scores[key * ROWS + row], sees(place, row, key_at));
            }
        }
        raise_highest(&scores, &highest, &sum, &acc);
        for (var key = 0u; key < KEYS; key += 1u) { // unrolled
            let key_at = turn + key * STRANDS + strand;
            for (var row = 0u; row < ROWS; row += 1u) { // unrolled
                if (sees(place, row, key_at)) {
                    let weight = exp(scores[key * ROWS + row] - highest[row]);
                    sum[row] += weight;
                    for (var part = 0u; part < QUADS; part += 1u) { // unrolled
                        let load = next_v[key * PIECES + part / LOAD_QUADS];
                        acc[row * QUADS + part] += weight * quad(load, part % LOAD_QUADS);
                    }
                }
            }
        }
        for (var key = 0u; key < KEYS; key += 1u) { // unrolled
            let cached_row = min(turn + TURN_KEYS + key * STRANDS + strand, end_key - 1u) * key_stride;
            for (var piece = 0u; piece < PIECES; piece += 1u) { // unrolled
                if (!SCORES_IN_MEMORY) {
                    next_k[key * PIECES + piece] = k_cache[cached_row + piece_at[piece]];
                }
                next_v[key * PIECES + piece] = v_cache[cached_row + piece_at[piece]];
            }
        }
    }

    // The strands of a subgroup become one part.
    if (JOIN_STEPS > 0u) {
        for (var row = 0u; row < ROWS; row += 1u) { // unrolled
            let own = highest[row];
            for (var step = 0u; step < JOIN_STEPS; step += 1u) { // unrolled
                highest[row] = max(highest[row], across(highest[row], LANES << step));
            }
            let factor = exp(own - highest[row]);
            sum[row] *= factor;
            for (var step = 0u; step < JOIN_STEPS; step += 1u) { // unrolled
                sum[row] += across(sum[row], LANES << step);
            }
            for (var part = 0u; part < QUADS; part += 1u) { // unrolled
                var joined = acc[row * QUADS + part] * factor;
                for (var step = 0u; step < JOIN_STEPS; step += 1u) { // unrolled
                    joined += quad_across(joined, LANES << step);
                }
                acc[row * QUADS + part] = joined;
            }
        }
    }

    // The parts become the workgroup's result, ROUND_ROWS rows at a time.
    let part = local / JOINED_LANES;
    let writes_part = part < PARTS && local % JOINED_LANES < LANES;
    if (writes_part && lane == 0u) {
        for (var row = 0u; row < ROWS; row += 1u) { // unrolled
            part_max[part * ROWS + row] = highest[row];
            part_sum[part * ROWS + row] = sum[row];
        }
    }
    for (var round = 0u; round < ROUNDS; round += 1u) { // unrolled
        if (writes_part) {
            for (var row = 0u; row < ROUND_ROWS; row += 1u) { // unrolled
                for (var piece = 0u; piece < PIECES; piece += 1u) { // unrolled
                    let head_piece = piece * LANES + lane;
                    if (head_piece < HEAD_PIECES) {
                        for (var quarter = 0u; quarter < LOAD_QUADS; quarter += 1u) { // unrolled
                            part_out[(part * ROUND_ROWS + row) * HEAD_QUADS + head_piece * LOAD_QUADS + quarter] =
                                acc[(round * ROUND_ROWS + row) * QUADS + piece * LOAD_QUADS + quarter];
                        }
                    }
                }
            }
        }
        workgroupBarrier();
        for (var item = local; item < ROUND_ROWS * HEAD_QUADS; item += WORKGROUP_SIZE) {
            let row = round * ROUND_ROWS + item / HEAD_QUADS;
            let column = item % HEAD_QUADS;
            var all_max = LOWEST;
            for (var other = 0u; other < PARTS; other += 1u) {
                all_max = max(all_max, part_max[other * ROWS + row]);
            }
            var all_sum = 0.0;
            var all_out = vec4<f32>(0.0);
            for (var other = 0u; other < PARTS; other += 1u) {
                let factor = exp(part_max[other * ROWS + row] - all_max);
                all_sum += factor * part_sum[other * ROWS + row];
                all_out += factor * part_out[other * ROUND_ROWS * HEAD_QUADS + item];
            }
            let packed_row = row_block * ROWS + row;
            if (packed_row <= last_packed_row) {
                let out_row = row_of(packed_row, kv_head);
                if (params.splits == 1u) {
                    out[out_row * HEAD_QUADS + column] = all_out / all_sum;
                } else {
                    let entry = out_row * params.splits + split;
                    partial_out[entry * HEAD_QUADS + column] = all_out;
                    if (column == 0u) {
                        partial_max_sum[entry] = vec2<f32>(all_max, all_sum);
                    }
                }
            }
        }
        workgroupBarrier();
    }
    if (!FUSED || params.splits == 1u) {
        return;
    }

    // The last workgroup of a block merges: the others' results are in memory before they are counted.
    storageBarrier();
    if (local == 0u) {
        finished_before = atomicAdd(&counters[kv_head * params.row_blocks + row_block], 1u);
    }
    if (workgroupUniformLoad(&finished_before) != params.splits - 1u) {
        return;
    }
    storageBarrier();
    if (local == 0u) {
        atomicStore(&counters[kv_head * params.row_blocks + row_block], 0u);
    }
    // Weights of the splits and the sum, a subgroup a row.
    for (var row = local / JOINED_LANES; row < ROWS; row += PARTS) {
        let first_entry = row_of(min(row_block * ROWS + row, last_packed_row), kv_head) * params.splits;
        var all_max = LOWEST;
        for (var other = local % JOINED_LANES; other < params.splits; other += JOINED_LANES) {
            // A split whose keys the row does not see has a sum and an output of 0, and the lowest maximum.
            all_max = max(all_max, partial_max_sum[first_entry + other].x);
        }
        for (var step = 0u; step < LANE_STEPS + JOIN_STEPS; step += 1u) { // unrolled
            all_max = max(all_max, across(all_max, 1u << step));
        }
        var all_sum = 0.0;
        for (var other = local % JOINED_LANES; other < params.splits; other += JOINED_LANES) {
            let max_sum = partial_max_sum[first_entry + other];
            let weight = exp(max_sum.x - all_max);
            split_weight[row * MAX_SPLITS + other] = weight;
            all_sum += weight * max_sum.y;
        }
        for (var step = 0u; step < LANE_STEPS + JOIN_STEPS; step += 1u) { // unrolled
            all_sum += across(all_sum, 1u << step);
        }
        if (local % JOINED_LANES == 0u) {
            part_sum[row] = all_sum;
        }
    }
    workgroupBarrier();
    for (var item = local; item < FUSED_ITEMS; item += WORKGROUP_SIZE) {
        let row = item % COLUMNS / HEAD_QUADS;
        let first_entry = row_of(min(row_block * ROWS + row, last_packed_row), kv_head) * params.splits;
        var all_out = vec4<f32>(0.0);
        // Loads that do not wait for each other; past the last split it counts 0 times.
        for (var first = item / COLUMNS; first < params.splits; first += AT_ONCE * STRIPES) {
            for (var ahead = 0u; ahead < AT_ONCE; ahead += 1u) { // unrolled
                let other = min(first + ahead * STRIPES, params.splits - 1u);
                let weight = split_weight[row * MAX_SPLITS + other];
                let partial = partial_out[(first_entry + other) * HEAD_QUADS + item % HEAD_QUADS];
                all_out += select(0.0, weight, first + ahead * STRIPES < params.splits) * partial;
            }
        }
        part_out[item] = all_out;
    }
    workgroupBarrier();
    for (var item = local; item < COLUMNS; item += WORKGROUP_SIZE) {
        var all_out = part_out[item];
        for (var stripe = 1u; stripe < STRIPES; stripe += 1u) {
            all_out += part_out[stripe * COLUMNS + item];
        }
        let packed_row = row_block * ROWS + item / HEAD_QUADS;
        if (packed_row <= last_packed_row) {
            out[row_of(packed_row, kv_head) * HEAD_QUADS + item % HEAD_QUADS] =
                all_out / part_sum[item / HEAD_QUADS];
        }
    }
}
