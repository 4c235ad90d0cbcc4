// sdpa_streaming: out[s, h] = sum over the visible keys t of softmax(scale * q[s, h] . k[t])[t] * v[t], tile by tile.
//
// Nothing of size tokens x context is stored, and no optional feature is used. A packed row is a query row of one KV
// head: row = token * group_heads + head_in_group, so that the query heads that share K and V share their tiles too.
// One workgroup takes one KV head and TILE_ROWS packed rows, and walks over the keys that the last of them sees,
// TILE_KEYS at a time:
//   scores   each thread multiplies THREAD_ROWS rows by THREAD_KEYS keys, and tells the others the highest of each row;
//   weights  exp(score - highest so far); what was summed before is scaled to the new highest;
//   output   each thread adds weights * values for its THREAD_ROWS rows and THREAD_QUADS quads (vec4) of the head.
// Threads are a grid: thread_row + ROW_THREADS * i are a thread's rows, thread_column + COLUMN_THREADS * j its keys and
// its quads. In workgroup memory rows of queries and weights lie side by side and rows of keys have an odd length, so
// that the threads of a warp read different banks. Values take the place of the keys of their tile; both travel to
// registers while the step before is computed.
//
// Scores are compared unscaled (the sign of the scale goes to q), and the subtraction comes before any product, so that
// no score of finite size overflows on the way. Keys that a row may not see are taken out by select, score and weight.
//
// Bounds: block < kv_heads * row_tiles or the workgroup returns. A packed row is clamped to the last of new_tokens *
// group_heads ones before q is read and compared with it before out is written, and q and out hold that many rows of
// HEAD_QUADS for each KV head. A key is clamped to context_len - 1, and the caches hold context_len rows at least. A
// quad is read from a cache or written only where it is below HEAD_QUADS (quad_exists). In workgroup memory: thread_row
// < ROW_THREADS and thread_column < COLUMN_THREADS because local < THREADS, their product; rows stay below TILE_ROWS =
// ROW_THREADS * THREAD_ROWS, keys below TILE_KEYS = COLUMN_THREADS * THREAD_KEYS, which ROW_THREADS divides. Quads that
// do not exist are read from `tile` past their row, OVERHANG quads at most, and never written out. The loop over tiles
// adds TILE_KEYS up to tile_end <= context_len, far below 2^32; the others count to constants.

// variant {
const HEAD_QUADS: u32 = 16u;
const TILE_ROWS: u32 = 24u;
const TILE_KEYS: u32 = 16u;
const THREAD_ROWS: u32 = 3u;
const THREAD_KEYS: u32 = 2u;
alias Scores = vec2<f32>;
alias Cached = vec4<f32>;
fn from_cached(cached: Cached) -> vec4<f32> { return cached; }
alias Query = vec4<f32>;
fn to_query(query: vec4<f32>) -> Query { return query; }
fn from_query(query: Query) -> vec4<f32> { return query; }
alias Weights = Scores;
fn to_weights(weights: Scores) -> Weights { return weights; }
fn from_weights(weights: Weights) -> Scores { return weights; }
// }

struct Params {
    q_heads: u32,
    kv_heads: u32,
    new_tokens: u32,
    context_len: u32,  // input_pos + new_tokens
    scale: f32,
    row_tiles: u32,    // ceil(new_tokens * q_heads / kv_heads / TILE_ROWS)
}

const ROW_THREADS: u32 = TILE_ROWS / THREAD_ROWS;
const COLUMN_THREADS: u32 = TILE_KEYS / THREAD_KEYS;
const THREADS: u32 = ROW_THREADS * COLUMN_THREADS;
const QUADS_ROUNDED_UP: u32 = HEAD_QUADS + COLUMN_THREADS - 1u;
const THREAD_QUADS: u32 = QUADS_ROUNDED_UP / COLUMN_THREADS;
const OVERHANG: u32 = THREAD_QUADS * COLUMN_THREADS - HEAD_QUADS;
const STAGED_KEYS: u32 = TILE_KEYS / ROW_THREADS;  // keys, and values, that a thread brings of a tile
const KEY_STRIDE: u32 = HEAD_QUADS | 1u;
const LOWEST: f32 = -3.4028234663852886e38;
const LOG2_E: f32 = 1.4426950408889634;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k_cache: array<Cached>;
@group(0) @binding(3) var<storage, read> v_cache: array<Cached>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;

var<workgroup> queries: array<Query, HEAD_QUADS * TILE_ROWS>;               // [quad][row]
var<workgroup> tile: array<Cached, TILE_KEYS * KEY_STRIDE + OVERHANG>;      // [key][quad]: keys, then values
var<workgroup> weights: array<Weights, COLUMN_THREADS * TILE_ROWS>;         // [column][row]
var<workgroup> of_columns: array<f32, TILE_ROWS * COLUMN_THREADS>;          // [row][column]: maxima, at last sums

// Whether the n-th quad of a thread is part of the head; known to the compiler but for the last one.
fn quad_exists(n: u32, thread_column: u32) -> bool {
    return (n + 1u) * COLUMN_THREADS <= HEAD_QUADS || n * COLUMN_THREADS + thread_column < HEAD_QUADS;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let block = group.y * groups.x + group.x;
    if (block / params.kv_heads >= params.row_tiles) {
        return;
    }
    let kv_head = block % params.kv_heads;
    let group_heads = params.q_heads / params.kv_heads;
    // Late rows see more keys: their tiles go first, so that no long one is left for the end.
    let first_row = (params.row_tiles - 1u - block / params.kv_heads) * TILE_ROWS;
    let last_row = params.new_tokens * group_heads - 1u;
    let input_pos = params.context_len - params.new_tokens;
    let seen_by_all = input_pos + first_row / group_heads;  // the last key that every row of the tile sees
    let tile_end = input_pos + min(first_row + TILE_ROWS - 1u, last_row) / group_heads + 1u;

    let thread_column = local % COLUMN_THREADS;
    // A single row of threads is told to the compiler: rows are then the same for all threads.
    let thread_row = select(local / COLUMN_THREADS, 0u, ROW_THREADS == 1u);
    let cache_first = kv_head * HEAD_QUADS + thread_column;
    let cache_stride = params.kv_heads * HEAD_QUADS;
    let place = thread_row * KEY_STRIDE + thread_column;
    let steepness = abs(params.scale) * LOG2_E;

    for (var item = local; item < TILE_ROWS * HEAD_QUADS; item += THREADS) {
        let row = min(first_row + item / HEAD_QUADS, last_row);
        let head = kv_head * group_heads + row % group_heads;
        let quad = q[(row / group_heads * params.q_heads + head) * HEAD_QUADS + item % HEAD_QUADS];
        queries[item % HEAD_QUADS * TILE_ROWS + item / HEAD_QUADS] = to_query(select(-quad, quad, params.scale >= 0.0));
    }
    var last_key: array<u32, THREAD_ROWS>;
    var highest: array<f32, THREAD_ROWS>;
    var sum: array<f32, THREAD_ROWS>;
    var output: array<array<vec4<f32>, THREAD_QUADS>, THREAD_ROWS>;
    for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
        last_key[i] = input_pos + min(first_row + thread_row + i * ROW_THREADS, last_row) / group_heads;
        highest[i] = LOWEST;
    }

    var next_keys: array<array<Cached, THREAD_QUADS>, STAGED_KEYS>;
    var next_values: array<array<Cached, THREAD_QUADS>, STAGED_KEYS>;
    for (var i = 0u; i < STAGED_KEYS; i += 1u) { // unrolled
        let from_key = cache_first + min(thread_row + i * ROW_THREADS, params.context_len - 1u) * cache_stride;
        for (var n = 0u; n < THREAD_QUADS; n += 1u) { // unrolled
            if (quad_exists(n, thread_column)) {
                next_keys[i][n] = k_cache[from_key + n * COLUMN_THREADS];
            }
        }
    }

    for (var first_key = 0u; first_key < tile_end; first_key += TILE_KEYS) {
        for (var i = 0u; i < STAGED_KEYS; i += 1u) { // unrolled
            for (var n = 0u; n < THREAD_QUADS; n += 1u) { // unrolled
                if (quad_exists(n, thread_column)) {
                    tile[place + i * ROW_THREADS * KEY_STRIDE + n * COLUMN_THREADS] = next_keys[i][n];
                }
            }
        }
        workgroupBarrier();
        for (var i = 0u; i < STAGED_KEYS; i += 1u) { // unrolled
            let key = first_key + thread_row + i * ROW_THREADS;
            let from_value = cache_first + min(key, params.context_len - 1u) * cache_stride;
            for (var n = 0u; n < THREAD_QUADS; n += 1u) { // unrolled
                if (quad_exists(n, thread_column)) {
                    next_values[i][n] = v_cache[from_value + n * COLUMN_THREADS];
                }
            }
        }

        var scores: array<Scores, THREAD_ROWS>;
        for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
            scores[i] = Scores();
        }
        for (var d = 0u; d < HEAD_QUADS; d += 1u) {
            var keys: array<vec4<f32>, THREAD_KEYS>;
            for (var j = 0u; j < THREAD_KEYS; j += 1u) { // unrolled
                keys[j] = from_cached(tile[(thread_column + j * COLUMN_THREADS) * KEY_STRIDE + d]);
            }
            for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
                let query = from_query(queries[d * TILE_ROWS + thread_row + i * ROW_THREADS]);
                for (var j = 0u; j < THREAD_KEYS; j += 1u) { // unrolled
                    scores[i][j] = fma(query.x, keys[j].x, scores[i][j]);
                    scores[i][j] = fma(query.y, keys[j].y, scores[i][j]);
                    scores[i][j] = fma(query.z, keys[j].z, scores[i][j]);
                    scores[i][j] = fma(query.w, keys[j].w, scores[i][j]);
                }
            }
        }
        let some_hidden = first_key + TILE_KEYS - 1u > seen_by_all;
        if (some_hidden) {
            for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
                for (var j = 0u; j < THREAD_KEYS; j += 1u) { // unrolled
                    let hidden = first_key + thread_column + j * COLUMN_THREADS > last_key[i];
                    scores[i][j] = select(scores[i][j], LOWEST, hidden);
                }
            }
        }
        for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
            var of_thread = scores[i][0];
            for (var j = 0u; j < THREAD_KEYS; j += 1u) { // unrolled
                of_thread = max(of_thread, scores[i][j]);
            }
            of_columns[(thread_row + i * ROW_THREADS) * COLUMN_THREADS + thread_column] = of_thread;
        }
        workgroupBarrier();

        for (var i = 0u; i < STAGED_KEYS; i += 1u) { // unrolled
            for (var n = 0u; n < THREAD_QUADS; n += 1u) { // unrolled
                if (quad_exists(n, thread_column)) {
                    tile[place + i * ROW_THREADS * KEY_STRIDE + n * COLUMN_THREADS] = next_values[i][n];
                }
            }
        }
        for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
            let before = highest[i];
            let of_row = (thread_row + i * ROW_THREADS) * COLUMN_THREADS;
            for (var c = 0u; c < COLUMN_THREADS; c += 1u) { // unrolled
                highest[i] = max(highest[i], of_columns[of_row + c]);
            }
            scores[i] = exp2((scores[i] - highest[i]) * steepness);
            let shrink = exp2((before - highest[i]) * steepness);
            sum[i] *= shrink;
            for (var n = 0u; n < THREAD_QUADS; n += 1u) { // unrolled
                output[i][n] *= shrink;
            }
        }
        if (some_hidden) {
            for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
                for (var j = 0u; j < THREAD_KEYS; j += 1u) { // unrolled
                    let hidden = first_key + thread_column + j * COLUMN_THREADS > last_key[i];
                    scores[i][j] = select(scores[i][j], 0.0, hidden);
                }
            }
        }
        for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
            weights[thread_column * TILE_ROWS + thread_row + i * ROW_THREADS] = to_weights(scores[i]);
            sum[i] += dot(scores[i], Scores(1.0));
        }
        workgroupBarrier();

        for (var i = 0u; i < STAGED_KEYS; i += 1u) { // unrolled
            let key = first_key + TILE_KEYS + thread_row + i * ROW_THREADS;
            let from_key = cache_first + min(key, params.context_len - 1u) * cache_stride;
            for (var n = 0u; n < THREAD_QUADS; n += 1u) { // unrolled
                if (quad_exists(n, thread_column)) {
                    next_keys[i][n] = k_cache[from_key + n * COLUMN_THREADS];
                }
            }
        }
        for (var c = 0u; c < COLUMN_THREADS; c += 1u) {
            var of_keys: array<Scores, THREAD_ROWS>;
            for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
                of_keys[i] = from_weights(weights[c * TILE_ROWS + thread_row + i * ROW_THREADS]);
            }
            let at = c * KEY_STRIDE + thread_column;
            for (var j = 0u; j < THREAD_KEYS; j += 1u) { // unrolled
                for (var n = 0u; n < THREAD_QUADS; n += 1u) { // unrolled
                    let value = from_cached(tile[at + j * COLUMN_THREADS * KEY_STRIDE + n * COLUMN_THREADS]);
                    for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
                        output[i][n] = fma(vec4<f32>(of_keys[i][j]), value, output[i][n]);
                    }
                }
            }
        }
        workgroupBarrier();
    }

    for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
        of_columns[(thread_row + i * ROW_THREADS) * COLUMN_THREADS + thread_column] = sum[i];
    }
    workgroupBarrier();
    for (var i = 0u; i < THREAD_ROWS; i += 1u) { // unrolled
        var total = 0.0;
        for (var c = 0u; c < COLUMN_THREADS; c += 1u) {
            total += of_columns[(thread_row + i * ROW_THREADS) * COLUMN_THREADS + c];
        }
        let row = first_row + thread_row + i * ROW_THREADS;
        let head = kv_head * group_heads + row % group_heads;
        let to = (row / group_heads * params.q_heads + head) * HEAD_QUADS + thread_column;
        for (var n = 0u; n < THREAD_QUADS; n += 1u) { // unrolled
            if (row <= last_row && quad_exists(n, thread_column)) {
                out[to + n * COLUMN_THREADS] = output[i][n] / total;
            }
        }
    }
}
