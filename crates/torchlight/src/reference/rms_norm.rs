//! `rms_norm`: rows divided by the root of their mean square, times a weight.

/// The rows of `x`, each as long as `weight`.
pub fn reference(eps: f32, x: &[f32], weight: &[f32]) -> Vec<f64> {
    let row = |row: &[f32]| {
        let squares: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        let root = (squares / row.len() as f64 + f64::from(eps)).sqrt();
        row.iter().zip(weight).map(|(&x, &w)| f64::from(x) / root * f64::from(w)).collect::<Vec<f64>>()
    };
    x.chunks(weight.len()).flat_map(row).collect()
}
