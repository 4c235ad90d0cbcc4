//! The kernels: one stem each for a WGSL file, its Rust mirror, its reference, its tests and its label.
//!
//! A kernel's text is its WGSL file. What differs between variants of it stands in one block at the top, between
//! `// variant {` and `// }`, and is replaced by the text that a typed variant gives. A test parses every variant and
//! holds bindings, params and workgroup size against what this module says.

pub mod apply_rotary_emb;
pub mod binary;
pub mod calibrate_copy;
pub mod calibrate_fma;
pub mod calibrate_matrix;
pub mod embedding;
pub mod embedding_q4;
mod grid;
mod lane;
pub mod linear;
pub mod linear_matrix;
pub mod linear_tile;
pub mod linear_vector;
pub mod quantised;
pub mod rms_norm;
pub mod rotary_update_cache;
pub mod sdpa_compute_attn_weights;
pub mod sdpa_compute_out;
pub mod sdpa_matrix;
pub mod sdpa_merge;
pub mod sdpa_softmax;
pub mod sdpa_split;
pub mod sdpa_streaming;
pub mod slice_copy;
pub mod unary;
mod unroll;
pub mod update_cache;

use std::borrow::Cow;

pub use grid::Grid;
pub use lane::Lane;
pub use linear::LinearProblem;

/// How a kernel uses a storage buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// `var<storage, read>`.
    Read,
    /// `var<storage, read_write>`.
    ReadWrite,
}

/// What Rust says about a WGSL file.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// The stem: name of the WGSL file, the module, the reference and the label.
    pub stem: &'static str,
    /// The text of the file.
    pub wgsl: &'static str,
    /// The storage buffers, from binding 1 on. Binding 0 is the params slot.
    pub bindings: &'static [Access],
    /// Bytes of the params struct.
    pub params_bytes: u32,
    /// Who keeps its reads and writes inside their buffers.
    pub bounds: Bounds,
}

/// Who keeps a kernel's reads and writes inside their buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bounds {
    /// The compiler: it clamps every index.
    Checked,
    /// The kernel itself, by the argument that its WGSL file gives under `Bounds:`. [`SessionOptions::checks`] lets the
    /// compiler check all the same.
    ///
    /// [`SessionOptions::checks`]: crate::SessionOptions::checks
    Argued,
}

/// What a variant needs of a device beyond what every WebGPU device has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    /// The smallest subgroup that it works with, in invocations; 0 where it uses no subgroups.
    pub subgroup_size: u32,
    /// 16-bit floats in shaders.
    pub shader_f16: bool,
    /// Cooperative matrices of 16 x 16 elements.
    pub cooperative_matrix: bool,
}

/// A kernel with its variant block filled in: what a pipeline is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// The name in profiles. It is the stem, or the stem and what the variant computes.
    pub label: &'static str,
    /// The lines of the variant block.
    pub block: Cow<'static, str>,
    /// Invocations of a workgroup.
    pub workgroup_size: u32,
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// What it needs of a device.
    pub needs: Needs,
}

impl Variant {
    /// The WGSL text: the file with the block of this variant, and with marked loops written out.
    pub fn source(&self) -> String {
        const OPEN: &str = "// variant {\n";
        let wgsl = self.kernel.wgsl;
        let parts = wgsl.split_once(OPEN).and_then(|(head, rest)| Some((head, rest.split_once("// }\n")?.1)));
        // Every kernel has the block: a test builds every variant.
        let (head, tail) = parts.unwrap_or((wgsl, ""));
        unroll::unroll(&format!("{head}{OPEN}{}// }}\n{tail}", self.block))
    }
}

/// The width of one load: as many elements as the rows and the type of the cache allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// Four: `vec4<f32>`, or two packed pairs.
    Four,
    /// Two: a packed pair, of f16 caches only.
    Two,
    /// One: `f32`.
    One,
}

impl Width {
    /// The widest load that divides `elements` of a cache. An f16 cache has rows of an even number of elements.
    pub const fn dividing(elements: u32, kv: KvType) -> Self {
        match kv {
            _ if elements.is_multiple_of(4) => Self::Four,
            KvType::F16 => Self::Two,
            KvType::F32 => Self::One,
        }
    }

    /// Elements of a load.
    pub const fn elements(self) -> u32 {
        match self {
            Self::Four => 4,
            Self::Two => 2,
            Self::One => 1,
        }
    }

    /// The types of a load in registers and in a cache.
    const fn aliases(self, kv: KvType) -> &'static str {
        match (self, kv) {
            (Self::Four, KvType::F32) => "alias Lanes = vec4<f32>;\nalias Stored = vec4<f32>;\n",
            (Self::Four, KvType::F16) => "alias Lanes = vec4<f32>;\nalias Stored = vec2<u32>;\n",
            (Self::Two, _) => "alias Lanes = vec2<f32>;\nalias Stored = u32;\n",
            (Self::One, _) => "alias Lanes = f32;\nalias Stored = f32;\n",
        }
    }

    /// The function that turns what a cache holds into numbers.
    const fn unpack(self, kv: KvType) -> &'static str {
        match (self, kv) {
            (Self::Four, KvType::F16) => {
                "fn unpack(x: Stored) -> Lanes { return Lanes(unpack2x16float(x.x), unpack2x16float(x.y)); }\n"
            }
            (Self::Two, _) => "fn unpack(x: Stored) -> Lanes { return unpack2x16float(x); }\n",
            (Self::Four | Self::One, _) => "fn unpack(x: Stored) -> Lanes { return x; }\n",
        }
    }
}

/// The widths and types that the plainest kernels come in.
const WIDTHS: [(Width, KvType); 4] =
    [(Width::Four, KvType::F32), (Width::One, KvType::F32), (Width::Four, KvType::F16), (Width::Two, KvType::F16)];

/// The type of cached keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvType {
    /// 32-bit floats: what programs hold.
    #[default]
    F32,
    /// 16-bit floats, two in a u32, the first in its low half: half the memory. Values are rounded to the nearest, ties to
    /// even; what lies beyond the largest one, 65504, becomes that one with its sign, infinities too; NaN stays NaN.
    F16,
}

impl KvType {
    /// Bytes of an element.
    pub const fn size_bytes(self) -> u32 {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }

    /// The name used in tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
        }
    }
}

/// What a dispatch must do, whatever its kernel does on top: the base of bandwidths and arithmetic rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes: each input element that is used read once, each output element written once.
    pub bytes: u64,
    /// Floating-point operations; a multiply-add is two, an exponential one.
    pub flops: u64,
}

/// Every variant that a plan can ask for.
pub fn all_variants() -> Vec<Variant> {
    let attention = WIDTHS.into_iter().flat_map(|(width, kv)| {
        [
            update_cache::variant(width, kv),
            sdpa_compute_attn_weights::variant(width, kv),
            sdpa_compute_out::variant(width, kv),
        ]
    });
    let binary = [binary::Function::Add, binary::Function::Mul]
        .into_iter()
        .flat_map(|function| [binary::variant(function, true), binary::variant(function, false)]);
    let single = [
        sdpa_softmax::variant(),
        calibrate_copy::variant(),
        calibrate_fma::variant(calibrate_fma::Real::F32),
        calibrate_fma::variant(calibrate_fma::Real::F16),
        calibrate_matrix::variant(),
    ];
    let split =
        sdpa_split::representatives().into_iter().chain([sdpa_merge::variant(sdpa_merge::Shape { head_dim: 64 })]);
    attention
        .chain(split)
        .chain(single)
        .chain(binary)
        .chain(sdpa_streaming::representatives())
        .chain(sdpa_matrix::representatives())
        .chain(linear::representatives())
        .chain(embedding_q4::LowColumn::ALL.map(embedding_q4::variant))
        .chain(rms_norm::Cut::ALL.map(rms_norm::variant))
        .chain(Lane::ALL.map(embedding::variant))
        .chain(Lane::ALL.map(slice_copy::variant))
        .chain([unary::variant(unary::Function::Sigmoid), apply_rotary_emb::variant()])
        .chain([KvType::F32, KvType::F16].map(rotary_update_cache::variant))
        .collect()
}

/// One step of attention over a cache: the sizes that its kernels share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionProblem {
    /// Query heads.
    pub q_heads: u32,
    /// KV heads; divides `q_heads`.
    pub kv_heads: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Query rows of this step.
    pub new_tokens: u32,
    /// Cache row of the first of them.
    pub input_pos: u32,
    /// Factor on the scores.
    pub scale: f32,
}

impl AttentionProblem {
    /// Keys in the cache after this step.
    pub const fn context_len(&self) -> u32 {
        self.input_pos + self.new_tokens
    }

    /// Scores that some row may see: the causal part of the score matrix.
    pub const fn visible_scores(&self) -> u64 {
        let (s, before) = (self.new_tokens as u64, self.input_pos as u64);
        self.q_heads as u64 * (s * before + s * (s + 1) / 2)
    }

    /// Elements of q, and of the output.
    pub const fn query_elements(&self) -> u64 {
        self.q_heads as u64 * self.new_tokens as u64 * self.head_dim as u64
    }

    /// Elements of K, and of V, that this step reads.
    pub const fn context_elements(&self) -> u64 {
        self.kv_heads as u64 * self.context_len() as u64 * self.head_dim as u64
    }

    /// Elements of the score matrix: q_heads x new_tokens x context_len.
    pub const fn scores(&self) -> u64 {
        self.q_heads as u64 * self.new_tokens as u64 * self.context_len() as u64
    }
}
