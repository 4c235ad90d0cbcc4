//! `sdpa_split`: attention of a few new tokens, the keys split over workgroups.

use bytemuck::{Pod, Zeroable};

use super::{Access, AttentionProblem, Bounds, Kernel, KvType, Needs, Variant, Work};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 128;
/// The most packed rows of a block.
pub const MAX_ROWS: u32 = 8;
/// The most splits of a row.
pub const MAX_SPLITS: u32 = 256;
/// Workgroups that fill a GPU: three on each of 128 processors. Just above what a device holds at once is the worst place.
pub const GPU_WORKGROUPS: u32 = 384;
/// Workgroups that fill a CPU.
pub const CPU_WORKGROUPS: u32 = 16;

/// A split has at least as many keys, if there is more than one: fewer do not pay for the merge.
const SPLIT_KEYS: u32 = 64;
/// The most bytes of keys of a KV head that one split takes alone: beyond, joining splits (2.6 µs on an H200) takes less time than
/// going over the keys (0.022 µs a key of 64 floats of 32 bits).
const ALONE_BYTES: u32 = 36 << 10;
/// What a lane may hold of the query, and again of the output, in vec4s: what leaves registers for loads under way.
const LANE_QUADS: u32 = 8;
/// The most workgroup memory for the parts of a round, unless one row has more: a driver may spill registers to workgroup
/// memory, and three workgroups should fit a processor's 48 KiB all the same.
const ROUND_BYTES: u32 = 4096;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "sdpa_split",
    wgsl: include_str!("sdpa_split.wgsl"),
    bindings: &[
        Access::Read,
        Access::Read,
        Access::Read,
        Access::ReadWrite,
        Access::ReadWrite,
        Access::ReadWrite,
        Access::ReadWrite,
    ],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Argued,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// Query heads.
    pub q_heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Query heads that share a KV head.
    pub group_heads: u32,
    /// Query rows of this step.
    pub new_tokens: u32,
    /// Keys in the cache after this step.
    pub context_len: u32,
    /// Blocks of packed rows a KV head.
    pub row_blocks: u32,
    /// Splits of the context.
    pub splits: u32,
    /// Keys of a split.
    pub chunk: u32,
    /// Factor on the scores.
    pub scale: f32,
}

/// How the lanes of a strand come to a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Each has a part of the product; they add across subgroups that have at least this many invocations: a power of two.
    Subgroups(u32),
    /// Through workgroup memory, on any device.
    Memory,
}

/// Where the splits are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Merge {
    /// In a dispatch of `sdpa_merge`.
    Dispatch,
    /// In this dispatch, by the workgroup that finishes last. Relies on barriers that order storage for the whole device,
    /// which WGSL does not promise and Vulkan on NVIDIA keeps.
    Fused,
}

/// What a variant is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Elements of a head: a multiple of 4, at most 256.
    pub head_dim: u32,
    /// Packed rows of a block: 1 to [`MAX_ROWS`].
    pub rows: u32,
    /// The type of the caches.
    pub kv: KvType,
    /// How lanes come to a score.
    pub reduction: Reduction,
    /// Where splits are joined.
    pub merge: Merge,
}

/// How the invocations of a workgroup share the work; names as in the WGSL file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    head_pieces: u32,
    load_quads: u32,
    lanes: u32,
    pieces: u32,
    keys: u32,
    join_steps: u32,
    parts: u32,
    round_rows: u32,
}

/// The shape for a step of `problem`'s sizes: rows in blocks of equal size, subgroups where they are large enough for the
/// head. `smallest_subgroup` is the device's smallest, where it has subgroups.
///
/// Splits are joined where `merge` says, but a variant without subgroups always leaves it to `sdpa_merge`.
pub fn shape(problem: &AttentionProblem, kv: KvType, smallest_subgroup: Option<u32>, merge: Merge) -> Shape {
    let head_dim = problem.head_dim;
    let subgroup = smallest_subgroup.map_or(1, |size| size.min(32));
    let fits = subgroup >= 4 && lane_quads(head_dim, kv, subgroup) <= LANE_QUADS / 2;
    let (reduction, merge, quads) = if fits {
        (Reduction::Subgroups(subgroup), merge, lane_quads(head_dim, kv, subgroup))
    } else {
        (Reduction::Memory, Merge::Dispatch, 1)
    };
    let rows = rows_of_block(packed_rows(problem), MAX_ROWS.min(LANE_QUADS / quads));
    Shape { head_dim, rows, kv, reduction, merge }
}

/// Rows of a block: as few blocks as `most` rows allow, of equal size.
fn rows_of_block(packed_rows: u32, most: u32) -> u32 {
    packed_rows.div_ceil(packed_rows.div_ceil(most))
}

/// Rows of a KV head: each new token with each query head that shares it.
fn packed_rows(problem: &AttentionProblem) -> u32 {
    problem.new_tokens * (problem.q_heads / problem.kv_heads)
}

/// Elements of a load: 16 bytes where the head allows it, at least 4 elements.
fn load_elements(head_dim: u32, kv: KvType) -> u32 {
    if kv == KvType::F16 && head_dim.is_multiple_of(8) { 8 } else { 4 }
}

/// Lanes of a strand inside a subgroup.
fn subgroup_lanes(head_dim: u32, kv: KvType, subgroup: u32) -> u32 {
    (head_dim / load_elements(head_dim, kv)).next_power_of_two().min(subgroup)
}

/// What a lane of a subgroup holds of a row, in vec4s.
fn lane_quads(head_dim: u32, kv: KvType, subgroup: u32) -> u32 {
    let elements = load_elements(head_dim, kv);
    (head_dim / elements).div_ceil(subgroup_lanes(head_dim, kv, subgroup)) * elements / 4
}

impl Shape {
    fn layout(self) -> Layout {
        let (elements, lanes, join_steps) = match self.reduction {
            Reduction::Subgroups(subgroup) => {
                let lanes = subgroup_lanes(self.head_dim, self.kv, subgroup);
                (load_elements(self.head_dim, self.kv), lanes, (subgroup / lanes).ilog2())
            }
            // Few strands keep the arrays of parts small.
            Reduction::Memory => (4, (self.head_dim / 4).max(8), 0),
        };
        let head_pieces = self.head_dim / elements;
        let (load_quads, pieces) = (elements / 4, head_pieces.div_ceil(lanes));
        let keys = match self.reduction {
            Reduction::Subgroups(_) => (24 / self.rows).min(4),
            Reduction::Memory => (16 / self.rows).min(8),
        };
        let parts = WORKGROUP_SIZE / (lanes << join_steps);
        let fits = |rows: u32| self.rows.is_multiple_of(rows) && parts * rows * self.head_dim * 4 <= ROUND_BYTES;
        let round_rows = (1..=self.rows).rev().find(|&rows| fits(rows)).unwrap_or(1);
        Layout { head_pieces, load_quads, lanes, pieces, keys, join_steps, parts, round_rows }
    }

    /// Keys of a split: whole turns, so that only the last split has keys to mask.
    fn chunk(self, context_len: u32, splits: u32) -> u32 {
        let layout = self.layout();
        context_len.div_ceil(splits).next_multiple_of(WORKGROUP_SIZE / layout.lanes * layout.keys)
    }

    fn row_blocks(self, problem: &AttentionProblem) -> u32 {
        packed_rows(problem).div_ceil(self.rows)
    }
}

/// The variant of a shape.
pub fn variant(shape: Shape) -> Variant {
    let layout = shape.layout();
    let needs = match shape.reduction {
        Reduction::Subgroups(subgroup) => Needs { subgroup_size: subgroup, ..Needs::default() },
        Reduction::Memory => Needs::default(),
    };
    Variant {
        kernel: &KERNEL,
        label: KERNEL.stem,
        block: block(shape, layout).into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: workgroup_bytes(shape, layout),
        needs,
    }
}

fn block(shape: Shape, layout: Layout) -> String {
    let (load, quad) = match (shape.kv, layout.load_quads) {
        (KvType::F32, _) => ("vec4<f32>", "load"),
        (KvType::F16, 1) => ("vec2<u32>", "vec4<f32>(unpack2x16float(load.x), unpack2x16float(load.y))"),
        (KvType::F16, _) => (
            "vec4<u32>",
            "select(vec4<f32>(unpack2x16float(load.x), unpack2x16float(load.y)), \
             vec4<f32>(unpack2x16float(load.z), unpack2x16float(load.w)), index == 1u)",
        ),
    };
    let (in_memory, across, any_lane, lane_steps) = match shape.reduction {
        Reduction::Subgroups(_) => (false, "subgroupShuffleXor(x, distance)", "subgroupAny(x)", layout.lanes.ilog2()),
        Reduction::Memory => (true, "x", "x", 0),
    };
    let Layout { head_pieces, load_quads, lanes, pieces, keys, join_steps, round_rows, .. } = layout;
    let (rows, fused) = (shape.rows, shape.merge == Merge::Fused);
    format!(
        "alias Load = {load};\n\
         const HEAD_PIECES: u32 = {head_pieces}u;\n\
         const ROWS: u32 = {rows}u;\n\
         const LOAD_QUADS: u32 = {load_quads}u;\n\
         const LANES: u32 = {lanes}u;\n\
         const PIECES: u32 = {pieces}u;\n\
         const KEYS: u32 = {keys}u;\n\
         const LANE_STEPS: u32 = {lane_steps}u;\n\
         const JOIN_STEPS: u32 = {join_steps}u;\n\
         const ROUND_ROWS: u32 = {round_rows}u;\n\
         const SCORES_IN_MEMORY: bool = {in_memory};\n\
         const FUSED: bool = {fused};\n\
         fn quad(load: Load, index: u32) -> vec4<f32> {{ return {quad}; }}\n\
         fn across(x: f32, distance: u32) -> f32 {{ return {across}; }}\n\
         fn any_lane(x: bool) -> bool {{ return {any_lane}; }}\n"
    )
}

/// As the WGSL file's workgroup variables are declared.
fn workgroup_bytes(shape: Shape, layout: Layout) -> u32 {
    let head_quads = shape.head_dim / 4;
    let columns = shape.rows * head_quads;
    let fused = |items: u32| if shape.merge == Merge::Fused { items } else { 1 };
    let fused_items = fused(columns * (WORKGROUP_SIZE / columns).max(1));
    let part_rows = layout.parts * shape.rows;
    let turn_scores = match shape.reduction {
        Reduction::Subgroups(_) => 1,
        Reduction::Memory => WORKGROUP_SIZE / layout.lanes * layout.keys * shape.rows,
    };
    let words = [
        4 * fused_items.max(layout.parts * layout.round_rows * head_quads),
        part_rows,
        part_rows,
        turn_scores,
        fused(MAX_SPLITS * shape.rows),
        1,
    ];
    words.iter().map(|words| (words * 4).next_multiple_of(16)).sum()
}

/// Some of everything: both reductions, both merges, all loads.
pub(super) fn representatives() -> Vec<Variant> {
    let memory = Reduction::Memory;
    [
        Shape { head_dim: 64, rows: 4, kv: KvType::F32, reduction: Reduction::Subgroups(32), merge: Merge::Fused },
        Shape { head_dim: 128, rows: 2, kv: KvType::F16, reduction: Reduction::Subgroups(8), merge: Merge::Dispatch },
        Shape { head_dim: 80, rows: 4, kv: KvType::F16, reduction: Reduction::Subgroups(32), merge: Merge::Fused },
        Shape { head_dim: 4, rows: 8, kv: KvType::F16, reduction: Reduction::Subgroups(4), merge: Merge::Dispatch },
        Shape { head_dim: 256, rows: 7, kv: KvType::F32, reduction: memory, merge: Merge::Dispatch },
        Shape { head_dim: 40, rows: 1, kv: KvType::F16, reduction: memory, merge: Merge::Dispatch },
    ]
    .map(variant)
    .to_vec()
}

/// Into how many splits a step's keys go, so that about `target_workgroups` share the work; each has some key.
pub fn splits(problem: &AttentionProblem, shape: Shape, target_workgroups: u32) -> u32 {
    let context_len = problem.context_len();
    // Heads below 64 elements leave lanes idle: a key takes as long.
    if context_len <= ALONE_BYTES / (shape.kv.size_bytes() * shape.head_dim.max(64)) {
        return 1;
    }
    let blocks = problem.kv_heads * shape.row_blocks(problem);
    let wanted = (target_workgroups / blocks).min(context_len / SPLIT_KEYS).clamp(1, MAX_SPLITS);
    context_len.div_ceil(shape.chunk(context_len, wanted))
}

/// Params of a step in that many [`splits`].
pub fn params(problem: &AttentionProblem, shape: Shape, splits: u32) -> Params {
    Params {
        q_heads: problem.q_heads,
        kv_heads: problem.kv_heads,
        group_heads: problem.q_heads / problem.kv_heads,
        new_tokens: problem.new_tokens,
        context_len: problem.context_len(),
        row_blocks: shape.row_blocks(problem),
        splits,
        chunk: shape.chunk(problem.context_len(), splits),
        scale: problem.scale,
    }
}

/// Workgroups of a step in that many [`splits`].
pub fn workgroups(problem: &AttentionProblem, shape: Shape, splits: u32) -> u64 {
    u64::from(problem.kv_heads) * u64::from(shape.row_blocks(problem)) * u64::from(splits)
}

/// What a step must do: read q and each visible key and value once, write the output. A score costs a multiply-add an
/// element for itself and one for its value, then scale, maximum, subtraction, exponential and sum.
pub fn work(problem: &AttentionProblem, kv: KvType) -> Work {
    let head_dim = u64::from(problem.head_dim);
    Work {
        bytes: 4 * 2 * problem.query_elements() + u64::from(kv.size_bytes()) * 2 * problem.context_elements(),
        flops: problem.visible_scores() * (4 * head_dim + 5),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const DECODE: AttentionProblem =
        AttentionProblem { q_heads: 32, kv_heads: 8, head_dim: 64, new_tokens: 1, input_pos: 32767, scale: 1.0 };

    fn shapes() -> HashSet<Shape> {
        let mut shapes = HashSet::new();
        for head_dim in [4, 12, 40, 64, 72, 80, 128, 192, 256] {
            for packed_rows in (1..=8).chain([12, 14, 64]) {
                for subgroup in [None, Some(1), Some(4), Some(8), Some(16), Some(32), Some(64)] {
                    for (kv, merge) in [(KvType::F32, Merge::Dispatch), (KvType::F16, Merge::Fused)] {
                        let problem = AttentionProblem { q_heads: packed_rows, kv_heads: 1, head_dim, ..DECODE };
                        shapes.insert(shape(&problem, kv, subgroup, merge));
                    }
                }
            }
        }
        shapes
    }

    #[test]
    fn every_shape_is_small_enough() {
        for shape in shapes() {
            let (layout, variant) = (shape.layout(), variant(shape));
            assert!((1..=MAX_ROWS).contains(&shape.rows), "{shape:?}");
            assert!(layout.lanes * layout.pieces >= layout.head_pieces, "{shape:?}");
            let round_bytes = layout.round_rows * layout.parts * shape.head_dim * 4;
            assert!(round_bytes <= ROUND_BYTES || layout.round_rows == 1, "{shape:?}");
            match shape.reduction {
                Reduction::Memory => assert_eq!(shape.merge, Merge::Dispatch),
                Reduction::Subgroups(_) => assert!(layout.pieces * layout.load_quads * shape.rows <= LANE_QUADS),
            }
            let most = if shape.merge == Merge::Fused { 24576 } else { 16384 };
            assert!(variant.workgroup_bytes <= most, "{shape:?}: {} bytes", variant.workgroup_bytes);
            if shape.head_dim == 64 {
                // Longer texts take a second and more to compile.
                assert!(variant.source().len() < 80_000, "{shape:?}: {} bytes of text", variant.source().len());
            }
        }
    }

    #[test]
    fn rows_go_into_equal_blocks() {
        for (rows, most, wanted) in [(1, 8, 1), (8, 8, 8), (9, 8, 5), (14, 8, 7), (64, 8, 8), (12, 8, 6), (7, 4, 4)] {
            assert_eq!(rows_of_block(rows, most), wanted, "{rows} rows");
        }
    }

    #[test]
    fn subgroups_are_used_where_they_are_large_enough() {
        let reduction = |head_dim, subgroup| {
            shape(&AttentionProblem { head_dim, ..DECODE }, KvType::F32, subgroup, Merge::Fused).reduction
        };
        assert_eq!(reduction(64, Some(64)), Reduction::Subgroups(32));
        assert_eq!(reduction(256, Some(32)), Reduction::Subgroups(32));
        assert_eq!(reduction(128, Some(8)), Reduction::Subgroups(8));
        assert_eq!(reduction(256, Some(8)), Reduction::Memory);
        assert_eq!(reduction(64, None), Reduction::Memory);
    }

    #[test]
    fn splits_fill_the_device_and_have_keys() {
        let shape = shape(&DECODE, KvType::F16, Some(32), Merge::Fused);
        // 48 are wanted; chunks of whole turns make them 47.
        assert_eq!(splits(&DECODE, shape, 384), 47);
        for context_len in 1..2000 {
            for target in [1, 16, 384, 100_000] {
                let problem = AttentionProblem { input_pos: context_len - 1, ..DECODE };
                let splits = splits(&problem, shape, target);
                let chunk = params(&problem, shape, splits).chunk;
                assert!((1..=MAX_SPLITS).contains(&splits));
                assert!((splits - 1) * chunk < context_len && splits * chunk >= context_len);
            }
        }
    }

    #[test]
    fn few_keys_are_not_split() {
        for (kv, head_dim, most) in
            [(KvType::F32, 64, 144), (KvType::F16, 64, 288), (KvType::F16, 128, 144), (KvType::F32, 8, 144)]
        {
            let problem = AttentionProblem { head_dim, new_tokens: 1, input_pos: most - 1, ..DECODE };
            let shape = shape(&problem, kv, Some(32), Merge::Fused);
            assert_eq!(splits(&problem, shape, 384), 1);
            assert!(splits(&AttentionProblem { input_pos: 2 * most, ..problem }, shape, 384) > 1);
        }
    }

    #[test]
    fn work_reads_each_key_and_value_once_for_all_heads_that_share_it() {
        let problem =
            AttentionProblem { q_heads: 8, kv_heads: 2, head_dim: 64, new_tokens: 2, input_pos: 98, scale: 1.0 };
        let (q_and_out, k_and_v) = (2 * 2 * 8 * 64, 2 * 100 * 2 * 64);
        let flops = 8 * (99 + 100) * (4 * 64 + 5);
        assert_eq!(work(&problem, KvType::F32), Work { bytes: 4 * q_and_out + 4 * k_and_v, flops });
        assert_eq!(work(&problem, KvType::F16), Work { bytes: 4 * q_and_out + 2 * k_and_v, flops });
    }
}
