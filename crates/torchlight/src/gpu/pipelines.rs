//! Pipelines and bind groups of a plan, made once.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::pipeline_cache::PipelineCache;
use crate::kernels::{Access, Bounds, Kernel, Variant};
use crate::plan::{BufferId, Plan};

/// The pipelines that were made on a device: sessions that use the same variants share them.
#[derive(Debug, Default)]
pub(super) struct Cache {
    made: Mutex<HashMap<Key, Pipeline>>,
    /// The driver's, which knows pipelines of earlier processes.
    driver: Option<PipelineCache>,
}

/// A variant, and how it is compiled.
type Key = (Variant, BoundsChecks);

/// Which kernels the compiler checks the bounds of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BoundsChecks {
    /// Those that do not argue for their own.
    #[default]
    WhereNeeded,
    /// All, for tests: slower.
    Everywhere,
}

impl Cache {
    /// A cache over the driver's.
    pub(super) fn over(driver: PipelineCache) -> Self {
        Self { driver: Some(driver), ..Self::default() }
    }

    /// What the driver compiled, sealed.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        self.driver.as_ref()?.bytes()
    }

    /// The pipeline of a variant, where it was kept.
    pub(super) fn known(&self, variant: &Variant, checks: BoundsChecks) -> Option<Pipeline> {
        self.lock().get(&(variant.clone(), checks)).cloned()
    }

    /// Keeps a pipeline, once it is known that the driver took it.
    pub(super) fn keep(&self, variant: &Variant, checks: BoundsChecks, pipeline: &Pipeline) {
        self.lock().insert((variant.clone(), checks), pipeline.clone());
    }

    /// Compiles a variant, with the compiler's bounds checks wherever `checks` or the kernel asks for them. Errors reach the
    /// caller's error scope.
    pub(super) fn compile(&self, device: &wgpu::Device, variant: &Variant, checks: BoundsChecks) -> Pipeline {
        let label = Some(variant.label);
        let entries = layout_entries(variant.kernel);
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let source = wgpu::ShaderSource::Wgsl(variant.source().into());
        let descriptor = wgpu::ShaderModuleDescriptor { label, source };
        let module = match variant.kernel.bounds {
            Bounds::Argued if checks == BoundsChecks::WhereNeeded => unchecked_module(device, descriptor),
            Bounds::Argued | Bounds::Checked => device.create_shader_module(descriptor),
        };
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some("main"),
            // Kernels write workgroup memory before they read it: a zero fill would be work for nothing.
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: self.driver.as_ref().map(PipelineCache::driver),
        });
        Pipeline { pipeline, layout }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Pipeline>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One pipeline a kernel variant, and the layout that its bind groups share.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(super) pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

#[allow(unsafe_code, reason = "wgpu makes shaders without bounds checks unsafe")]
fn unchecked_module(device: &wgpu::Device, descriptor: wgpu::ShaderModuleDescriptor<'_>) -> wgpu::ShaderModule {
    // SAFETY: only kernels with Bounds::Argued come here. Their text is part of this crate, none of it is the caller's;
    // each says under `Bounds:` why every index stays inside its buffer and every loop ends, given params that the plan
    // computes from shapes it has checked. Tests run all of them with checks as well.
    unsafe { device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) }
}

fn layout_entries(kernel: &Kernel) -> Vec<wgpu::BindGroupLayoutEntry> {
    let entry = |binding, ty, has_dynamic_offset, min_binding_size| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset, min_binding_size },
        count: None,
    };
    let params = entry(0, wgpu::BufferBindingType::Uniform, true, NonZeroU64::new(params_binding_bytes(kernel)));
    let storage = |(index, access): (usize, &Access)| {
        let ty = wgpu::BufferBindingType::Storage { read_only: *access == Access::Read };
        entry(index as u32 + 1, ty, false, None)
    };
    std::iter::once(params).chain(kernel.bindings.iter().enumerate().map(storage)).collect()
}

/// Uniform bindings are a multiple of 16 bytes in WGSL's layout.
fn params_binding_bytes(kernel: &Kernel) -> u64 {
    u64::from(kernel.params_bytes).next_multiple_of(16)
}

/// The bind group of a dispatch: its params slot by dynamic offset, then its buffers whole.
pub(super) fn bind_group(
    device: &wgpu::Device,
    (plan, pipelines): (&Plan, &[Pipeline]),
    (params, buffers): (&wgpu::Buffer, &[wgpu::Buffer]),
    dispatch: &crate::plan::Dispatch,
) -> wgpu::BindGroup {
    let variant = plan.variant(dispatch.variant);
    let params =
        wgpu::BufferBinding { buffer: params, offset: 0, size: NonZeroU64::new(params_binding_bytes(variant.kernel)) };
    let storage = |(index, id): (usize, &BufferId)| wgpu::BindGroupEntry {
        binding: index as u32 + 1,
        resource: buffers[id.index()].as_entire_binding(),
    };
    let entries: Vec<wgpu::BindGroupEntry<'_>> =
        std::iter::once(wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(params) })
            .chain(dispatch.buffers.iter().enumerate().map(storage))
            .collect();
    device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(variant.label),
        layout: &pipelines[dispatch.variant.index()].layout,
        entries: &entries,
    })
}
