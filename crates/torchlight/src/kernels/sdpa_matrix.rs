//! `sdpa_matrix`: streaming attention on cooperative matrices, over a cache of f16.

use std::fmt::Write as _;

use bytemuck::{Pod, Zeroable};

use super::{Access, AttentionProblem, Bounds, Kernel, KvType, Needs, Variant, Work};

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "sdpa_matrix",
    wgsl: include_str!("sdpa_matrix.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::ReadWrite, Access::ReadWrite, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Argued,
};

/// Invocations of a subgroup: the kernel is written for this size.
pub const SUBGROUP: u32 = 32;
/// Rows and columns of a matrix.
pub const MATRIX: u32 = 16;
/// The largest heads that registers hold.
pub const MAX_HEAD_DIM: u32 = 128;
/// Workgroups that keep a device busy: what splits and smaller row blocks aim at. An H200 has 132 multiprocessors, each
/// with room for one of these workgroups; a few too many take twice as long.
pub const BUSY_WORKGROUPS: u32 = 128;

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[allow(missing_docs, reason = "the sizes of AttentionProblem, documented there")]
pub struct Params {
    pub q_heads: u32,
    pub kv_heads: u32,
    pub new_tokens: u32,
    pub context_len: u32,
    pub scale: f32,
    /// Parts of the keys, each a workgroup's; 1 where a shape does not split.
    pub splits: u32,
    /// Keys of a part.
    pub chunk: u32,
    /// Workgroups for the rows of a KV head.
    pub row_blocks: u32,
}

/// The type in which scores are summed and weighed. The relative error (L2) against f64 on random data is 1e-4 to 3e-4
/// with f32 and 3e-4 to 1e-3 with f16. Where scores reach 100 and more, and a row's weight sits on few keys, it is 1e-3
/// with f32 (queries are f16 in any case) and 2e-3 to 5e-3 with f16, single elements being off by several hundredths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scores {
    /// f32: for scores of any size.
    F32,
    /// f16: 15 % faster or more. Scores times log2(e) must stay below 32752 in size.
    #[default]
    F16,
}

/// What a variant is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Elements of a head: a multiple of 16.
    pub head_dim: u32,
    /// Subgroups of a workgroup.
    pub subgroups: u32,
    /// Tiles of 16 packed rows that a subgroup owns: 1 or 2.
    pub row_tiles: u32,
    /// Keys in workgroup memory at a time: a multiple of `slice_keys * key_ways`.
    pub tile_keys: u32,
    /// Keys that a subgroup scores and weighs at a time: a multiple of 16.
    pub slice_keys: u32,
    /// 1 where each subgroup has rows of its own and sees all keys of a tile, or `subgroups` where they have the same
    /// rows and share the keys.
    pub key_ways: u32,
    /// Tiles that are on their way in registers while one is used.
    pub tiles_ahead: u32,
    /// Whether weights are made before it is known that no maximum grew. Costs registers.
    pub speculate: bool,
    /// Type of the scores.
    pub scores: Scores,
    /// Whether workgroups leave partial results of a part of the keys to `sdpa_merge`.
    pub split: bool,
}

impl Shape {
    /// Packed rows of a workgroup.
    pub const fn rows(&self) -> u32 {
        self.subgroups / self.key_ways * self.row_tiles * MATRIX
    }

    /// Bytes of workgroup memory.
    pub const fn workgroup_bytes(&self) -> u32 {
        let cache = self.tile_keys * (self.head_dim + 8) * 2;
        let weights = self.subgroups * self.row_tiles * MATRIX * (self.slice_keys + 8) * 2;
        let floats = self.subgroups * self.float_tile_words() * 4;
        16 + 2 * cache + weights + floats
    }

    /// From one column to the next in the scratch of f32. Scores lie there where they are f32: four words more than
    /// their rows keep lanes off each other's banks.
    const fn float_tile_stride(&self) -> u32 {
        match self.scores {
            Scores::F32 => self.row_tiles * MATRIX + 4,
            Scores::F16 => MATRIX,
        }
    }

    const fn float_tile_words(&self) -> u32 {
        let columns = match self.scores {
            Scores::F32 => self.slice_keys,
            Scores::F16 => MATRIX,
        };
        // Maximum and sum of each row, where subgroups share rows.
        let rows = if self.key_ways > 1 { 2 * self.row_tiles * MATRIX } else { 0 };
        self.float_tile_stride() * columns + rows
    }
}

const F16_SCORES: &str = "alias Score = f16;
const LEAST_MAX: f32 = -32752.0;
const HIDDEN: f16 = -65504.0h;
fn score_at(row: u32, key: u32) -> u32 { return weight_base + row * WEIGHT_STRIDE + key / 4u; }
fn load_scores(row: u32, key: u32) -> vec4<f16> { return weights[score_at(row, key)]; }
fn store_scores(x: coop_mat16x16<f16, C>, row: u32, key: u32) { coopStoreT(x, &weights[score_at(row, key)], WEIGHT_STRIDE); }
";

const F32_SCORES: &str = "alias Score = f32;
const LEAST_MAX: f32 = -1.7e38;
const HIDDEN: f32 = -3.4e38;
fn score_at(row: u32, key: u32) -> u32 { return float_base + key * FLOAT_TILE_STRIDE + row; }
fn score(row: u32, key: u32) -> f32 { return floats[score_at(row, key)]; }
fn load_scores(row: u32, key: u32) -> vec4<f32> { return vec4<f32>(score(row, key), score(row, key + 1u), score(row, key + 2u), score(row, key + 3u)); }
fn store_scores(x: coop_mat16x16<f32, C>, row: u32, key: u32) { coopStore(x, &floats[score_at(row, key)], FLOAT_TILE_STRIDE); }
";

/// The variant of a shape.
pub fn variant(shape: Shape) -> Variant {
    let constants = [
        ("HEAD_DIM", shape.head_dim),
        ("SUBGROUPS", shape.subgroups),
        ("ROW_TILES", shape.row_tiles),
        ("TILE_KEYS", shape.tile_keys),
        ("SLICE_KEYS", shape.slice_keys),
        ("KEY_WAYS", shape.key_ways),
        ("TILES_AHEAD", shape.tiles_ahead),
        ("SPECULATE", u32::from(shape.speculate)),
        ("SPLIT", u32::from(shape.split)),
        ("FLOAT_TILE_STRIDE", shape.float_tile_stride()),
        ("FLOAT_TILE_WORDS", shape.float_tile_words()),
    ];
    let mut block = String::new();
    for (name, value) in constants {
        // Writing to a string cannot fail.
        _ = writeln!(block, "const {name}: u32 = {value}u;");
    }
    block.push_str(match shape.scores {
        Scores::F32 => F32_SCORES,
        Scores::F16 => F16_SCORES,
    });
    Variant {
        kernel: &KERNEL,
        label: if shape.split { "sdpa_matrix_split" } else { KERNEL.stem },
        block: block.into(),
        workgroup_size: shape.subgroups * SUBGROUP,
        workgroup_bytes: shape.workgroup_bytes(),
        needs: Needs { subgroup_size: SUBGROUP, shader_f16: true, cooperative_matrix: true },
    }
}

/// Params of a step whose keys are cut into at most `splits` parts of whole tiles.
pub fn params(problem: &AttentionProblem, choice: Choice) -> Params {
    let context_len = problem.context_len();
    let chunk = context_len.div_ceil(choice.splits).max(1).next_multiple_of(choice.shape.tile_keys);
    Params {
        q_heads: problem.q_heads,
        kv_heads: problem.kv_heads,
        new_tokens: problem.new_tokens,
        context_len,
        scale: problem.scale,
        splits: context_len.div_ceil(chunk),
        chunk,
        row_blocks: packed_rows(problem).div_ceil(choice.shape.rows()),
    }
}

/// Workgroups of a step.
pub fn workgroups(params: &Params) -> u64 {
    u64::from(params.kv_heads) * u64::from(params.row_blocks) * u64::from(params.splits)
}

/// What a step must do: read q, K and V, write the output; two multiply-adds a head element of a visible score, and
/// five operations to weigh it.
pub fn work(problem: &AttentionProblem, kv_type: KvType) -> Work {
    let cache = 2 * problem.context_elements() * u64::from(kv_type.size_bytes());
    Work {
        bytes: cache + 2 * 4 * problem.query_elements(),
        flops: problem.visible_scores() * (4 * u64::from(problem.head_dim) + 5),
    }
}

fn packed_rows(problem: &AttentionProblem) -> u32 {
    problem.new_tokens * (problem.q_heads / problem.kv_heads)
}

/// What a device allows a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Smallest and largest subgroup, in invocations: both must be [`SUBGROUP`].
    pub subgroup_sizes: [u32; 2],
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// Invocations.
    pub invocations: u32,
}

/// How a step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The variant's shape.
    pub shape: Shape,
    /// Parts of the keys, at most: above 1 only where the shape splits.
    pub splits: u32,
}

/// Variants of every kind: for each type of scores, heads of 64 and 128 elements, all blocks of rows, split and not.
pub fn representatives() -> Vec<Variant> {
    let allowed = Allowed { subgroup_sizes: [SUBGROUP; 2], workgroup_bytes: 49152, invocations: 256 };
    let kinds = [64, 128].into_iter().flat_map(|head_dim| [(head_dim, Scores::F16), (head_dim, Scores::F32)]);
    kinds.flat_map(|(head_dim, scores)| shapes(head_dim, scores, allowed)).map(variant).collect()
}

/// Head sizes that are offered: multiples of [`MATRIX`] up to [`MAX_HEAD_DIM`].
pub const fn offers(head_dim: u32) -> bool {
    head_dim.is_multiple_of(MATRIX) && 0 < head_dim && head_dim <= MAX_HEAD_DIM
}

/// Parts into which the keys of a step go with this shape: as many as keep the device busy and are still worth a merge.
/// 1 where the shape does not split.
pub fn splits(problem: &AttentionProblem, shape: Shape) -> u32 {
    if !shape.split {
        return 1;
    }
    let least_keys = if shape.key_ways > 1 { 128 } else { 512 };
    let unsplit = (problem.kv_heads * packed_rows(problem).div_ceil(shape.rows())).max(1);
    (BUSY_WORKGROUPS / unsplit).min(problem.context_len() / least_keys).max(1)
}

/// Every shape that [`choose`] can return for heads of this size: none where the device or the size does not fit.
pub fn shapes(head_dim: u32, scores: Scores, allowed: Allowed) -> Vec<Shape> {
    let all = [Rows::Many, Rows::Some, Rows::Few, Rows::Sixteen, Rows::ThirtyTwo];
    let both = |shape: Shape| [false, true].map(|split| Shape { split, ..shape });
    let mut shapes: Vec<Shape> =
        all.into_iter().filter_map(|rows| shape(rows, head_dim, scores, allowed)).flat_map(both).collect();
    // Where little fits, several kinds of blocks come down to the same shape.
    shapes.sort_by_key(|shape| (shape.rows(), shape.subgroups, shape.split));
    shapes.dedup();
    shapes
}

/// The way that measured best, by rows and context. `None` where the device or the size of heads does not fit.
pub fn choose(problem: &AttentionProblem, scores: Scores, allowed: Allowed) -> Option<Choice> {
    let fitting = |rows| shape(rows, problem.head_dim, scores, allowed);
    let rows = packed_rows(problem);
    if rows <= 2 * MATRIX {
        return fitting(if rows <= MATRIX { Rows::Sixteen } else { Rows::ThirtyTwo }).map(|shape| cut(problem, shape));
    }
    let busy = |shape: &Shape| problem.kv_heads * rows.div_ceil(shape.rows()) >= BUSY_WORKGROUPS;
    // Under a causal triangle the parts of a split are too unequal to pay.
    let long = problem.context_len() >= 2 * problem.new_tokens;
    let worth = |many: &Shape| long && rows >= many.rows() && cut(problem, *many).splits > 1;
    if let Some(many) = fitting(Rows::Many).filter(|many| busy(many) || worth(many)) {
        return Some(if busy(&many) { whole(many) } else { cut(problem, many) });
    }
    if let Some(some) = fitting(Rows::Some).filter(busy) {
        return Some(whole(some));
    }
    fitting(Rows::Few).map(|few| if long { cut(problem, few) } else { whole(few) })
}

const fn whole(shape: Shape) -> Choice {
    Choice { shape, splits: 1 }
}

/// The step in parts, if there is more than one.
fn cut(problem: &AttentionProblem, shape: Shape) -> Choice {
    let shape = Shape { split: true, ..shape };
    match splits(problem, shape) {
        1 => whole(Shape { split: false, ..shape }),
        splits => Choice { shape, splits },
    }
}

/// How many rows a workgroup is to have.
#[derive(Clone, Copy)]
enum Rows {
    /// 256: most keys and values are used by most rows.
    Many,
    /// 128.
    Some,
    /// 64.
    Few,
    /// 16, and subgroups that share the keys.
    Sixteen,
    /// 32, and subgroups that share the keys.
    ThirtyTwo,
}

/// The first shape that fits, of those that measured best first.
fn shape(rows: Rows, head_dim: u32, scores: Scores, allowed: Allowed) -> Option<Shape> {
    if !offers(head_dim) || allowed.subgroup_sizes != [SUBGROUP; 2] {
        return None;
    }
    let fits = |shape: &Shape| {
        shape.workgroup_bytes() <= allowed.workgroup_bytes && shape.subgroups * SUBGROUP <= allowed.invocations
    };
    let of = |[subgroups, row_tiles, tile_keys, slice_keys]: [u32; 4]| Shape {
        head_dim,
        subgroups,
        row_tiles,
        tile_keys,
        slice_keys,
        key_ways: if matches!(rows, Rows::Sixteen | Rows::ThirtyTwo) { subgroups } else { 1 },
        tiles_ahead: if slice_keys == 64 && subgroups == 8 { 2 } else { 1 },
        speculate: head_dim * row_tiles < 256,
        scores,
        split: false,
    };
    candidates(rows, head_dim, scores).iter().map(|&numbers| of(numbers)).find(fits)
}

/// Subgroups, row tiles, keys of a tile and of a slice: the best first, then what needs less workgroup memory. Slices
/// of 16 keys of f32 scores keep their scratch small; heads of 128 with f32 scores leave registers for one row tile
/// only.
fn candidates(rows: Rows, head_dim: u32, scores: Scores) -> &'static [[u32; 4]] {
    match (rows, scores) {
        (Rows::Many, Scores::F16) if head_dim <= 64 => &[[8, 2, 64, 32], [4, 2, 32, 16], [4, 1, 32, 16]],
        (Rows::Many, Scores::F16) if head_dim <= 96 => &[[8, 2, 64, 16], [4, 2, 32, 16], [4, 1, 32, 16]],
        (Rows::Many, Scores::F32) if head_dim > 112 => &[[8, 1, 48, 16], [4, 1, 32, 16]],
        (Rows::Many, _) => &[[8, 2, 32, 16], [4, 2, 32, 16], [4, 1, 32, 16]],
        (Rows::Some, Scores::F16) if head_dim <= 64 => &[[8, 1, 64, 64], [4, 1, 32, 16]],
        (Rows::Some, _) if head_dim <= 96 => &[[8, 1, 64, 32], [8, 1, 32, 16], [4, 1, 32, 16]],
        (Rows::Some, _) => &[[4, 1, 64, 64], [4, 1, 64, 16], [4, 1, 32, 16]],
        (Rows::Few, Scores::F16) => &[[4, 1, 64, 64], [4, 1, 64, 16], [4, 1, 32, 16]],
        (Rows::Few, Scores::F32) => &[[4, 1, 64, 16], [4, 1, 32, 16]],
        (Rows::Sixteen, _) => &[[4, 1, 64, 16], [2, 1, 32, 16]],
        (Rows::ThirtyTwo, _) => &[[4, 2, 64, 16], [2, 2, 32, 16]],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Allowed = Allowed { subgroup_sizes: [32; 2], workgroup_bytes: 49152, invocations: 1024 };

    fn problem(head_dim: u32, new_tokens: u32, context_len: u32) -> AttentionProblem {
        let input_pos = context_len - new_tokens;
        AttentionProblem { q_heads: 32, kv_heads: 8, head_dim, new_tokens, input_pos, scale: 1.0 }
    }

    #[test]
    fn work_reads_the_cache_once() {
        let problem =
            AttentionProblem { q_heads: 8, kv_heads: 2, head_dim: 64, new_tokens: 1, input_pos: 99, scale: 1.0 };
        let bytes = 2 * 2 * 100 * 2 * 64 + 2 * 4 * 8 * 64;
        assert_eq!(work(&problem, KvType::F16), Work { bytes, flops: 8 * 100 * (4 * 64 + 5) });
    }

    #[test]
    fn shape_and_splits_follow_rows_and_context() {
        // Head size, tokens, context: rows, keys of a slice, subgroups that share keys, splits, workgroups.
        for ((head_dim, new_tokens, context_len), wanted) in [
            ((64, 4096, 4096), (256, 32, 1, 1, 512)),
            ((64, 1024, 1024), (256, 32, 1, 1, 128)),
            ((64, 512, 512), (128, 64, 1, 1, 128)),
            ((64, 128, 128), (64, 64, 1, 1, 64)),
            ((64, 128, 4096), (256, 32, 1, 8, 128)),
            ((64, 16, 4096), (64, 64, 1, 8, 64)),
            ((128, 4096, 4096), (256, 16, 1, 1, 512)),
            ((128, 512, 512), (64, 64, 1, 1, 256)),
            ((128, 4, 8192), (16, 16, 4, 16, 128)),
            ((128, 8, 8192), (32, 16, 4, 16, 128)),
            ((128, 1, 64), (16, 16, 4, 1, 8)),
            ((96, 2048, 2048), (256, 16, 1, 1, 256)),
        ] {
            let problem = problem(head_dim, new_tokens, context_len);
            let choice = choose(&problem, Scores::F16, H200).unwrap();
            let (shape, params) = (choice.shape, params(&problem, choice));
            let got = (shape.rows(), shape.slice_keys, shape.key_ways, params.splits, workgroups(&params));
            assert_eq!(got, wanted, "{head_dim} {new_tokens} {context_len}");
            assert_eq!(shape.split, params.splits > 1);
        }
    }

    #[test]
    fn choices_fit_and_are_among_the_shapes() {
        for (head_dim, scores) in (16..=128).step_by(16).flat_map(|d| [(d, Scores::F32), (d, Scores::F16)]) {
            for workgroup_bytes in [32768, 49152] {
                let allowed = Allowed { workgroup_bytes, ..H200 };
                let shapes = shapes(head_dim, scores, allowed);
                for (new_tokens, context_len) in
                    [(1, 1), (4, 9000), (7, 900), (40, 80), (128, 4096), (512, 512), (2048, 2048)]
                {
                    let choice = choose(&problem(head_dim, new_tokens, context_len), scores, allowed).unwrap();
                    assert!(shapes.contains(&choice.shape), "{choice:?} is not in {shapes:?}");
                    assert!(choice.shape.workgroup_bytes() <= workgroup_bytes);
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_not_chosen() {
        let step = problem(64, 128, 128);
        for allowed in [
            Allowed { subgroup_sizes: [8, 8], ..H200 },
            Allowed { subgroup_sizes: [32, 64], ..H200 },
            Allowed { workgroup_bytes: 8192, ..H200 },
        ] {
            assert_eq!(choose(&step, Scores::F16, allowed), None);
        }
        for head_dim in [0, 8, 72, 144, 256] {
            assert_eq!(choose(&problem(head_dim, 128, 128), Scores::F16, H200), None);
        }
    }

    #[test]
    fn chunks_are_whole_tiles_and_cover_the_context() {
        let step = problem(64, 128, 4000);
        let choice = choose(&step, Scores::F16, H200).unwrap();
        let params = params(&step, choice);
        assert_eq!((params.chunk, params.splits), (576, 7));
        assert!(params.chunk * params.splits >= 4000);
    }
}
