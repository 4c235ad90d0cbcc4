//! `calibrate_copy`: a copy.

/// The destination.
pub fn reference(source: &[f32]) -> Vec<f32> {
    source.to_vec()
}
