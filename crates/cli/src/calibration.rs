//! What devices were measured to do, kept from run to run in the user's cache folder.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use torchlight::Gpu;
use torchlight::profile::{Adapter, Peaks};

use crate::export::write_whole;

/// Measured peaks by adapter, back end and driver.
type Store = BTreeMap<String, Peaks>;

/// Measures a device, and keeps what was found.
pub(crate) fn measure(gpu: &Gpu) -> Result<Peaks> {
    let peaks = torchlight::calibrate(gpu).context("measuring the device")?;
    let path = path()?;
    let mut store = read(&path);
    store.insert(key(&gpu.facts().into()), peaks);
    let text = serde_json::to_string_pretty(&store)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    write_whole(&path, |file| Ok(file.write_all(text.as_bytes())?))?;
    Ok(peaks)
}

/// What a device was measured to do, where it was.
pub(crate) fn known(adapter: &Adapter) -> Option<Peaks> {
    read(&path().ok()?).get(&key(adapter)).copied()
}

fn path() -> Result<PathBuf> {
    let folder = dirs::cache_dir().context("this user has no cache folder: set XDG_CACHE_HOME or HOME")?;
    Ok(folder.join("torchlight").join("peaks.json"))
}

/// A store that cannot be read is as good as none: measuring again writes a new one.
fn read(path: &PathBuf) -> Store {
    std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn key(adapter: &Adapter) -> String {
    [adapter.name.as_str(), adapter.backend.as_str(), adapter.driver.as_str()].join(" | ")
}
