//! What the tests share: devices, seeded data, comparison within a tolerance, case folders, attention step by step.
#![allow(dead_code, reason = "every test binary uses its own part")]

pub(crate) mod attention;
pub(crate) mod case;
pub(crate) mod compare;
pub(crate) mod dispatch;

use std::sync::OnceLock;

use torchlight::{Gpu, GpuOptions, HostTensor, Input, LimitsChoice, Output, Session};

/// The device that this test binary runs on. No adapter is a failure, not a reason to skip.
pub(crate) fn gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| open(LimitsChoice::Adapter))
}

/// The same adapter with WebGPU's default limits and no optional feature.
pub(crate) fn modest_gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| open(LimitsChoice::WebGpuDefaults))
}

fn open(limits: LimitsChoice) -> Gpu {
    Gpu::open_blocking(&GpuOptions { limits, experimental: true, ..Default::default() })
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Numbers from -1 to 1.
pub(crate) fn random(rng: &mut fastrand::Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.f32() * 2.0 - 1.0).collect()
}

/// A generator that follows from the name of a case alone.
pub(crate) fn rng(case: &str) -> fastrand::Rng {
    // FNV-1a: the standard library's hashers may change from release to release.
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    fastrand::Rng::with_seed(case.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// Little-endian bytes.
pub(crate) fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The tensor outputs of a run, in order.
pub(crate) fn tensors(outputs: &[Output]) -> Vec<&HostTensor> {
    outputs.iter().filter_map(Output::tensor).collect()
}

/// Runs a session whose one tensor output is f32, and gives its elements.
pub(crate) fn run_f32(session: &mut Session, inputs: &[&HostTensor]) -> torchlight::Result<Vec<f32>> {
    let inputs: Vec<Input<'_>> = inputs.iter().map(|&tensor| tensor.into()).collect();
    let outputs = session.run(&inputs)?;
    tensors(&outputs)[0].to_f32()
}

/// An owned f32 tensor.
pub(crate) fn f32_tensor(sizes: &[u32], values: &[f32]) -> HostTensor {
    HostTensor::new(torchlight::DType::F32, sizes, bytes(values)).unwrap_or_else(|error| panic!("{error}"))
}

/// An owned i64 tensor.
pub(crate) fn i64_tensor(sizes: &[u32], values: &[i64]) -> HostTensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    HostTensor::new(torchlight::DType::I64, sizes, bytes).unwrap_or_else(|error| panic!("{error}"))
}
