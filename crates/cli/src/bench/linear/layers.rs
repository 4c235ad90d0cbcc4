//! The layers to time: those of known models, or one of the caller's own; and weights for them.

use std::fmt;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use torchlight::kernels::LinearProblem;
use torchlight::kernels::linear::{Ending, WeightType};

use super::super::data::{floats, numbers, random_bytes};
use super::super::timing::sets;

/// Options that say which layers.
#[derive(Debug, Args)]
pub(crate) struct LayerArgs {
    /// The layers of a model, as they are computed: q, k and v in one, with the norm in front; gate and up in one, with
    /// SwiGLU behind; the others with a residual. Default: llama-1b.
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["k", "n"])]
    preset: Option<Preset>,

    /// Columns of one plain layer, in place of a preset.
    #[arg(long, value_name = "N", value_parser = size(), requires = "n")]
    k: Option<u32>,

    /// Rows of its weight.
    #[arg(long, value_name = "N", value_parser = size(), requires = "k")]
    n: Option<u32>,

    /// Rows to multiply, one number or several: tokens of a step.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = size(), default_value = "1,512")]
    rows: Vec<u32>,

    /// The type of the weights: q4:32 is 4 bits, 32 columns with a scale in common.
    #[arg(long, value_name = "TYPE", default_value = "q4:32", value_parser = weight_type)]
    weights: WeightType,
}

fn size() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

/// Takes f32, or q4 and how many columns share a scale.
fn weight_type(text: &str) -> std::result::Result<WeightType, String> {
    let group = text.strip_prefix("q4:").and_then(|group| group.parse().ok()).filter(|&group| group > 0);
    match (text, group) {
        ("f32", _) => Ok(WeightType::F32),
        (_, Some(group)) => Ok(WeightType::Q4 { group }),
        _ => Err("wanted f32, or q4 with the columns that share a scale, as q4:32".into()),
    }
}

/// Models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// 576 features, 1536 hidden, a vocabulary of 49152.
    #[value(name = "smollm2-135m")]
    Smollm2,
    /// 2048 features, 8192 hidden, a vocabulary of 128256.
    #[value(name = "llama-1b")]
    Llama1b,
    /// 4096 features, 14336 hidden, a vocabulary of 128256.
    #[value(name = "llama-8b")]
    Llama8b,
}

impl Preset {
    /// Features, elements of q, k and v together, hidden features, vocabulary.
    const fn sizes(self) -> [u32; 4] {
        match self {
            Self::Smollm2 => [576, 960, 1536, 49152],
            Self::Llama1b => [2048, 3072, 8192, 128_256],
            Self::Llama8b => [4096, 6144, 14336, 128_256],
        }
    }

    /// Name, columns, elements of a row of the result, whether a norm is in front, and what is behind.
    fn layers(self) -> [(&'static str, [u32; 2], bool, Ending); 5] {
        let [features, qkv, hidden, vocabulary] = self.sizes();
        [
            ("q+k+v", [features, qkv], true, Ending::Plain),
            ("out", [features, features], false, Ending::Add),
            ("gate+up", [features, hidden], true, Ending::SwiGlu),
            ("down", [hidden, features], false, Ending::Add),
            ("logits", [features, vocabulary], true, Ending::Plain),
        ]
    }
}

/// A layer, and how many rows it multiplies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) name: &'static str,
    pub(crate) problem: LinearProblem,
}

impl LayerArgs {
    /// The layers, in the order in which they are timed.
    pub(crate) fn layers(&self) -> Result<Vec<Layer>> {
        let own = self.k.zip(self.n).map(|(k, n)| vec![("linear", [k, n], false, Ending::Plain)]);
        let layers = own.unwrap_or_else(|| self.preset.unwrap_or(Preset::Llama1b).layers().to_vec());
        let of_rows = |&rows: &u32| {
            let of = move |(name, sizes, has_norm, ending)| {
                Layer::new(name, (rows, sizes), self.weights, (has_norm, ending))
            };
            layers.iter().copied().map(of).collect::<Vec<Layer>>()
        };
        let layers: Vec<Layer> = self.rows.iter().flat_map(of_rows).collect();
        for layer in &layers {
            let LinearProblem { in_features, weight, .. } = layer.problem;
            if let WeightType::Q4 { group } = weight
                && !(in_features.is_multiple_of(group) && in_features.is_multiple_of(2))
            {
                bail!("{in_features} columns are no whole groups of {group}, or no whole bytes");
            }
        }
        Ok(layers)
    }
}

impl Layer {
    fn new(
        name: &'static str,
        (rows, [in_features, out_features]): (u32, [u32; 2]),
        weight: WeightType,
        (has_norm, ending): (bool, Ending),
    ) -> Self {
        let problem = LinearProblem { rows, in_features, out_features, weight, has_bias: false, has_norm, ending };
        Self { name, problem }
    }

    /// The layers of a quick run: few rows and many over both types of weights.
    pub(crate) fn smoke() -> Vec<Self> {
        let weights = [WeightType::Q4 { group: 32 }, WeightType::F32];
        let steps = weights.into_iter().flat_map(|weight| [1, 3, 9].map(|rows| (weight, rows)));
        let layers = [
            ("q+k+v", [64, 40], true, Ending::Plain),
            ("gate+up", [64, 36], true, Ending::SwiGlu),
            ("down", [96, 20], false, Ending::Add),
        ];
        let of = |(weight, rows)| {
            layers.map(|(name, sizes, has_norm, ending)| Self::new(name, (rows, sizes), weight, (has_norm, ending)))
        };
        steps.flat_map(of).collect()
    }

    /// Bytes of the weight, and of its scales.
    pub(crate) fn weight_bytes(&self) -> [usize; 2] {
        let (columns, rows) = (self.problem.in_features as usize, self.problem.weight_rows() as usize);
        match self.problem.weight {
            WeightType::F32 => [4 * columns * rows, 0],
            WeightType::Q4 { group } => [columns / 2 * rows, 4 * (columns / group as usize) * rows],
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinearProblem { rows, in_features, out_features, .. } = self.problem;
        let rows = crate::table::counted(rows as usize, "row", "rows");
        write!(f, "{} of {in_features} to {out_features}, {}, {rows}", self.name, type_name(self.problem.weight))
    }
}

/// A type of weights in words.
pub(crate) fn type_name(weight: WeightType) -> String {
    match weight {
        WeightType::F32 => "f32".into(),
        WeightType::Q4 { group } => format!("4 bits in groups of {group}"),
    }
}

/// Bytes between two sets: they begin at different places of the same numbers.
const STRIDE_BYTES: usize = 64;

/// Weights of a layer, the same in every run.
pub(crate) struct Weights {
    /// Numbers of 4 bits, where the layer has them.
    packed: Vec<u8>,
    /// Little-endian f32 between -1 and 1: x, the norm's weight and the residual too.
    floats: Vec<u8>,
    bytes: [usize; 2],
    pub(crate) sets: usize,
}

impl Weights {
    /// Enough sets that none is in a cache when its turn comes.
    pub(crate) fn new(layer: &Layer, is_cpu: bool) -> Self {
        let bytes = layer.weight_bytes();
        let sets = sets((bytes[0] + bytes[1]) as u64, is_cpu);
        let LinearProblem { rows, in_features, out_features, weight, .. } = layer.problem;
        let (packed, own_floats) = match weight {
            WeightType::F32 => (0, bytes[0]),
            WeightType::Q4 { .. } => (bytes[0], bytes[1]),
        };
        let rest = sets * STRIDE_BYTES;
        let float_bytes = own_floats.max(4 * rows as usize * in_features.max(out_features) as usize);
        Self {
            packed: random_bytes().take(if packed == 0 { 0 } else { packed + rest }).collect(),
            floats: numbers().take((float_bytes + rest) / 4).flat_map(f32::to_le_bytes).collect(),
            bytes,
            sets,
        }
    }

    /// Weight and scales of a set, each set with bytes of its own: equal bytes would share a buffer.
    pub(crate) fn set(&self, set: usize) -> [&[u8]; 2] {
        let first = set * STRIDE_BYTES;
        match self.packed.is_empty() {
            true => [&self.floats[first..first + self.bytes[0]], &[]],
            false => [&self.packed[first..first + self.bytes[0]], &self.floats[first..first + self.bytes[1]]],
        }
    }

    /// The first of the numbers.
    pub(crate) fn floats(&self, count: u32) -> Vec<f32> {
        floats(&self.floats[..4 * count as usize]).collect()
    }

    /// Bytes of all sets.
    pub(crate) fn rotated_bytes(&self, sets: usize) -> u64 {
        (sets * (self.bytes[0] + self.bytes[1])) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_weights_are_read_from_their_names() {
        assert_eq!(weight_type("f32"), Ok(WeightType::F32));
        assert_eq!(weight_type("q4:64"), Ok(WeightType::Q4 { group: 64 }));
        for wrong in ["q4", "q4:0", "q4:x", "q8:32", ""] {
            assert!(weight_type(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sets_have_bytes_of_their_own() {
        for layer in Layer::smoke() {
            let weights = Weights::new(&layer, true);
            assert!(weights.sets >= 2);
            let [first, last] = [weights.set(0), weights.set(weights.sets - 1)];
            assert_eq!([first[0].len(), first[1].len()], layer.weight_bytes());
            assert_ne!(first[0], last[0], "{layer}");
        }
    }
}
