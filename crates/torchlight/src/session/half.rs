//! Caches of 16-bit floats on the device are caches of 32-bit floats to the caller.

use half::f16;

const LARGEST: f32 = 65504.0;

/// Rounds f32 bytes to f16 bytes, by the rule of [`KvType::F16`](crate::kernels::KvType::F16).
pub(super) fn narrow(bytes: &[u8]) -> Vec<u8> {
    let (values, _) = bytes.as_chunks::<4>();
    let round = |bytes: &[u8; 4]| f16::from_f32(f32::from_le_bytes(*bytes).clamp(-LARGEST, LARGEST)).to_le_bytes();
    values.iter().flat_map(round).collect()
}

/// Turns f16 bytes into f32 bytes: every f16 is an f32.
pub(super) fn widen(bytes: &[u8]) -> Vec<u8> {
    let (values, _) = bytes.as_chunks::<2>();
    values.iter().flat_map(|bytes| f16::from_le_bytes(*bytes).to_f32().to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_saturate_and_come_back() {
        let cases = [
            (1.0, 1.0),
            (-0.0, -0.0),
            (65504.0, 65504.0),
            (65520.0, 65504.0),
            (-1e9, -65504.0),
            (f32::INFINITY, 65504.0),
            (f32::NEG_INFINITY, -65504.0),
            // Half way between two halves: the even one.
            (2049.0, 2048.0),
            (2051.0, 2052.0),
            (6e-8, 5.9604645e-8),
            (1e-9, 0.0),
        ];
        for (value, wanted) in cases {
            let back = widen(&narrow(&f32::to_le_bytes(value)));
            assert_eq!(back, f32::to_le_bytes(wanted), "{value}");
        }
        let back = widen(&narrow(&f32::NAN.to_le_bytes()));
        assert!(f32::from_le_bytes(back.try_into().unwrap()).is_nan());
    }
}
