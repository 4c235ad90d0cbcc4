//! Query sets for the dispatches of a plan, and a ring of buffers through which their stamps come back.
//!
//! A run never waits for the stamps of an earlier one: each takes a free place of the ring and leaves it when its stamps
//! are read, or thrown away. Where no place is free the run is not timed.

use std::sync::Arc;

use super::encode::{QUERIES_PER_SET, QUERY_BYTES};
use super::readback::Mapped;
use crate::error::{Error, Result};
use crate::profile::TickPair;

/// Runs whose stamps may be under way at once.
const RING: usize = 4;

/// Query sets, and the buffers that their values go through.
#[derive(Debug)]
pub(super) struct Queries {
    pub(super) sets: Vec<wgpu::QuerySet>,
    pub(super) resolve: wgpu::Buffer,
    pub(super) readback: wgpu::Buffer,
}

/// The places of the ring, made when they are first needed.
#[derive(Debug, Default)]
pub(super) struct Ring {
    places: Vec<Arc<Queries>>,
}

impl Ring {
    /// A place that nobody uses.
    pub(super) fn free(&mut self, device: &wgpu::Device, dispatches: u32) -> Option<Arc<Queries>> {
        let free = self.places.iter().find(|place| Arc::strong_count(place) == 1).cloned();
        if free.is_none() && self.places.len() < RING {
            self.places.push(Arc::new(Queries::new(device, dispatches)));
            return self.places.last().cloned();
        }
        free
    }
}

/// The stamps of a run, under way. Holds its place of the ring.
#[derive(Debug)]
pub(crate) struct Stamps {
    /// Before `place`: a buffer is unmapped before its place is free.
    mapped: Mapped,
    _place: Arc<Queries>,
}

impl Stamps {
    pub(super) fn new(device: &wgpu::Device, place: Arc<Queries>, dispatches: u32) -> Self {
        Self { mapped: Mapped::new(device, &place.readback, stamp_bytes(dispatches)), _place: place }
    }

    /// The stamps, a begin and an end a dispatch, where they have arrived.
    pub(crate) fn take_ready(&mut self) -> Option<Result<Vec<TickPair>>> {
        Some(self.mapped.take_ready()?.and_then(|bytes| tick_pairs(&bytes)))
    }
}

/// Bytes of the stamps of `dispatches`.
fn stamp_bytes(dispatches: u32) -> u64 {
    u64::from(dispatches) * 2 * QUERY_BYTES
}

impl Queries {
    /// Sets for `dispatches`, two queries each.
    fn new(device: &wgpu::Device, dispatches: u32) -> Self {
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
fn tick_pairs(bytes: &[u8]) -> Result<Vec<TickPair>> {
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
