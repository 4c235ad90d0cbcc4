//! One dispatch of a kernel by itself, of operators that no graph has alone.

use bytemuck::Pod;
use torchlight::Gpu;
use torchlight::kernels::{Grid, Variant};

/// Runs a variant over buffers from binding 1 on, the last of them new, and gives the elements of that one. They begin as
/// NaN.
pub(crate) fn dispatch(
    gpu: &Gpu,
    (variant, workgroups): (&Variant, u64),
    params: &impl Pod,
    inputs: &[&[u8]],
    elements: usize,
) -> Vec<f32> {
    let device = gpu.device();
    let size_bytes = (elements * 4) as u64;
    let uniform = buffer(gpu, bytemuck::bytes_of(params), wgpu::BufferUsages::UNIFORM);
    let storage = wgpu::BufferUsages::STORAGE;
    let mut buffers: Vec<wgpu::Buffer> = inputs.iter().map(|bytes| buffer(gpu, bytes, storage)).collect();
    buffers.push(buffer(gpu, &[0xff].repeat(elements * 4), storage | wgpu::BufferUsages::COPY_SRC));
    let read = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: size_bytes,
        usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
        mapped_at_creation: false,
    });
    let (pipeline, layout) = pipeline(device, variant);
    let bindings = std::iter::once(&uniform).chain(&buffers).enumerate();
    let entries: Vec<wgpu::BindGroupEntry<'_>> = bindings
        .map(|(index, buffer)| wgpu::BindGroupEntry { binding: index as u32, resource: buffer.as_entire_binding() })
        .collect();
    let group =
        device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        let grid = Grid::fold(workgroups, 65535).unwrap();
        pass.dispatch_workgroups(grid.x, grid.y, 1);
    }
    encoder.copy_buffer_to_buffer(&buffers[buffers.len() - 1], 0, &read, 0, size_bytes);
    gpu.queue().submit([encoder.finish()]);
    read.map_async(wgpu::MapMode::Read, .., |result| result.unwrap());
    gpu.wait().unwrap();
    let bytes = read.get_mapped_range(..).unwrap().to_vec();
    let (elements, []) = bytes.as_chunks::<4>() else { panic!("no f32") };
    elements.iter().map(|element| f32::from_le_bytes(*element)).collect()
}

/// A buffer of so many bytes, and as many more as a load of four needs.
fn buffer(gpu: &Gpu, bytes: &[u8], usage: wgpu::BufferUsages) -> wgpu::Buffer {
    let buffer = gpu.device().create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: (bytes.len() as u64).next_multiple_of(16),
        usage,
        mapped_at_creation: true,
    });
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(16), 0xff);
    buffer.get_mapped_range_mut(..).unwrap().copy_from_slice(&padded);
    buffer.unmap();
    buffer
}

/// With the compiler's checks, so that an index which leaves its buffer reads or writes elsewhere, and shows.
fn pipeline(device: &wgpu::Device, variant: &Variant) -> (wgpu::ComputePipeline, wgpu::BindGroupLayout) {
    let source = wgpu::ShaderSource::Wgsl(variant.source().into());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    let storage = (1..).zip(variant.kernel.bindings).map(|(binding, access)| {
        let read_only = *access == torchlight::kernels::Access::Read;
        (binding, wgpu::BufferBindingType::Storage { read_only })
    });
    let entries: Vec<wgpu::BindGroupLayoutEntry> = std::iter::once((0, wgpu::BufferBindingType::Uniform))
        .chain(storage)
        .map(|(binding, ty)| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
            count: None,
        })
        .collect();
    let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
    let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    (pipeline, layout)
}
