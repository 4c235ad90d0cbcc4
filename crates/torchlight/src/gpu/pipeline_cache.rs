//! What the driver compiled, as bytes that outlive the process: sealed, so that only what was given out is taken back.

use super::scope::Scopes;
use crate::error::Result;

/// The first bytes; the last of them is the version of the seal.
const MAGIC: [u8; 8] = *b"TLPIPES\x01";
/// Magic, key and checksum.
const SEAL_BYTES: usize = 24;

/// The driver's own cache of pipelines, on a device that has one.
#[derive(Clone, Debug)]
pub(super) struct PipelineCache {
    cache: wgpu::PipelineCache,
    key: u64,
}

impl PipelineCache {
    /// A cache that begins with what an earlier one gave out, and why it does not where the bytes are nothing of the kind.
    pub(super) async fn open(gpu: &super::Gpu, sealed: &[u8]) -> Result<(Self, Option<String>)> {
        let key = key(&gpu.device.adapter_info());
        let (data, notice) = match unseal(key, sealed) {
            _ if sealed.is_empty() => (None, None),
            Ok(data) => (Some(data), None),
            Err(why) => (None, Some(format!("the pipeline cache is not used: {why}"))),
        };
        let scopes = Scopes::open(gpu);
        let cache = create(&gpu.device, data);
        scopes.close().check("opening the pipeline cache").await?;
        Ok((Self { cache, key }, notice))
    }

    pub(super) fn driver(&self) -> &wgpu::PipelineCache {
        &self.cache
    }

    /// All that the driver compiled, sealed.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        self.cache.get_data().map(|data| seal(self.key, &data))
    }
}

#[allow(unsafe_code, reason = "wgpu makes giving a driver bytes to begin with unsafe")]
fn create(device: &wgpu::Device, data: Option<&[u8]>) -> wgpu::PipelineCache {
    let descriptor = wgpu::PipelineCacheDescriptor { label: Some("kernels"), data, fallback: true };
    // SAFETY: the bytes have to come from an earlier `get_data` on an adapter of the same key. They come from `unseal`, which
    // takes only what `seal` made of such bytes, for the same adapter and driver, and in which no bit has changed since, as far
    // as a checksum can tell; GpuOptions says that nobody else may be able to write them. wgpu and the driver look at headers
    // of their own after that.
    unsafe { device.create_pipeline_cache(&descriptor) }
}

/// Tells adapters, drivers and versions apart.
fn key(info: &wgpu::AdapterInfo) -> u64 {
    let adapter = wgpu::util::pipeline_cache_key(info).unwrap_or_else(|| info.name.clone());
    let driver = [&adapter, &info.driver, &info.driver_info, env!("CARGO_PKG_VERSION")];
    // A byte that is no part of text stands between, so that no two lists are the same text.
    driver.iter().fold(FNV_START, |hash, part| fnv_1a(fnv_1a(hash, part.as_bytes()), &[0xff]))
}

fn seal(key: u64, data: &[u8]) -> Vec<u8> {
    let checksum = fnv_1a(FNV_START, data);
    [&MAGIC[..], &key.to_le_bytes(), &checksum.to_le_bytes(), data].concat()
}

/// The bytes that were sealed, or why they are not to be used.
fn unseal(key: u64, sealed: &[u8]) -> std::result::Result<&[u8], &'static str> {
    let Some((head, data)) = sealed.split_at_checked(SEAL_BYTES) else { return Err("it is cut off") };
    let (magic, numbers) = head.split_at(MAGIC.len());
    let (made_for, checksum) = numbers.split_at(8);
    if magic != MAGIC {
        return Err("it is no cache of this version");
    }
    if made_for != key.to_le_bytes() {
        return Err("it was made with another adapter, driver or version");
    }
    if checksum != fnv_1a(FNV_START, data).to_le_bytes() {
        return Err("it is cut off or damaged");
    }
    Ok(data)
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, which is the same in every release: a change of any one byte changes it.
fn fnv_1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_comes_back_and_nothing_else_does() {
        let data: Vec<u8> = (0..100).collect();
        let sealed = seal(7, &data);
        assert_eq!(unseal(7, &sealed), Ok(&data[..]));
        assert_eq!(unseal(8, &sealed), Err("it was made with another adapter, driver or version"));
        for length in 0..sealed.len() {
            assert!(unseal(7, &sealed[..length]).is_err(), "{length} bytes of it");
        }
        for index in 0..sealed.len() {
            for bit in 0..8 {
                let mut changed = sealed.clone();
                changed[index] ^= 1 << bit;
                assert!(unseal(7, &changed).is_err(), "bit {bit} of byte {index}");
            }
        }
        let longer = [&sealed[..], &[0]].concat();
        assert_eq!(unseal(7, &longer), Err("it is cut off or damaged"));
        assert_eq!(unseal(7, &seal(7, &[])), Ok(&[][..]));
    }
}
