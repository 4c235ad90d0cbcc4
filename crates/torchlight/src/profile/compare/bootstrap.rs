//! How well a median is known: medians of resamples, drawn from their exact distribution.

use fastrand::Rng;

/// Durations, of which resampled medians are drawn.
///
/// A bootstrap draws n of n durations with replacement and takes their median, again and again. Here the median is drawn
/// at once. A draw with replacement is a uniform number times n, rounded down to an index into the sorted durations, and
/// rounding keeps the order: the m-th smallest of the draws is the duration at the m-th smallest of n uniform numbers,
/// which has the distribution Beta(m, n + 1 - m). The next one is the smallest of the n - m numbers between it and 1. So a
/// resample costs the same for 8 durations and for 4096.
#[derive(Debug)]
pub(super) struct Resampler {
    sorted: Vec<f64>,
}

impl Resampler {
    /// Takes the durations that are a time: finite, and more than 0.
    pub(super) fn new(durations: &[f64]) -> Self {
        let mut sorted: Vec<f64> =
            durations.iter().copied().filter(|duration| duration.is_finite() && *duration > 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        Self { sorted }
    }

    /// How many durations there are.
    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The median, where there is a duration: of an even number of durations the mean of the two in the middle, since the
    /// lower alone would make intervals of few durations lopsided.
    pub(super) fn median(&self) -> Option<f64> {
        let upper = self.sorted.get(self.len() / 2)?;
        let lower = self.sorted.get((self.len() - 1) / 2)?;
        Some(f64::midpoint(*lower, *upper))
    }

    /// The median of a resample, where there is a duration.
    pub(super) fn resampled_median(&self, random: &mut Rng) -> Option<f64> {
        let last = self.len().checked_sub(1)?;
        let count = self.len() as f64;
        let at = |uniform: f64| self.sorted.get(((uniform * count) as usize).min(last)).copied();
        let rank = self.len().div_ceil(2) as f64;
        let (below, above) = (gamma(rank, random), gamma(count + 1.0 - rank, random));
        let lower = below / (below + above);
        if self.len() % 2 == 1 {
            return at(lower);
        }
        let upper = 1.0 - (1.0 - lower) * (1.0 - random.f64()).powf(1.0 / (count - rank));
        Some(f64::midpoint(at(lower)?, at(upper)?))
    }
}

/// A number of the gamma distribution with this shape, at least 1, by the method of Marsaglia and Tsang.
fn gamma(shape: f64, random: &mut Rng) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let v = (1.0 + c * x).powi(3);
        // 1 - f64() is never 0, so its logarithm is finite.
        if v > 0.0 && (1.0 - random.f64()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// A number of the standard normal distribution, by the method of Box and Muller.
pub(super) fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of 1, 1.5, 2, ... is the median, over many resamples.
    fn frequencies(count: usize, mut median: impl FnMut() -> f64) -> Vec<f64> {
        const RESAMPLES: usize = 100_000;
        let mut frequencies = vec![0.0; 2 * count - 1];
        (0..RESAMPLES).for_each(|_| frequencies[(2.0 * median()) as usize - 2] += 1.0 / RESAMPLES as f64);
        frequencies
    }

    #[test]
    fn resampled_medians_are_those_of_drawing_with_replacement() {
        for count in [1, 2, 3, 8, 9, 40] {
            let values: Vec<f64> = (1..=count).map(|value| value as f64).collect();
            let resampler = Resampler::new(&values);
            let mut random = Rng::with_seed(1);
            let fast = frequencies(count, || resampler.resampled_median(&mut random).unwrap());
            let mut random = Rng::with_seed(2);
            let slow = frequencies(count, || {
                let drawn: Vec<f64> = (0..count).map(|_| values[random.usize(..count)]).collect();
                Resampler::new(&drawn).median().unwrap()
            });
            for (index, (fast, slow)) in fast.iter().zip(&slow).enumerate() {
                assert!((fast - slow).abs() < 0.008, "{count} durations, index {index}: {fast} and {slow}");
            }
        }
    }

    #[test]
    fn the_median_is_of_what_is_a_time() {
        assert_eq!(Resampler::new(&[3.0, 1.0, 2.0, 4.0]).median(), Some(2.5));
        assert_eq!(Resampler::new(&[3.0, 1.0, 2.0]).median(), Some(2.0));
        let odd = Resampler::new(&[f64::NAN, -1.0, 0.0, f64::INFINITY, 5.0]);
        assert_eq!((odd.len(), odd.median()), (1, Some(5.0)));
        let nothing = Resampler::new(&[0.0]);
        assert_eq!((nothing.median(), nothing.resampled_median(&mut Rng::with_seed(1))), (None, None));
    }
}
