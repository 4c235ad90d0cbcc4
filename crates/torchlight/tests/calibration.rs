//! The kernels that measure a device compute what their references say, and their figures are sane.

mod harness;

use harness::gpu;

#[test]
fn a_device_copies_and_computes_at_some_speed() {
    let peaks = torchlight::calibrate(gpu()).unwrap();
    // From a slow software adapter to well beyond the fastest device there is.
    assert!((0.01..100_000.0).contains(&peaks.copy_gbps), "{peaks:?}");
    assert!((0.01..10_000_000.0).contains(&peaks.f32_gflops), "{peaks:?}");
}
