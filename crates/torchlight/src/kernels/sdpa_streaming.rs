//! `sdpa_streaming`: attention tile by tile, on any device.

use bytemuck::{Pod, Zeroable};

use super::{Access, AttentionProblem, Bounds, Kernel, KvType, Needs, Variant, Work};

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "sdpa_streaming",
    wgsl: include_str!("sdpa_streaming.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Argued,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[allow(missing_docs, reason = "the fields are the sizes of AttentionProblem, documented there")]
pub struct Params {
    pub q_heads: u32,
    pub kv_heads: u32,
    pub new_tokens: u32,
    pub context_len: u32,
    pub scale: f32,
    pub row_tiles: u32,
}

/// How workgroup memory holds queries and weights. Keys and values stay as they are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operands {
    /// f32.
    Full,
    /// Weights in pairs of f16, for caches of f16: less memory, and so more invocations at work.
    PackedWeights,
    /// Both in pairs of f16.
    Packed,
}

/// How queries meet keys of f16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queries {
    /// As they are.
    Full,
    /// Rounded to f16 as the keys were, those beyond 65504 to 65504: a tenth to a quarter faster. Scores are as far off
    /// as the rounding of the keys has made them, which shows in outputs where scores spread by more than about 4.
    Rounded,
}

/// What a variant is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Elements of a head: a multiple of 4.
    pub head_dim: u32,
    /// Elements of the caches.
    pub kv: KvType,
    /// The tile of scores.
    pub tile: Tile,
    /// Queries and weights.
    pub operands: Operands,
}

/// The tile of scores that a workgroup makes at a time, and what each invocation makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Packed rows of a workgroup: a multiple of `thread_rows`.
    pub rows: u32,
    /// Keys at a time: a multiple of `thread_keys`, and of `rows / thread_rows`.
    pub keys: u32,
    /// Rows of an invocation.
    pub thread_rows: u32,
    /// Keys of an invocation: 2 or 4.
    pub thread_keys: u32,
}

impl Tile {
    /// A tile of `rows` x `keys`, by invocations that make `thread_rows` x `thread_keys` each.
    pub const fn new([rows, keys]: [u32; 2], [thread_rows, thread_keys]: [u32; 2]) -> Self {
        Self { rows, keys, thread_rows, thread_keys }
    }

    /// Invocations side by side along the keys.
    const fn columns(self) -> u32 {
        self.keys / self.thread_keys
    }

    /// Invocations of a workgroup.
    pub const fn threads(self) -> u32 {
        self.rows / self.thread_rows * self.columns()
    }
}

impl Shape {
    const fn head_quads(&self) -> u32 {
        self.head_dim / 4
    }

    /// Quads of the output that an invocation keeps for each of its rows.
    const fn thread_quads(&self) -> u32 {
        self.head_quads().div_ceil(self.tile.columns())
    }

    /// Bytes of workgroup memory.
    pub const fn workgroup_bytes(&self) -> u32 {
        let Tile { rows, keys, .. } = self.tile;
        let columns = self.tile.columns();
        let [query_bytes, weight_bytes] = match self.operands {
            Operands::Full => [4, 4],
            Operands::PackedWeights => [4, 2],
            Operands::Packed => [2, 2],
        };
        let queries = rows * self.head_dim * query_bytes;
        let key_stride = self.head_quads() | 1;
        let overhang = self.thread_quads() * columns - self.head_quads();
        let tile = (keys * key_stride + overhang) * 4 * self.kv.size_bytes();
        let weights = rows * keys * weight_bytes;
        let of_columns = rows * columns * 4;
        queries.next_multiple_of(16)
            + tile.next_multiple_of(16)
            + weights.next_multiple_of(16)
            + of_columns.next_multiple_of(16)
    }

    fn block(&self) -> String {
        let Tile { rows, keys, thread_rows, thread_keys } = self.tile;
        let head_quads = self.head_quads();
        let cached = match self.kv {
            KvType::F32 => FULL_CACHE,
            KvType::F16 => PACKED_CACHE,
        };
        let queries = if self.operands == Operands::Packed { PACKED_QUERIES } else { FULL_QUERIES };
        let weights = match (self.operands, thread_keys) {
            (Operands::Full, _) => FULL_WEIGHTS,
            (Operands::PackedWeights | Operands::Packed, 2) => PACKED_PAIRS,
            (Operands::PackedWeights | Operands::Packed, _) => PACKED_QUADS,
        };
        format!(
            "const HEAD_QUADS: u32 = {head_quads}u;\nconst TILE_ROWS: u32 = {rows}u;\nconst TILE_KEYS: u32 = {keys}u;\n\
             const THREAD_ROWS: u32 = {thread_rows}u;\nconst THREAD_KEYS: u32 = {thread_keys}u;\n\
             alias Scores = vec{thread_keys}<f32>;\n{cached}{queries}{weights}"
        )
    }
}

const FULL_CACHE: &str = "alias Cached = vec4<f32>;
fn from_cached(cached: Cached) -> vec4<f32> { return cached; }
";
const PACKED_CACHE: &str = "alias Cached = vec2<u32>;
fn from_cached(cached: Cached) -> vec4<f32> { return vec4<f32>(unpack2x16float(cached.x), unpack2x16float(cached.y)); }
";
const FULL_QUERIES: &str = "alias Query = vec4<f32>;
fn to_query(query: vec4<f32>) -> Query { return query; }
fn from_query(query: Query) -> vec4<f32> { return query; }
";
const PACKED_QUERIES: &str = "alias Query = vec2<u32>;
fn is_nan(x: vec4<f32>) -> vec4<bool> { return (bitcast<vec4<u32>>(x) & vec4(0x7fffffffu)) > vec4(0x7f800000u); }
fn in_range(x: vec4<f32>) -> vec4<f32> { return select(clamp(x, vec4(-65504.0), vec4(65504.0)), x, is_nan(x)); }
fn packed(x: vec4<f32>) -> Query { return vec2<u32>(pack2x16float(x.xy), pack2x16float(x.zw)); }
fn to_query(query: vec4<f32>) -> Query { return packed(in_range(query)); }
fn from_query(query: Query) -> vec4<f32> { return vec4<f32>(unpack2x16float(query.x), unpack2x16float(query.y)); }
";
const FULL_WEIGHTS: &str = "alias Weights = Scores;
fn to_weights(weights: Scores) -> Weights { return weights; }
fn from_weights(weights: Weights) -> Scores { return weights; }
";
const PACKED_QUADS: &str = "alias Weights = vec2<u32>;
fn to_weights(weights: Scores) -> Weights { return vec2<u32>(pack2x16float(weights.xy), pack2x16float(weights.zw)); }
fn from_weights(packed: Weights) -> Scores { return vec4<f32>(unpack2x16float(packed.x), unpack2x16float(packed.y)); }
";
const PACKED_PAIRS: &str = "alias Weights = u32;
fn to_weights(weights: Scores) -> Weights { return pack2x16float(weights); }
fn from_weights(weights: Weights) -> Scores { return unpack2x16float(weights); }
";

/// What runs the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Processor {
    /// A GPU.
    Gpu,
    /// A software adapter.
    Cpu,
}

/// What a device allows a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// Invocations.
    pub invocations: u32,
}

/// A tile, and the largest head that it is for.
type Candidate = (u32, Tile);

/// The fastest first, by times on an H200 of 2048 tokens (1024 from heads of 256 on). What decides there is how many
/// invocations a multiprocessor has at work, in the 48 KiB of workgroup memory that all of them share.
const GPU_F16_ROUNDED: &[Candidate] = &[
    (64, Tile::new([48, 32], [6, 4])),
    (96, Tile::new([32, 32], [4, 4])),
    (128, Tile::new([64, 64], [8, 4])),
    (128, Tile::new([48, 16], [3, 2])),
    (128, Tile::new([32, 16], [4, 2])),
    (256, Tile::new([32, 16], [2, 2])),
    (256, Tile::new([16, 16], [2, 2])),
    (256, Tile::new([8, 16], [1, 2])),
];
const GPU_F16: &[Candidate] = &[
    (64, Tile::new([32, 32], [4, 4])),
    (128, Tile::new([64, 16], [4, 2])),
    (128, Tile::new([32, 16], [2, 2])),
    (128, Tile::new([16, 16], [2, 2])),
    (256, Tile::new([32, 16], [2, 2])),
    (256, Tile::new([16, 16], [1, 2])),
    (256, Tile::new([8, 8], [1, 2])),
];
const GPU_F32: &[Candidate] = &[
    (80, Tile::new([24, 16], [3, 2])),
    (128, Tile::new([64, 16], [4, 2])),
    (128, Tile::new([16, 16], [2, 2])),
    (128, Tile::new([8, 16], [1, 2])),
    (256, Tile::new([16, 16], [2, 2])),
    (256, Tile::new([8, 8], [1, 2])),
    (256, Tile::new([4, 8], [1, 2])),
];
/// By times on llvmpipe.
const CPU: &[Candidate] = &[
    (128, Tile::new([32, 32], [4, 4])),
    (256, Tile::new([16, 16], [2, 2])),
    (256, Tile::new([8, 8], [1, 2])),
    (256, Tile::new([4, 8], [1, 2])),
];

/// The fastest shape that a device allows. There is one for every head of up to 256 elements, a multiple of 4, within
/// what WebGPU promises: 16384 bytes and 256 invocations.
pub fn shape(head_dim: u32, kv: KvType, queries: Queries, limits: Limits, processor: Processor) -> Option<Shape> {
    let (candidates, operands) = match (processor, kv, queries) {
        (Processor::Cpu, ..) => (CPU, Operands::Full),
        (Processor::Gpu, KvType::F32, _) => (GPU_F32, Operands::Full),
        (Processor::Gpu, KvType::F16, Queries::Full) => (GPU_F16, Operands::PackedWeights),
        (Processor::Gpu, KvType::F16, Queries::Rounded) => (GPU_F16_ROUNDED, Operands::Packed),
    };
    let is_head = head_dim.is_multiple_of(4) && head_dim > 0;
    let made_for = candidates.iter().filter(|(largest, _)| is_head && head_dim <= *largest);
    let mut shapes = made_for.map(|&(_, tile)| Shape { head_dim, kv, tile, operands });
    shapes.find(|shape| shape.workgroup_bytes() <= limits.workgroup_bytes && shape.tile.threads() <= limits.invocations)
}

/// Turns of all loops of an invocation over a context: of the tiles, and in each of the head and of the columns.
pub fn turns(context_len: u32, shape: &Shape) -> u64 {
    let tiles = u64::from(context_len.div_ceil(shape.tile.keys));
    tiles * u64::from(1 + shape.head_dim / 4 + shape.tile.keys / shape.tile.thread_keys)
}

/// The variant of a shape.
pub fn variant(shape: Shape) -> Variant {
    Variant {
        kernel: &KERNEL,
        label: KERNEL.stem,
        block: shape.block().into(),
        workgroup_size: shape.tile.threads(),
        workgroup_bytes: shape.workgroup_bytes(),
        needs: Needs::default(),
    }
}

/// One variant of each kind: full and packed operands and caches, two and four keys an invocation, heads that columns
/// do not divide.
pub(super) fn representatives() -> impl Iterator<Item = Variant> {
    let kinds = [
        (64, KvType::F32, Queries::Full, Processor::Gpu),
        (72, KvType::F32, Queries::Full, Processor::Gpu),
        (256, KvType::F32, Queries::Full, Processor::Gpu),
        (64, KvType::F16, Queries::Rounded, Processor::Gpu),
        (72, KvType::F16, Queries::Rounded, Processor::Gpu),
        (256, KvType::F16, Queries::Rounded, Processor::Gpu),
        (64, KvType::F16, Queries::Full, Processor::Gpu),
        (96, KvType::F16, Queries::Full, Processor::Gpu),
        (64, KvType::F16, Queries::Full, Processor::Cpu),
    ];
    let limits = Limits { workgroup_bytes: 16384, invocations: 256 };
    let shapes = kinds
        .into_iter()
        .filter_map(move |(head_dim, kv, queries, processor)| shape(head_dim, kv, queries, limits, processor));
    shapes.map(variant)
}

/// Params of a step.
pub fn params(problem: &AttentionProblem, shape: &Shape) -> Params {
    let packed_rows = problem.new_tokens * (problem.q_heads / problem.kv_heads);
    Params {
        q_heads: problem.q_heads,
        kv_heads: problem.kv_heads,
        new_tokens: problem.new_tokens,
        context_len: problem.context_len(),
        scale: problem.scale,
        row_tiles: packed_rows.div_ceil(shape.tile.rows),
    }
}

/// Workgroups of a step: one for each tile of rows of each KV head.
pub fn workgroups(problem: &AttentionProblem, shape: &Shape) -> u64 {
    u64::from(params(problem, shape).row_tiles) * u64::from(problem.kv_heads)
}

/// What a step must do: read q, and the keys and values of the context once, write the output. A visible score takes a
/// multiply-add an element for itself and one for its value, and five operations of softmax.
pub fn work(problem: &AttentionProblem, kv: KvType) -> Work {
    let cached = 2 * problem.context_elements() * u64::from(kv.size_bytes());
    Work {
        bytes: cached + 2 * 4 * problem.query_elements(),
        flops: problem.visible_scores() * (4 * u64::from(problem.head_dim) + 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_those_of_tiles_heads_and_columns() {
        let tile = Tile::new([32, 32], [4, 4]);
        let shape = Shape { head_dim: 64, kv: KvType::F32, tile, operands: Operands::Full };
        assert_eq!(turns(33, &shape), 2 * (1 + 16 + 8));
    }

    const HEADS: std::ops::RangeInclusive<u32> = 1..=64;

    fn shapes(workgroup_bytes: u32) -> Vec<Shape> {
        let limits = Limits { workgroup_bytes, invocations: 256 };
        let mut shapes = Vec::new();
        for head_dim in HEADS.map(|quads| 4 * quads) {
            for kv in [KvType::F32, KvType::F16] {
                for queries in [Queries::Full, Queries::Rounded] {
                    for processor in [Processor::Gpu, Processor::Cpu] {
                        let shape = shape(head_dim, kv, queries, limits, processor);
                        shapes.push(shape.expect("every head has a shape"));
                    }
                }
            }
        }
        shapes
    }

    #[test]
    fn every_head_has_a_shape_that_its_tile_fits() {
        for workgroup_bytes in [16384, 32768, 49152] {
            for shape in shapes(workgroup_bytes) {
                let Tile { rows, keys, thread_rows, thread_keys } = shape.tile;
                assert!(shape.workgroup_bytes() <= workgroup_bytes, "{shape:?}");
                assert!(rows.is_multiple_of(thread_rows) && keys.is_multiple_of(thread_keys), "{shape:?}");
                assert!(keys.is_multiple_of(rows / thread_rows), "{shape:?}");
                assert!(shape.kv == KvType::F16 || shape.operands == Operands::Full, "{shape:?}");
            }
        }
    }

    #[test]
    fn more_memory_takes_a_larger_tile() {
        let of = |workgroup_bytes| {
            let limits = Limits { workgroup_bytes, invocations: 256 };
            shape(128, KvType::F32, Queries::Full, limits, Processor::Gpu).map(|shape| shape.tile)
        };
        let sizes = [16384, 32768, 49152].map(|bytes| of(bytes).map(|tile| [tile.rows, tile.keys]));
        assert_eq!(sizes, [Some([8, 16]), Some([16, 16]), Some([64, 16])]);
        assert_eq!(of(1024), None);
    }

    #[test]
    fn heads_that_are_not_quads_have_no_shape() {
        let limits = Limits { workgroup_bytes: 49152, invocations: 256 };
        for head_dim in [0, 6, 7, 260] {
            assert_eq!(shape(head_dim, KvType::F32, Queries::Full, limits, Processor::Gpu), None, "{head_dim}");
        }
    }

    #[test]
    fn work_counts_what_rows_see() {
        let problem =
            AttentionProblem { q_heads: 8, kv_heads: 2, head_dim: 64, new_tokens: 3, input_pos: 97, scale: 1.0 };
        let scores = 8 * (98 + 99 + 100);
        let [cached, query] = [2 * 100 * 2 * 64, 3 * 8 * 64];
        let flops = scores * (4 * 64 + 5);
        assert_eq!(work(&problem, KvType::F16), Work { bytes: 2 * cached + 8 * query, flops });
        assert_eq!(work(&problem, KvType::F32), Work { bytes: 4 * cached + 8 * query, flops });
    }

    #[test]
    fn workgroups_take_tiles_of_the_rows_of_all_heads_that_share_keys() {
        let problem =
            AttentionProblem { q_heads: 8, kv_heads: 2, head_dim: 64, new_tokens: 13, input_pos: 0, scale: 1.0 };
        let limits = Limits { workgroup_bytes: 16384, invocations: 256 };
        let shape = shape(64, KvType::F32, Queries::Full, limits, Processor::Gpu).expect("a shape");
        assert_eq!(workgroups(&problem, &shape), 2 * (13_u64 * 4).div_ceil(24));
    }
}
