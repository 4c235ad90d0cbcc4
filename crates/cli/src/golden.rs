//! How far a result is from its golden.

use anyhow::{Result, bail};
use serde::Serialize;
use torchlight::{DType, HostTensor};

/// What is close enough: an element passes within either.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Tolerance {
    /// Absolute difference.
    pub(crate) absolute: f64,
    /// Difference over the golden's magnitude.
    pub(crate) relative: f64,
}

/// How far a tensor is from its golden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// The largest absolute difference.
    pub(crate) max_absolute: f64,
    /// The largest relative difference, over elements whose golden is not 0.
    pub(crate) max_relative: f64,
    /// Elements that pass neither tolerance, NaN included.
    pub(crate) failed: usize,
    /// All elements.
    pub(crate) elements: usize,
}

impl Difference {
    /// This and another difference together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            max_absolute: largest(self.max_absolute, other.max_absolute),
            max_relative: largest(self.max_relative, other.max_relative),
            failed: self.failed + other.failed,
            elements: self.elements + other.elements,
        }
    }
}

/// The larger of two, where NaN is larger than all.
fn largest(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// Compares a result with its golden.
pub(crate) fn compare(got: &HostTensor, golden: &HostTensor, tolerance: Tolerance) -> Result<Difference> {
    if (got.dtype(), got.dims()) != (golden.dtype(), golden.dims()) {
        let (a, b) = (golden.dtype(), golden.dims());
        bail!("the golden is {a}{b}, and the program gives {}{}", got.dtype(), got.dims());
    }
    let difference = match got.dtype() {
        DType::F32 => differences(
            got.to_f32()?.into_iter().map(f64::from),
            golden.to_f32()?.into_iter().map(f64::from),
            tolerance,
        ),
        // Integers have no rounding: they are equal, byte for byte, or not.
        dtype => {
            let size = dtype.size_bytes();
            let pairs = got.bytes().chunks(size).zip(golden.bytes().chunks(size));
            let failed = pairs.filter(|(got, golden)| got != golden).count();
            let elements = got.bytes().len() / size;
            let max_absolute = if failed > 0 { f64::NAN } else { 0.0 };
            Difference { max_absolute, max_relative: max_absolute, failed, elements }
        }
    };
    Ok(difference)
}

fn differences(got: impl Iterator<Item = f64>, golden: impl Iterator<Item = f64>, tolerance: Tolerance) -> Difference {
    got.zip(golden).fold(Difference::default(), |all, (got, golden)| {
        // Equal infinities differ by nothing, though their difference is NaN.
        let absolute = if got == golden { 0.0 } else { (got - golden).abs() };
        let relative = if absolute == 0.0 { 0.0 } else { absolute / golden.abs() };
        let passed = absolute <= tolerance.absolute || relative <= tolerance.relative;
        all.and(Difference {
            max_absolute: absolute,
            max_relative: if golden == 0.0 && !absolute.is_nan() { 0.0 } else { relative },
            failed: usize::from(!passed),
            elements: 1,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Tolerance = Tolerance { absolute: 1e-5, relative: 1e-4 };

    fn failed(got: f32, golden: f32) -> usize {
        let tensor = |value: f32| HostTensor::new(DType::F32, &[1], value.to_le_bytes().to_vec()).unwrap();
        compare(&tensor(got), &tensor(golden), TOLERANCE).unwrap().failed
    }

    #[test]
    fn an_element_passes_on_either_tolerance_and_nan_fails() {
        assert_eq!(failed(0.000_009, 0.0), 0);
        assert_eq!(failed(1000.05, 1000.0), 0);
        assert_eq!(failed(1000.2, 1000.0), 1);
        assert_eq!(failed(f32::NAN, 0.0), 1);
        assert_eq!(failed(0.0, f32::NAN), 1);
        assert_eq!(failed(f32::INFINITY, f32::INFINITY), 0);
        assert_eq!(failed(f32::INFINITY, 1.0), 1);
    }

    #[test]
    fn shapes_and_integers_must_be_equal() {
        let ints = |values: [i64; 2]| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            HostTensor::new(DType::I64, &[2], bytes).unwrap()
        };
        assert_eq!(compare(&ints([1, 2]), &ints([1, 3]), TOLERANCE).unwrap().failed, 1);
        let float = HostTensor::new(DType::F32, &[1], vec![0; 4]).unwrap();
        let error = compare(&float, &ints([1, 2]), TOLERANCE).unwrap_err().to_string();
        assert_eq!(error, "the golden is i64[2], and the program gives f32[1]");
    }
}
