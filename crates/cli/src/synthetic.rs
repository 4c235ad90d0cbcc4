//! Inputs for a program that comes without any: given on the command line, else made.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use torchlight::graph::{Graph, GraphInput};
use torchlight::{DType, HostTensor};

/// Options that give the inputs of a bare program.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// Method to run, of a program with several.
    #[arg(long, default_value = "forward")]
    pub(crate) method: String,

    /// An input, by index, for a .pte file: `@FILE` (raw little-endian), numbers separated by commas, `zeros`, or
    /// `random`. Default: random floats between -1 and 1 (the same in every run), and integers 0.
    #[arg(long = "input", value_name = "INDEX=CONTENT")]
    inputs: Vec<Indexed<Content>>,

    /// The shape of an input, by index, for a .pte file, as in `0=1x5x4x16`. Default: the largest that it may have.
    #[arg(long = "shape", value_name = "INDEX=SIZES")]
    shapes: Vec<Indexed<Shape>>,
}

/// Something for one input.
#[derive(Clone, Debug)]
struct Indexed<T> {
    index: usize,
    value: T,
}

#[derive(Clone, Debug)]
enum Content {
    File(String),
    Numbers(Vec<f64>),
    Zeros,
    Random,
}

#[derive(Clone, Debug)]
struct Shape(Vec<u32>);

impl<T: FromStr<Err = anyhow::Error>> FromStr for Indexed<T> {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (index, value) = text.split_once('=').ok_or_else(|| anyhow!("wanted INDEX=..., got {text:?}"))?;
        let index = index.parse().map_err(|_| anyhow!("wanted the index of an input, got {index:?}"))?;
        Ok(Self { index, value: value.parse()? })
    }
}

impl FromStr for Content {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "zeros" => Self::Zeros,
            "random" => Self::Random,
            _ => match text.strip_prefix('@') {
                Some(path) => Self::File(path.to_owned()),
                None => Self::Numbers(numbers(text, ',')?),
            },
        })
    }
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Self(if text.is_empty() { vec![] } else { numbers(text, 'x')? }))
    }
}

fn numbers<T: FromStr>(text: &str, separator: char) -> Result<Vec<T>> {
    text.split(separator)
        .map(|number| {
            number.trim().parse().map_err(|_| anyhow!("wanted numbers with {separator:?} between, got {text:?}"))
        })
        .collect()
}

impl InputArgs {
    /// Whether any input or shape is given.
    pub(crate) fn are_given(&self) -> bool {
        !self.inputs.is_empty() || !self.shapes.is_empty()
    }

    /// The inputs of a graph.
    pub(crate) fn tensors(&self, graph: &Graph<'_>) -> Result<Vec<HostTensor>> {
        let contents = by_index(&self.inputs, graph)?;
        let shapes = by_index(&self.shapes, graph)?;
        let tensor = |(index, input): (usize, &GraphInput)| {
            let bound = graph.tensor(input.tensor).bound;
            let sizes = shapes.get(&index).map_or(bound.as_slice(), |Shape(sizes)| sizes.as_slice());
            // The session tells of all else; content beyond the bound is not even made.
            if elements(sizes).is_none_or(|count| Some(count) > elements(bound.as_slice())) {
                bail!("input {index}: wanted {}{bound} at most, got {sizes:?}", input.host_dtype);
            }
            let default = if input.host_dtype == DType::F32 { &Content::Random } else { &Content::Zeros };
            let content = contents.get(&index).copied().unwrap_or(default);
            content.tensor(index, input.host_dtype, sizes).with_context(|| format!("input {index}"))
        };
        graph.inputs.iter().enumerate().map(tensor).collect()
    }
}

fn by_index<'t, T>(given: &'t [Indexed<T>], graph: &Graph<'_>) -> Result<BTreeMap<usize, &'t T>> {
    let mut map = BTreeMap::new();
    for Indexed { index, value } in given {
        if *index >= graph.inputs.len() {
            bail!("there is no input {index}: the method has {}, counted from 0", graph.inputs.len());
        }
        if map.insert(*index, value).is_some() {
            bail!("input {index} is given twice");
        }
    }
    Ok(map)
}

impl Content {
    fn tensor(&self, index: usize, dtype: DType, sizes: &[u32]) -> Result<HostTensor> {
        let elements = elements(sizes).context("the shape is too large")?;
        let bytes = match self {
            Self::File(path) => std::fs::read(path).with_context(|| format!("cannot read {path}"))?,
            Self::Zeros => vec![0; elements * dtype.size_bytes()],
            Self::Random if dtype != DType::F32 => {
                bail!("random is for f32, and this is {dtype}: give numbers or @FILE")
            }
            Self::Random => bytes_of(dtype, random(index as u64).take(elements))?,
            Self::Numbers(numbers) if numbers.len() == elements => bytes_of(dtype, numbers.iter().copied())?,
            Self::Numbers(numbers) => bail!("wanted {elements} numbers for {sizes:?}, got {}", numbers.len()),
        };
        Ok(HostTensor::new(dtype, sizes, bytes)?)
    }
}

/// Seeded numbers between -1 and 1 (a SplitMix64 sequence), so that two runs are comparable.
fn random(seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    std::iter::from_fn(move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        Some((mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    })
}

fn elements(sizes: &[u32]) -> Option<usize> {
    sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size as usize))
}

/// The least and the largest whole number of a type, where it has only whole ones.
fn whole_numbers(dtype: DType) -> Option<[f64; 2]> {
    match dtype {
        DType::F32 | DType::F16 => None,
        DType::I32 => Some([i32::MIN.into(), i32::MAX.into()]),
        // The largest f64 below 2^63: the next one is 2^63 itself.
        DType::I64 => Some([i64::MIN as f64, (i64::MAX as f64).next_down()]),
        DType::U8 => Some([0.0, 255.0]),
        DType::I8 => Some([-128.0, 127.0]),
        DType::Bool => Some([0.0, 1.0]),
    }
}

fn bytes_of(dtype: DType, numbers: impl Iterator<Item = f64>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for number in numbers {
        let fits = |[least, most]: [f64; 2]| number.fract() == 0.0 && (least..=most).contains(&number);
        if !whole_numbers(dtype).is_none_or(fits) {
            bail!("wanted whole numbers that fit {dtype}, got {number}");
        }
        match dtype {
            DType::F32 => bytes.extend((number as f32).to_le_bytes()),
            DType::I32 => bytes.extend((number as i32).to_le_bytes()),
            DType::I64 => bytes.extend((number as i64).to_le_bytes()),
            DType::U8 | DType::Bool => bytes.push(number as u8),
            DType::I8 => bytes.extend((number as i8).to_le_bytes()),
            DType::F16 => bail!("f16 inputs are given as a file: @FILE"),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_repeat_and_differ_by_input() {
        let first: Vec<f64> = random(0).take(1000).collect();
        assert_eq!(first, random(0).take(1000).collect::<Vec<_>>());
        assert_ne!(first, random(1).take(1000).collect::<Vec<_>>());
        assert!(first.iter().all(|number| (-1.0..1.0).contains(number)));
        let mean = first.iter().sum::<f64>() / 1000.0;
        assert!(mean.abs() < 0.1, "{mean}");
    }

    #[test]
    fn integers_are_whole_and_fit() {
        let bytes = |dtype, number| bytes_of(dtype, [number].into_iter());
        assert_eq!(bytes(DType::I64, -2.0).unwrap(), (-2i64).to_le_bytes());
        assert_eq!(bytes(DType::U8, 255.0).unwrap(), [255]);
        for (dtype, number) in [
            (DType::I64, 1.5),
            (DType::I64, f64::NAN),
            (DType::I64, 2f64.powi(63)),
            (DType::I32, 3e9),
            (DType::U8, -1.0),
        ] {
            let error = bytes(dtype, number).unwrap_err().to_string();
            assert_eq!(error, format!("wanted whole numbers that fit {dtype}, got {number}"));
        }
    }

    #[test]
    fn content_and_shape_read_what_the_help_says() {
        let content = |text: &str| text.parse::<Indexed<Content>>();
        assert!(matches!(content("3=@a=b.bin").unwrap().value, Content::File(path) if path == "a=b.bin"));
        assert!(matches!(content("0=1,2.5").unwrap().value, Content::Numbers(numbers) if numbers == [1.0, 2.5]));
        assert_eq!("1=2x3".parse::<Indexed<Shape>>().unwrap().value.0, [2, 3]);
        assert!(content("zeros").unwrap_err().to_string().contains("INDEX="));
        assert!(content("0=abc").unwrap_err().to_string().contains("\"abc\""));
    }
}
