//! `calibrate_matrix`: the sum of four products, eight times a turn.

/// The matrix that every subgroup writes, row by row.
pub fn reference(iterations: u32) -> Vec<f64> {
    // The operands are what f16 makes of the formula: the factor is rounded, and the product again.
    let factor = half::f16::from_f32(0.02);
    let operand = |index: u32| {
        let whole = half::f16::from_f32((index * 37 % 101) as f32 - 50.0);
        f64::from(whole * factor)
    };
    let element = |matrix: u32, row: u32, column: u32| operand(matrix * 256 + row * 16 + column);
    let product = |row: u32, column: u32, a: u32, b: u32| -> f64 {
        (0..16).map(|inner| element(a, row, inner) * element(b, inner, column)).sum()
    };
    let sum =
        |row, column| -> f64 { [(0, 2), (0, 3), (1, 2), (1, 3)].map(|(a, b)| product(row, column, a, b)).iter().sum() };
    (0..256).map(|index| 8.0 * f64::from(iterations) * sum(index / 16, index % 16)).collect()
}
