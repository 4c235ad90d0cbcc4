//! `calibrate_fma`: the sum of eight chains of multiply-adds, eight a turn.

/// The lane that an invocation writes.
pub fn reference(iterations: u32, invocation: u32) -> [f64; 4] {
    [f64::from(invocation % 64), 1.0, 2.0, 3.0].map(|term| {
        let chain = |start: f64| (0..8 * iterations).fold(start, |value, _| 0.5 * value + term);
        (0..8).map(|offset| chain(term + f64::from(offset))).sum()
    })
}
