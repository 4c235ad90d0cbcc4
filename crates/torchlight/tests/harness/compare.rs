//! Comparison within a tolerance, with messages that give the numbers.

use std::fmt::Display;

/// How far an element may be off: it passes within `absolute`, or within `relative` of the wanted value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    pub(crate) absolute: f64,
    pub(crate) relative: f64,
}

/// What f32 arithmetic is held to against f64.
pub(crate) const F32: Tolerance = Tolerance { absolute: 1e-5, relative: 1e-4 };

/// What arithmetic over f16 caches is held to, against f64 over the same caches.
pub(crate) const F16: Tolerance = Tolerance { absolute: 2e-3, relative: 1e-2 };

/// Not a bit may differ from what f64 arithmetic gives, rounded to f32.
pub(crate) const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0 };

/// What is wrong with `got`, or nothing. NaN never passes; equal infinities do.
pub(crate) fn difference(got: &[f32], wanted: &[f64], tolerance: Tolerance) -> Option<String> {
    if got.len() != wanted.len() {
        return Some(format!("{} elements, wanted {}", got.len(), wanted.len()));
    }
    let passes = |&(_, (&got, &wanted)): &(usize, (&f32, &f64))| {
        let error = (f64::from(got) - wanted).abs();
        let equal = f64::from(got) == wanted;
        equal || error <= tolerance.absolute || error <= tolerance.relative * wanted.abs()
    };
    let mut wrong = got.iter().zip(wanted).enumerate().filter(|element| !passes(element)).peekable();
    let &(index, (first_got, first_wanted)) = wrong.peek()?;
    let count = wrong.count();
    Some(format!("{count} of {} elements; the first is {index}: {first_got}, wanted {first_wanted}", got.len()))
}

/// Fails with the case's name where `got` is not within the tolerance.
#[track_caller]
pub(crate) fn assert_close(case: impl Display, got: &[f32], wanted: &[f64], tolerance: Tolerance) {
    if let Some(difference) = difference(got, wanted, tolerance) {
        panic!("{case}: {difference}");
    }
}

/// Fails with the case's name where two results differ in a bit.
#[track_caller]
pub(crate) fn assert_same_bits(case: impl Display, got: &[f32], wanted: &[f32]) {
    assert_eq!(got.len(), wanted.len(), "{case}: number of elements");
    for (index, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        assert_eq!(got.to_bits(), wanted.to_bits(), "{case}: element {index} is {got}, wanted {wanted}");
    }
}

/// As f64, without a change.
pub(crate) fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}
