//! Numbers to attend to, the same in every run, each of which f16 holds exactly: rounding a cache changes nothing of them.

use super::shapes::Shape;

/// Bytes between the caches of two pairs: they begin at different places of the same numbers.
const STRIDE_BYTES: usize = 64;

/// Little-endian f32 numbers between -1 and 1.
pub(crate) struct Data {
    bytes: Vec<u8>,
}

impl Data {
    /// Enough of them for every shape with so many K/V pairs.
    pub(crate) fn new(shapes: &[Shape], pairs: usize) -> Self {
        let largest = |shape: &Shape| {
            let problem = shape.problem();
            (2 * problem.context_elements()).max(problem.query_elements())
        };
        let elements = shapes.iter().map(largest).max().unwrap_or(0) as usize;
        Self { bytes: numbers().take(elements + pairs * STRIDE_BYTES / 4).flat_map(f32::to_le_bytes).collect() }
    }

    /// The queries of a shape.
    pub(crate) fn q(&self, shape: &Shape) -> Vec<f32> {
        floats(&self.bytes[..4 * shape.problem().query_elements() as usize]).collect()
    }

    /// Keys and values of a pair, each pair with bytes of its own: equal bytes would share a buffer.
    pub(crate) fn pair(&self, shape: &Shape, pair: usize) -> [&[u8]; 2] {
        let cache_bytes = 4 * shape.problem().context_elements() as usize;
        let first = pair * STRIDE_BYTES;
        [&self.bytes[first..first + cache_bytes], &self.bytes[first + cache_bytes..first + 2 * cache_bytes]]
    }
}

/// The numbers of some bytes.
pub(crate) fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// Seeded multiples of 1/1024 from -1 up to 1.
pub(crate) fn numbers() -> impl Iterator<Item = f32> {
    seeded().map(|bits| (bits >> 53) as f32 / 1024.0 - 1.0)
}

/// Seeded bytes of any value.
pub(crate) fn random_bytes() -> impl Iterator<Item = u8> {
    seeded().flat_map(|bits| (bits >> 32).to_le_bytes().into_iter().take(4))
}

/// Numbers of which the upper half is as good as any for this.
fn seeded() -> impl Iterator<Item = u64> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    std::iter::from_fn(move || {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        Some(state.wrapping_mul(0x2545_F491_4F6C_DD1D))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_and_short() {
        let numbers: Vec<f32> = numbers().take(10_000).collect();
        let mean = numbers.iter().sum::<f32>() / 10_000.0;
        let square = numbers.iter().map(|number| number * number).sum::<f32>() / 10_000.0;
        assert!(mean.abs() < 0.02 && (square - 1.0 / 3.0).abs() < 0.01, "{mean}, {square}");
        assert!(numbers.iter().all(|number| (number * 1024.0).fract() == 0.0 && (-1.0..1.0).contains(number)));
    }
}
