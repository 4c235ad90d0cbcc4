//! From logits to a token: the most likely one, or one drawn at random.

use anyhow::{Result, bail};
use clap::Args;
use fastrand::Rng;

/// Options that say how a token is chosen.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SamplingArgs {
    /// How freely tokens are drawn: 1 as the model has it, less for likelier ones. 0 always takes the likeliest.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, value_parser = temperature, allow_negative_numbers = true)]
    temperature: f64,

    /// Draw only from the likeliest tokens that together have this probability.
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, value_parser = top_p, allow_negative_numbers = true, requires = "temperature")]
    top_p: f64,

    /// What the draws follow from: the same seed gives the same text.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

fn temperature(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|value| (0.0..=100.0).contains(value)).ok_or_else(|| "wanted 0 to 100".into())
}

fn top_p(text: &str) -> Result<f64, String> {
    let is_share = |value: &f64| *value > 0.0 && *value <= 1.0;
    text.parse().ok().filter(is_share).ok_or_else(|| "wanted more than 0 and at most 1".into())
}

/// Chooses tokens.
#[derive(Debug)]
pub(crate) struct Sampler {
    temperature: f64,
    top_p: f64,
    rng: Rng,
    /// Tokens that may be drawn, with their weights; the memory is reused.
    candidates: Vec<(u32, f64)>,
}

impl Sampler {
    /// A sampler as the options say.
    pub(crate) fn new(args: &SamplingArgs) -> Self {
        let &SamplingArgs { temperature, top_p, seed } = args;
        Self { temperature, top_p, rng: Rng::with_seed(seed), candidates: Vec::new() }
    }

    /// Chooses what follows.
    pub(crate) fn choose(&mut self, logits: &[f32]) -> Result<u32> {
        let (likeliest, highest) = likeliest(logits)?;
        if self.temperature == 0.0 {
            return Ok(likeliest);
        }
        self.weigh(logits, highest);
        if self.top_p < 1.0 {
            self.keep_nucleus(logits.len());
        }
        let total: f64 = self.candidates.iter().map(|(_, weight)| weight).sum();
        let mut left = self.rng.f64() * total;
        for &(token, weight) in &self.candidates {
            left -= weight;
            if left < 0.0 {
                return Ok(token);
            }
        }
        // The sum of the weights was rounded: what is left over belongs to the last.
        Ok(self.candidates.last().map_or(likeliest, |&(token, _)| token))
    }

    /// The weight of every token: 1 for the likeliest.
    fn weigh(&mut self, logits: &[f32], highest: f32) {
        let temperature = self.temperature;
        let weight = |logit: f32| ((f64::from(logit) - f64::from(highest)) / temperature).exp();
        let weighed = logits.iter().enumerate().map(|(token, &logit)| (token as u32, weight(logit)));
        self.candidates.clear();
        self.candidates.extend(weighed.filter(|(_, weight)| *weight > 0.0));
    }

    /// Leaves the fewest candidates that together have the share `top_p`.
    fn keep_nucleus(&mut self, vocab_size: usize) {
        let total: f64 = self.candidates.iter().map(|(_, weight)| weight).sum();
        // What is less likely than this cannot be in the nucleus: all such tokens together do not reach 1 - top_p. So
        // few are left to sort.
        let least = (1.0 - self.top_p) * total / vocab_size as f64;
        self.candidates.retain(|(_, weight)| *weight >= least);
        self.candidates.sort_unstable_by(|(a_token, a), (b_token, b)| b.total_cmp(a).then(a_token.cmp(b_token)));
        let mut sum = 0.0;
        let kept = self.candidates.iter().position(|(_, weight)| {
            sum += weight;
            sum >= self.top_p * total
        });
        self.candidates.truncate(kept.map_or(self.candidates.len(), |last| last + 1));
    }
}

/// The token of the highest logit, the first of equal ones, and that logit.
fn likeliest(logits: &[f32]) -> Result<(u32, f32)> {
    let (highest, all_finite) = highest(logits);
    let strange = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
    if !all_finite && let Some(token) = logits.iter().position(strange) {
        bail!("the logit of token {token} is {}: no token can be chosen", logits[token]);
    }
    match logits.iter().position(|&logit| logit == highest) {
        Some(token) if highest > f32::NEG_INFINITY => Ok((token as u32, highest)),
        _ => bail!("no token has a finite logit: none can be chosen"),
    }
}

/// The highest of all that are numbers, and whether all are below infinity. It goes lane by lane, which the compiler turns into
/// vector instructions: one by one it takes longer than the kernels of a layer.
fn highest(logits: &[f32]) -> (f32, bool) {
    const LANES: usize = 16;
    let higher = |a: f32, b: f32| if b > a { b } else { a };
    let (chunks, rest) = logits.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let mut below_infinity = [true; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = higher(lanes[lane], chunk[lane]);
            below_infinity[lane] &= chunk[lane] < f32::INFINITY;
        }
    }
    let highest = lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, higher);
    (highest, below_infinity.iter().all(|&below| below) && rest.iter().all(|&logit| logit < f32::INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(temperature: f64, top_p: f64, seed: u64) -> Sampler {
        Sampler::new(&SamplingArgs { temperature, top_p, seed })
    }

    #[test]
    fn greedy_takes_the_first_of_the_highest() {
        assert_eq!(sampler(0.0, 1.0, 7).choose(&[0.5, 2.0, -1.0, 2.0]).unwrap(), 1);
        // In a whole block of lanes, and behind the last one.
        for token in [0, 17, 31, 39] {
            let mut logits = [0.25; 40];
            logits[token] = 0.5;
            assert_eq!(sampler(0.0, 1.0, 7).choose(&logits).unwrap() as usize, token);
        }
        let error = |logits: &[f32]| sampler(0.0, 1.0, 0).choose(logits).unwrap_err().to_string();
        assert_eq!(error(&[f32::INFINITY, 0.0]), "the logit of token 0 is inf: no token can be chosen");
        assert_eq!(error(&[0.0, f32::NAN]), "the logit of token 1 is NaN: no token can be chosen");
        assert_eq!(error(&[f32::NEG_INFINITY; 3]), "no token has a finite logit: none can be chosen");
        assert_eq!(error(&[]), "no token has a finite logit: none can be chosen");
    }

    #[test]
    fn draws_have_the_model_s_shares_and_follow_from_the_seed() {
        let logits = [0.6f32.ln(), 0.3f32.ln(), 0.1f32.ln(), f32::NEG_INFINITY];
        let draw = |seed| {
            let mut sampler = sampler(1.0, 1.0, seed);
            (0..10_000).map(|_| sampler.choose(&logits).unwrap()).collect::<Vec<u32>>()
        };
        let drawn = draw(1);
        for (token, share) in [0.6, 0.3, 0.1, 0.0].into_iter().enumerate() {
            let count = drawn.iter().filter(|&&drawn| drawn == token as u32).count() as f64;
            assert!((count / 10_000.0 - share).abs() < 0.02, "{token}: {count}");
        }
        assert_eq!(drawn, draw(1));
        assert_ne!(drawn, draw(2));
    }

    #[test]
    fn a_low_temperature_is_nearly_greedy() {
        let mut sampler = sampler(0.01, 1.0, 3);
        assert!((0..1000).all(|_| sampler.choose(&[1.0, 1.2, 0.9]).unwrap() == 1));
    }

    #[test]
    fn top_p_leaves_the_likeliest() {
        let logits: Vec<f32> = [0.05f32, 0.5, 0.05, 0.3, 0.1].iter().map(|share| share.ln()).collect();
        for (top_p, wanted) in [(0.4, &[1][..]), (0.51, &[1, 3]), (0.79, &[1, 3]), (0.85, &[1, 3, 4])] {
            let mut sampler = sampler(1.0, top_p, 5);
            let mut drawn: Vec<u32> = (0..2000).map(|_| sampler.choose(&logits).unwrap()).collect();
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn, wanted, "{top_p}");
        }
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused() {
        assert_eq!((temperature("0"), temperature("0.7")), (Ok(0.0), Ok(0.7)));
        assert!(["-1", "NaN", "inf", "warm"].iter().all(|text| temperature(text).is_err()));
        assert_eq!((top_p("1"), top_p("0.05")), (Ok(1.0), Ok(0.05)));
        assert!(["0", "1.01", "NaN", "-0.5"].iter().all(|text| top_p(text).is_err()));
    }
}
