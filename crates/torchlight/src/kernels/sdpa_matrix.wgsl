// sdpa_matrix: out[s, h] = the attention of query row (s, h) over the f16 cache, in one pass on cooperative matrices.
//
// The rows (s, h) of the query heads that share a KV head are packed: packed row R is token R / group of head R %
// group. A subgroup owns ROWS packed rows. It keeps their queries and their sums of weights times values in matrix
// registers for as long as the workgroup walks through the keys, a tile of TILE_KEYS at a time. All subgroups of a
// workgroup use the same tile, which lies in workgroup memory; the next ones are already on their way into registers.
//
// Nobody can reach into a cooperative matrix. So each slice of SLICE_KEYS scores goes through the subgroup's own
// scratch: stored as a matrix, read row by row, weighed (row maximum, exponential, row sum), written in f16, and loaded
// as the left matrix of weights times values. The sums are rescaled only when some row's maximum grew by more than
// GROWTH: until then weights reach 2^GROWTH, which f16 holds. Only subgroup barriers stand around the scratch.
//
// KEY_WAYS > 1 is for few rows: all subgroups own the same rows, each takes its slices of every tile, and in the end
// the first of them adds up what they found. SPLIT is for few workgroups: each sees `chunk` keys, and where
// splits > 1 leaves unnormalised sums, maximum (natural units) and weight sum of its rows to sdpa_merge.
//
// Scores are in units of log2: the queries are multiplied by scale * log2(e) before they become f16, where they
// saturate at +-65504. f16 scores must stay below 32752 in size, or their row becomes NaN; f32 scores are always right.
// A value that is not finite, below context_len, reaches all rows of its tile: its weight may be 0, but 0 * NaN is NaN.
//
// Bounds: rows are clamped to the last packed row where q is read, and not written beyond it. Keys are clamped to
// context_len - 1 where the caches are read; pairs of vectors stay inside a row, since column < ROW_PAIRS. What is
// written of a split has row < q_heads * new_tokens and split < splits. Offsets into workgroup memory are made of
// constants, of the subgroup's number, below SUBGROUPS because subgroups are 32 consecutive invocations, and of the
// lane; pairs beyond a tile are not placed. The loop over tiles ends because tile_step is TILE_KEYS, above 0, and
// end_key + TILE_KEYS is below 2^32; the loops of raise_max and weigh_slice run at most once.

enable f16;
enable wgpu_cooperative_matrix;

// variant {
const HEAD_DIM: u32 = 64u;
const SUBGROUPS: u32 = 8u;
const ROW_TILES: u32 = 2u;
const TILE_KEYS: u32 = 64u;
const SLICE_KEYS: u32 = 32u;
const KEY_WAYS: u32 = 1u;
const TILES_AHEAD: u32 = 1u;
const SPECULATE: u32 = 1u;
const SPLIT: u32 = 0u;
const FLOAT_TILE_STRIDE: u32 = 16u;
const FLOAT_TILE_WORDS: u32 = 256u;
alias Score = f16;
const LEAST_MAX: f32 = -32752.0;
const HIDDEN: f16 = -65504.0h;
fn score_at(row: u32, key: u32) -> u32 { return weight_base + row * WEIGHT_STRIDE + key / 4u; }
fn load_scores(row: u32, key: u32) -> vec4<f16> { return weights[score_at(row, key)]; }
fn store_scores(x: coop_mat16x16<f16, C>, row: u32, key: u32) { coopStoreT(x, &weights[score_at(row, key)], WEIGHT_STRIDE); }
// }

struct Params {
    q_heads: u32,
    kv_heads: u32,
    new_tokens: u32,
    context_len: u32,  // input_pos + new_tokens
    scale: f32,
    splits: u32,       // parts of the keys, each a workgroup's
    chunk: u32,        // keys of a part: a multiple of TILE_KEYS
    row_blocks: u32,   // workgroups for the packed rows of a KV head
}

const ROWS: u32 = 16u * ROW_TILES;
const BLOCK_ROWS: u32 = SUBGROUPS / KEY_WAYS * ROWS;
const THREADS: u32 = SUBGROUPS * 32u;
const HEAD_TILES: u32 = HEAD_DIM / 16u;
const HEAD_VECS: u32 = HEAD_DIM / 4u;
const SLICES: u32 = TILE_KEYS / SLICE_KEYS / KEY_WAYS;
const SLICE_TILES: u32 = SLICE_KEYS / 16u;
// Rows in workgroup memory are 16 bytes longer than their data: loads of matrices then meet all banks.
const CACHE_STRIDE: u32 = HEAD_VECS + 2u;
const WEIGHT_STRIDE: u32 = SLICE_KEYS / 4u + 2u;
// Lanes that share a row of scores, and vectors of it that each of them has.
const ROW_LANES: u32 = 2u / ROW_TILES;
const LANE_VECS: u32 = SLICE_KEYS / 4u / ROW_LANES;
const QUERY_VECS: u32 = 4u / ROW_LANES;
// Pairs of vectors in a tile, and how many of them an invocation copies.
const ROW_PAIRS: u32 = HEAD_VECS / 2u;
const TILE_PAIRS: u32 = TILE_KEYS * ROW_PAIRS;
const LAST_PAIR: u32 = TILE_PAIRS - 1u;
const COPIES: u32 = LAST_PAIR / THREADS + 1u;

const LOG2_E: f32 = 1.4426950408889634;
const LN_2: f32 = 0.6931471805599453;
const GROWTH: f32 = 8.0;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k_cache: array<vec4<f16>>;
@group(0) @binding(3) var<storage, read> v_cache: array<vec4<f16>>;
@group(0) @binding(4) var<storage, read_write> partial_out: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> partial_max_sum: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;

// The size of each of these is a multiple of 16 bytes, tile_step's too: matrices are loaded from multiples of 16 bytes,
// also where a driver packs the variables as closely as WGSL allows, 8 bytes for vec4<f16>.
var<workgroup> tile_step: vec4<u32>;
var<workgroup> keys: array<vec4<f16>, TILE_KEYS * CACHE_STRIDE>;
var<workgroup> values: array<vec4<f16>, TILE_KEYS * CACHE_STRIDE>;
// The scratch of the subgroups: weights, and f16 scores before them, [row][key]; f32 numbers [column][row].
var<workgroup> weights: array<vec4<f16>, SUBGROUPS * ROWS * WEIGHT_STRIDE>;
var<workgroup> floats: array<f32, SUBGROUPS * FLOAT_TILE_WORDS>;

// Matrices of this subgroup, [row tile][head tile].
var<private> queries: array<coop_mat16x16<f16, A>, ROW_TILES * HEAD_TILES>;
var<private> sums: array<coop_mat16x16<f32, C>, ROW_TILES * HEAD_TILES>;
// This invocation's part of the next tile.
var<private> next_keys: array<vec4<f16>, TILES_AHEAD * COPIES * 2u>;
var<private> next_values: array<vec4<f16>, TILES_AHEAD * COPIES * 2u>;
// This lane: its row of scores, and where in it the lane's keys begin.
var<private> lane: u32;
var<private> lane_row: u32;
var<private> lane_key: u32;
var<private> row_limit: u32;      // the last key that the row sees
var<private> row_max: f32;        // what its weights refer to: its maximum, or up to GROWTH less
var<private> row_sum: f32;        // of its weights, of this lane's keys
// This subgroup: where its scratch begins, and the last key that all its rows see.
var<private> weight_base: u32;
var<private> float_base: u32;
var<private> ways_base: u32;      // that of the first subgroup that has the same rows
var<private> all_see: u32;

// Elements of q as f16, saturated. NaN stays NaN.
fn narrow(x: vec4<f32>) -> vec4<f16> {
    return vec4<f16>(select(x, sign(x) * 65504.0, abs(x) > vec4<f32>(65504.0)));
}

// Loads the queries of a row, this lane's part of them, and makes matrices of them, a head tile at a time.
fn load_queries(first_vec: u32) {
    let factor = params.scale * LOG2_E;
    var mine: array<vec4<f16>, HEAD_TILES * QUERY_VECS>;
    for (var tile = 0u; tile < HEAD_TILES; tile += 1u) { // unrolled
        for (var i = 0u; i < QUERY_VECS; i += 1u) { // unrolled
            mine[tile * QUERY_VECS + i] = narrow(q[first_vec + tile * 4u + i] * factor);
        }
    }
    let to = weight_base + lane_row * WEIGHT_STRIDE + lane / ROWS * QUERY_VECS;
    for (var tile = 0u; tile < HEAD_TILES; tile += 1u) { // unrolled
        for (var i = 0u; i < QUERY_VECS; i += 1u) { // unrolled
            weights[to + i] = mine[tile * QUERY_VECS + i];
        }
        subgroupBarrier();
        for (var row_tile = 0u; row_tile < ROW_TILES; row_tile += 1u) { // unrolled
            queries[row_tile * HEAD_TILES + tile] =
                coopLoadT<coop_mat16x16<f16, A>>(&weights[weight_base + row_tile * 16u * WEIGHT_STRIDE], WEIGHT_STRIDE);
        }
        subgroupBarrier();
    }
}

// Sends for the tile that begins at a key. Beyond the context it gets the last key again.
fn fetch_tile(ahead: u32, local: u32, kv_head: u32, first_key: u32) {
    for (var copy = 0u; copy < COPIES; copy += 1u) { // unrolled
        let pair = local + copy * THREADS;
        let key = min(first_key + pair / ROW_PAIRS, params.context_len - 1u);
        let at = (key * params.kv_heads + kv_head) * HEAD_VECS + pair % ROW_PAIRS * 2u;
        next_keys[(ahead * COPIES + copy) * 2u] = k_cache[at];
        next_keys[(ahead * COPIES + copy) * 2u + 1u] = k_cache[at + 1u];
        next_values[(ahead * COPIES + copy) * 2u] = v_cache[at];
        next_values[(ahead * COPIES + copy) * 2u + 1u] = v_cache[at + 1u];
    }
}

// Puts the tile that has arrived into workgroup memory.
fn place_tile(ahead: u32, local: u32) {
    for (var copy = 0u; copy < COPIES; copy += 1u) { // unrolled
        let pair = local + copy * THREADS;
        let at = pair / ROW_PAIRS * CACHE_STRIDE + pair % ROW_PAIRS * 2u;
        if ((copy + 1u) * THREADS <= TILE_PAIRS || pair < TILE_PAIRS) {
            keys[at] = next_keys[(ahead * COPIES + copy) * 2u];
            keys[at + 1u] = next_keys[(ahead * COPIES + copy) * 2u + 1u];
            values[at] = next_values[(ahead * COPIES + copy) * 2u];
            values[at + 1u] = next_values[(ahead * COPIES + copy) * 2u + 1u];
        }
    }
}

// Scores of the keys of a slice, into the scratch.
fn score_slice(slice: u32) {
    var scores: array<coop_mat16x16<Score, C>, SLICE_TILES * ROW_TILES>;
    for (var key_tile = 0u; key_tile < SLICE_TILES; key_tile += 1u) { // unrolled
        for (var row_tile = 0u; row_tile < ROW_TILES; row_tile += 1u) { // unrolled
            scores[key_tile * ROW_TILES + row_tile] = coop_mat16x16<Score, C>();
        }
        for (var tile = 0u; tile < HEAD_TILES; tile += 1u) { // unrolled
            let key_matrix = coopLoad<coop_mat16x16<f16, B>>(
                &keys[(slice * SLICE_KEYS + key_tile * 16u) * CACHE_STRIDE + tile * 4u], CACHE_STRIDE);
            for (var row_tile = 0u; row_tile < ROW_TILES; row_tile += 1u) { // unrolled
                scores[key_tile * ROW_TILES + row_tile] = coopMultiplyAdd(
                    queries[row_tile * HEAD_TILES + tile], key_matrix, scores[key_tile * ROW_TILES + row_tile]);
            }
        }
    }
    for (var key_tile = 0u; key_tile < SLICE_TILES; key_tile += 1u) { // unrolled
        for (var row_tile = 0u; row_tile < ROW_TILES; row_tile += 1u) { // unrolled
            store_scores(scores[key_tile * ROW_TILES + row_tile], row_tile * 16u, key_tile * 16u);
        }
    }
}

// Multiplies the rows of all sums with their factors: through the scratch, since it differs by row.
fn rescale(factor: f32) {
    subgroupBarrier();
    let at = float_base + lane / 16u * 8u * FLOAT_TILE_STRIDE + lane % 16u;
    for (var row_tile = 0u; row_tile < ROW_TILES; row_tile += 1u) { // unrolled
        let row_factor = subgroupShuffle(factor, row_tile * 16u + lane % 16u);
        for (var tile = 0u; tile < HEAD_TILES; tile += 1u) { // unrolled
            coopStore(sums[row_tile * HEAD_TILES + tile], &floats[float_base], FLOAT_TILE_STRIDE);
            subgroupBarrier();
            for (var column = 0u; column < 8u; column += 1u) { // unrolled
                floats[at + column * FLOAT_TILE_STRIDE] *= row_factor;
            }
            subgroupBarrier();
            sums[row_tile * HEAD_TILES + tile] =
                coopLoad<coop_mat16x16<f32, C>>(&floats[float_base], FLOAT_TILE_STRIDE);
            subgroupBarrier();
        }
    }
}

// Refers the weights of the row to another maximum.
fn raise_max(next_max: f32) {
    let factor = exp2(row_max - next_max);
    // At the first slice there are no sums yet.
    let some_sum = subgroupAny(row_sum > 0.0);
    row_max = next_max;
    row_sum *= factor;
    loop {
        if (!some_sum) {
            break;
        }
        rescale(factor);
        break;
    }
}

// Turns the scores of a slice into weights.
fn weigh_slice(first_key: u32) {
    var x: array<vec4<Score>, LANE_VECS>;
    for (var i = 0u; i < LANE_VECS; i += 1u) { // unrolled
        x[i] = load_scores(lane_row, lane_key + i * 4u);
    }
    if (first_key + SLICE_KEYS - 1u > all_see) {
        let key = vec4<u32>(first_key + lane_key) + vec4<u32>(0u, 1u, 2u, 3u);
        for (var i = 0u; i < LANE_VECS; i += 1u) { // unrolled
            x[i] = select(x[i], vec4<Score>(HIDDEN), key + vec4<u32>(i * 4u) > vec4<u32>(row_limit));
        }
    }
    var largest = x[0];
    for (var i = 0u; i < LANE_VECS; i += 1u) { // unrolled
        largest = max(largest, x[i]);
    }
    let pair = max(largest.xy, largest.zw);
    var slice_max = f32(max(pair.x, pair.y));
    if (ROW_LANES == 2u) {
        slice_max = max(slice_max, subgroupShuffleXor(slice_max, 16u));
    }
    // SPECULATE: weights from the old maximum, at once. They are right if no maximum grew, and need not wait for the
    // vote.
    // LEAST_MAX lies between HIDDEN and every score: a row that has seen no key gives weights of exactly 0.
    var w: array<vec4<Score>, LANE_VECS>;
    if (SPECULATE == 1u) {
        for (var i = 0u; i < LANE_VECS; i += 1u) { // unrolled
            w[i] = exp2(x[i] - vec4<Score>(Score(row_max)));
        }
    }
    let grew = slice_max > row_max + GROWTH;
    let some_grew = subgroupAny(grew);
    // A loop that runs once, where a branch would do: matrices are not allowed in a branch that could differ between
    // invocations, and WGSL does not know that a vote cannot.
    loop {
        if (!some_grew) {
            break;
        }
        raise_max(select(row_max, slice_max, grew));
        if (SPECULATE == 1u) {
            for (var i = 0u; i < LANE_VECS; i += 1u) { // unrolled
                w[i] = exp2(x[i] - vec4<Score>(Score(row_max)));
            }
        }
        break;
    }
    if (SPECULATE == 0u) {
        for (var i = 0u; i < LANE_VECS; i += 1u) { // unrolled
            w[i] = exp2(x[i] - vec4<Score>(Score(row_max)));
        }
    }
    var total = vec4<Score>();
    for (var i = 0u; i < LANE_VECS; i += 1u) { // unrolled
        weights[weight_base + lane_row * WEIGHT_STRIDE + lane_key / 4u + i] = vec4<f16>(w[i]);
        total += w[i];
    }
    let sum = vec4<f32>(total);
    row_sum += (sum.x + sum.y) + (sum.z + sum.w);
}

// Adds the weighted values of a slice to the sums.
fn add_slice(slice: u32) {
    for (var key_tile = 0u; key_tile < SLICE_TILES; key_tile += 1u) { // unrolled
        var weight_matrix: array<coop_mat16x16<f16, A>, ROW_TILES>;
        for (var row_tile = 0u; row_tile < ROW_TILES; row_tile += 1u) { // unrolled
            weight_matrix[row_tile] = coopLoadT<coop_mat16x16<f16, A>>(
                &weights[weight_base + row_tile * 16u * WEIGHT_STRIDE + key_tile * 4u], WEIGHT_STRIDE);
        }
        for (var tile = 0u; tile < HEAD_TILES; tile += 1u) { // unrolled
            let value_matrix = coopLoadT<coop_mat16x16<f16, B>>(
                &values[(slice * SLICE_KEYS + key_tile * 16u) * CACHE_STRIDE + tile * 4u], CACHE_STRIDE);
            for (var row_tile = 0u; row_tile < ROW_TILES; row_tile += 1u) { // unrolled
                sums[row_tile * HEAD_TILES + tile] =
                    coopMultiplyAdd(weight_matrix[row_tile], value_matrix, sums[row_tile * HEAD_TILES + tile]);
            }
        }
    }
}

// Waits for the subgroups that share scratch.
fn scratch_barrier() {
    if (KEY_WAYS > 1u) {
        workgroupBarrier();
    } else {
        subgroupBarrier();
    }
}

// Writes the rows, through the scratch: normalised ones to the output, or a split's part as it is. Where subgroups see
// different keys of the same rows, the first of them adds their sums, each with the factor that refers it to the
// highest of their maxima.
fn write_rows(first_row: u32, kv_head: u32, split: u32) {
    if (KEY_WAYS > 1u && lane < ROWS) {
        floats[float_base + FLOAT_TILE_WORDS - 2u * ROWS + lane] = row_max;
        floats[float_base + FLOAT_TILE_WORDS - ROWS + lane] = row_sum;
    }
    scratch_barrier();
    let in_parts = SPLIT == 1u && params.splits > 1u;
    let group = params.q_heads / params.kv_heads;
    let column = lane / 16u * 8u;
    for (var row_tile = 0u; row_tile < ROW_TILES; row_tile += 1u) { // unrolled
        let packed = first_row + row_tile * 16u + lane % 16u;
        let row = packed / group * params.q_heads + kv_head * group + packed % group;
        let writes = packed < params.new_tokens * group && ways_base == float_base;
        var factors: array<f32, KEY_WAYS>;
        var most = subgroupShuffle(row_max, row_tile * 16u + lane % 16u);
        var total = subgroupShuffle(row_sum, row_tile * 16u + lane % 16u);
        factors[0] = 1.0;
        if (KEY_WAYS > 1u) {
            let at = ways_base + FLOAT_TILE_WORDS - 2u * ROWS + row_tile * 16u + lane % 16u;
            for (var way = 0u; way < KEY_WAYS; way += 1u) { // unrolled
                most = max(most, floats[at + way * FLOAT_TILE_WORDS]);
            }
            total = 0.0;
            for (var way = 0u; way < KEY_WAYS; way += 1u) { // unrolled
                factors[way] = exp2(floats[at + way * FLOAT_TILE_WORDS] - most);
                total += factors[way] * floats[at + way * FLOAT_TILE_WORDS + ROWS];
            }
        }
        if (in_parts && writes && column == 0u) {
            partial_max_sum[row * params.splits + split] = vec2<f32>(most * LN_2, total);
        }
        for (var tile = 0u; tile < HEAD_TILES; tile += 1u) { // unrolled
            coopStore(sums[row_tile * HEAD_TILES + tile], &floats[float_base], FLOAT_TILE_STRIDE);
            scratch_barrier();
            for (var half = 0u; half < 2u; half += 1u) { // unrolled
                var sum = vec4<f32>();
                for (var way = 0u; way < KEY_WAYS; way += 1u) { // unrolled
                    let at = ways_base + way * FLOAT_TILE_WORDS + (column + half * 4u) * FLOAT_TILE_STRIDE + lane % 16u;
                    sum += factors[way] * vec4<f32>(floats[at], floats[at + FLOAT_TILE_STRIDE],
                        floats[at + 2u * FLOAT_TILE_STRIDE], floats[at + 3u * FLOAT_TILE_STRIDE]);
                }
                let vec = tile * 4u + column / 4u + half;
                if (writes && in_parts) {
                    partial_out[(row * params.splits + split) * HEAD_VECS + vec] = sum;
                }
                if (writes && !in_parts) {
                    out[row * HEAD_VECS + vec] = sum / total;
                }
            }
            scratch_barrier();
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group_id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    // Neighbours share row block and split and differ in the KV head; blocks with the most keys to see come first.
    let flat = group_id.y * groups.x + group_id.x;
    let kv_head = flat % params.kv_heads;
    let split = flat / params.kv_heads / params.row_blocks;
    if (split >= params.splits) {
        return;
    }
    let block = params.row_blocks - 1u - flat / params.kv_heads % params.row_blocks;

    lane = local % 32u;
    lane_row = lane % ROWS;
    lane_key = lane / ROWS * LANE_VECS * 4u;
    weight_base = local / 32u * ROWS * WEIGHT_STRIDE;
    float_base = local / 32u * FLOAT_TILE_WORDS;
    ways_base = local / 32u / KEY_WAYS * KEY_WAYS * FLOAT_TILE_WORDS;

    let group = params.q_heads / params.kv_heads;
    let last_row = params.new_tokens * group - 1u;
    let input_pos = params.context_len - params.new_tokens;
    let way = local / 32u % KEY_WAYS;
    let first_row = block * BLOCK_ROWS + local / 32u / KEY_WAYS * ROWS;
    let packed = min(first_row + lane_row, last_row);
    row_limit = input_pos + packed / group;
    all_see = input_pos + min(first_row, last_row) / group;
    row_max = LEAST_MAX;
    row_sum = 0.0;

    let first_key = split * params.chunk;
    let seen = input_pos + min(block * BLOCK_ROWS + BLOCK_ROWS - 1u, last_row) / group + 1u;
    let end_key = select(seen, min(seen, first_key + params.chunk), SPLIT == 1u);
    for (var ahead = 0u; ahead < TILES_AHEAD; ahead += 1u) { // unrolled
        fetch_tile(ahead, local, kv_head, first_key + ahead * TILE_KEYS);
    }
    load_queries((packed / group * params.q_heads + kv_head * group + packed % group) * HEAD_VECS
        + lane / ROWS * QUERY_VECS);
    // A step that the compiler cannot know, or it copies the body of this loop several times: slower by 1 to 5 %.
    if (local == 0u) {
        tile_step = vec4<u32>(TILE_KEYS);
    }
    var tile_key = first_key;
    loop {
        if (tile_key >= end_key) {
            break;
        }
        for (var ahead = 0u; ahead < TILES_AHEAD; ahead += 1u) { // unrolled
            if (tile_key >= end_key) {
                break;
            }
            workgroupBarrier();
            place_tile(ahead, local);
            workgroupBarrier();
            let step = subgroupBroadcastFirst(tile_step.x);
            fetch_tile(ahead, local, kv_head, tile_key + TILES_AHEAD * TILE_KEYS);
            for (var slice = 0u; slice < SLICES; slice += 1u) { // unrolled
                score_slice(way * SLICES + slice);
                subgroupBarrier();
                weigh_slice(tile_key + (way * SLICES + slice) * SLICE_KEYS);
                subgroupBarrier();
                add_slice(way * SLICES + slice);
                subgroupBarrier();
            }
            tile_key += step;
        }
    }
    if (ROW_LANES == 2u) {
        row_sum += subgroupShuffleXor(row_sum, 16u);
    }
    write_rows(first_row, kv_head, split);
}
