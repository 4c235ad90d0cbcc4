//! The cache of pipelines as bytes: it comes back from an earlier device, and what is no such cache does no harm.

use torchlight::{DType, Gpu, GpuOptions, GraphBuilder, Input, LimitsChoice, Session, SessionOptions, TensorView};

fn open(pipeline_cache: Option<Vec<u8>>, limits: LimitsChoice) -> Gpu {
    Gpu::open_blocking(&GpuOptions { pipeline_cache, limits, ..GpuOptions::default() }).unwrap()
}

/// Compiles a few kernels and runs them.
fn run(gpu: &Gpu) {
    let mut graph = GraphBuilder::new("a few kernels");
    let x = graph.input(DType::F32, &[4]).unwrap();
    let sum = graph.add(x, x, 1.0).unwrap();
    let product = graph.mul(sum, x).unwrap();
    graph.output(product);
    let mut session = Session::new(gpu, &graph.finish().unwrap(), SessionOptions::default()).unwrap();
    let outputs = session.run(&[Input::Host(TensorView::f32(&[4], &[1.0, 2.0, 3.0, 4.0]).unwrap())]).unwrap();
    assert_eq!(outputs[0].tensor().unwrap().to_f32().unwrap(), [2.0, 8.0, 18.0, 32.0]);
}

/// What a device that began with nothing gives out.
fn filled() -> Vec<u8> {
    let gpu = open(Some(Vec::new()), LimitsChoice::Adapter);
    assert_eq!((gpu.notice(), gpu.facts().backend.as_str()), (None, "vulkan"), "wgpu has caches for Vulkan");
    run(&gpu);
    gpu.pipeline_cache().unwrap()
}

#[test]
fn what_was_given_out_is_taken_back_without_a_word() {
    let bytes = filled();
    let gpu = open(Some(bytes), LimitsChoice::Adapter);
    assert_eq!(gpu.notice(), None);
    run(&gpu);
    // What that gives out is taken back as well.
    let again = open(gpu.pipeline_cache(), LimitsChoice::Adapter);
    assert_eq!(again.notice(), None);
}

#[test]
fn what_is_no_cache_is_not_used_and_everything_runs() {
    let bytes = filled();
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut of_another_adapter = bytes.clone();
    of_another_adapter[8] ^= 1;
    let cases: [(&[u8], &str); 5] = [
        (b"x", "cut off"),
        (&[0; 1000], "no cache of this version"),
        (&bytes[..bytes.len() - 1], "cut off or damaged"),
        (&damaged, "cut off or damaged"),
        (&of_another_adapter, "another adapter, driver or version"),
    ];
    for (bytes, why) in cases {
        let gpu = open(Some(bytes.to_vec()), LimitsChoice::Adapter);
        let notice = gpu.notice().unwrap_or_else(|| panic!("no notice: {why}"));
        assert!(notice.starts_with("the pipeline cache is not used: ") && notice.contains(why), "{notice}");
        run(&gpu);
        assert!(gpu.pipeline_cache().is_some());
    }
}

#[test]
fn where_none_is_kept_there_is_none() {
    let gpu = open(None, LimitsChoice::Adapter);
    run(&gpu);
    assert_eq!((gpu.pipeline_cache(), gpu.notice()), (None, None));
    let modest = open(Some(filled()), LimitsChoice::WebGpuDefaults);
    assert!(modest.notice().unwrap().starts_with("no pipeline cache is kept on "), "{:?}", modest.notice());
    run(&modest);
    assert_eq!(modest.pipeline_cache(), None);
}
