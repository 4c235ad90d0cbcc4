//! Query sets for the dispatches of a plan, made when the first profiled run needs them.

use super::encode::{QUERIES_PER_SET, QUERY_BYTES};
use crate::error::{Error, Result};
use crate::profile::TickPair;

/// Query sets, and the buffers that their values go through.
#[derive(Debug)]
pub(super) struct Queries {
    pub(super) sets: Vec<wgpu::QuerySet>,
    pub(super) resolve: wgpu::Buffer,
    pub(super) readback: wgpu::Buffer,
}

/// Bytes of the stamps of `dispatches`.
pub(super) fn stamp_bytes(dispatches: u32) -> u64 {
    u64::from(dispatches) * 2 * QUERY_BYTES
}

impl Queries {
    /// Sets for `dispatches`, two queries each.
    pub(super) fn new(device: &wgpu::Device, dispatches: u32) -> Self {
        let queries = dispatches * 2;
        let set = |set: u32| {
            device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("timestamps"),
                ty: wgpu::QueryType::Timestamp,
                count: QUERIES_PER_SET.min(queries - set * QUERIES_PER_SET),
            })
        };
        let buffer = |label, usage| {
            let size = stamp_bytes(dispatches);
            device.create_buffer(&wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false })
        };
        Self {
            sets: (0..queries.div_ceil(QUERIES_PER_SET)).map(set).collect(),
            resolve: buffer("queries", wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC),
            readback: buffer("query readback", wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST),
        }
    }
}

/// Stamps from resolved bytes: a begin and an end a dispatch.
pub(super) fn tick_pairs(bytes: &[u8]) -> Result<Vec<TickPair>> {
    let (pairs, []) = bytes.as_chunks::<16>() else {
        return Err(Error::Gpu(format!("{} bytes of timestamps are no whole number of pairs", bytes.len())));
    };
    let stamp = |bytes: [u8; 8]| u64::from_le_bytes(bytes);
    let split = |pair: &[u8; 16]| {
        let (begin, end) = pair.split_at(8);
        TickPair { begin: stamp(begin.try_into().unwrap_or_default()), end: stamp(end.try_into().unwrap_or_default()) }
    };
    Ok(pairs.iter().map(split).collect())
}
