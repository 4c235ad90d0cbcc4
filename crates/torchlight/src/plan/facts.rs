//! What a plan needs to know of a device, as plain data.

/// Limits that a plan holds its buffers and workgroups against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DeviceLimits {
    /// The largest buffer, in bytes.
    pub max_buffer_size: u64,
    /// The largest storage binding, in bytes.
    pub max_storage_buffer_binding_size: u64,
    /// The most workgroups along one dimension of a grid.
    pub max_compute_workgroups_per_dimension: u32,
    /// The most workgroup memory, in bytes. Browsers enforce it, native wgpu does not: a plan does.
    pub max_compute_workgroup_storage_size: u32,
    /// The most invocations of a workgroup.
    pub max_compute_invocations_per_workgroup: u32,
}

impl DeviceLimits {
    /// The limits that every WebGPU device has.
    pub const WEBGPU_DEFAULTS: Self = Self {
        max_buffer_size: 256 << 20,
        max_storage_buffer_binding_size: 128 << 20,
        max_compute_workgroups_per_dimension: 65535,
        max_compute_workgroup_storage_size: 16384,
        max_compute_invocations_per_workgroup: 256,
    };

    /// Bytes of the largest buffer that a kernel can be given.
    pub const fn largest_binding(&self) -> u64 {
        match self.max_buffer_size < self.max_storage_buffer_binding_size {
            true => self.max_buffer_size,
            false => self.max_storage_buffer_binding_size,
        }
    }
}

/// A device: who it is, what it allows and what it offers.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct DeviceFacts {
    /// The adapter's name.
    pub name: String,
    /// The wgpu back end: vulkan, metal, dx12, webgpu, noop.
    pub backend: String,
    /// Driver and its version, as the driver says them.
    pub driver: String,
    /// Whether it is a CPU that plays GPU: times then say nothing about GPUs.
    pub is_cpu: bool,
    /// Limits.
    pub limits: DeviceLimits,
    /// Whether pass timestamps are offered (`timestamp-query`).
    pub timestamps: bool,
    /// Whether timestamps inside a pass are offered.
    pub timestamps_inside_passes: bool,
    /// Nanoseconds a timestamp tick; known once a device is open.
    pub timestamp_period_ns: Option<f64>,
    /// Whether shaders may use 16-bit floats.
    pub shader_f16: bool,
    /// The smallest and largest subgroup, where shaders may use subgroups.
    pub subgroup_sizes: Option<[u32; 2]>,
    /// Whether cooperative matrices are offered.
    pub cooperative_matrix: bool,
}

impl DeviceFacts {
    /// A device with WebGPU's default limits and no optional feature.
    pub fn webgpu_defaults() -> Self {
        Self {
            name: "WebGPU defaults".into(),
            backend: "none".into(),
            driver: String::new(),
            is_cpu: false,
            limits: DeviceLimits::WEBGPU_DEFAULTS,
            timestamps: false,
            timestamps_inside_passes: false,
            timestamp_period_ns: None,
            shader_f16: false,
            subgroup_sizes: None,
            cooperative_matrix: false,
        }
    }
}
