//! Case folders: a program, the inputs of a sequence of steps, and goldens for their outputs and caches.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use torchlight::{DType, HostTensor};

/// The file that makes a folder a case.
const META: &str = "meta.json";

/// A case folder.
#[derive(Debug)]
pub(crate) struct Case {
    folder: PathBuf,
    meta: Meta,
}

#[derive(Debug, Deserialize)]
struct Meta {
    #[serde(default)]
    steps: Vec<CaseStep>,
}

/// One step of a case.
#[derive(Debug, Deserialize)]
pub(crate) struct CaseStep {
    /// The program's file name.
    pub(crate) model: String,
    /// Inputs, in the program's order.
    pub(crate) inputs: Vec<CaseTensor>,
    /// Goldens of the outputs, in the program's order.
    pub(crate) outputs: Vec<CaseTensor>,
    /// Goldens of the caches inside the graph, after the step.
    #[serde(default)]
    pub(crate) state_after: Option<Vec<CaseTensor>>,
}

/// A tensor of a step.
#[derive(Debug, Deserialize)]
pub(crate) struct CaseTensor {
    /// Its name.
    pub(crate) name: String,
    shape: Vec<u32>,
    dtype: DType,
    /// Raw little-endian content; none where the value does not matter.
    file: Option<PathBuf>,
}

impl Case {
    /// Whether a path is a case folder.
    pub(crate) fn is_case(path: &Path) -> bool {
        path.join(META).is_file()
    }

    /// Reads a case folder.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(META);
        if !path.is_file() {
            folder.metadata().with_context(|| format!("cannot open {}", folder.display()))?;
            bail!("{} is not a case folder: there is no {META} in it", folder.display());
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let meta: Meta = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        if meta.steps.is_empty() {
            bail!("{} has no steps", path.display());
        }
        Ok(Self { folder: folder.to_owned(), meta })
    }

    /// The steps, in order.
    pub(crate) fn steps(&self) -> &[CaseStep] {
        &self.meta.steps
    }

    /// Where a step's program lies.
    pub(crate) fn model_path(&self, step: &CaseStep) -> PathBuf {
        self.folder.join(&step.model)
    }

    /// The content of a tensor, or nothing where its value does not matter.
    pub(crate) fn read(&self, tensor: &CaseTensor) -> Result<Option<HostTensor>> {
        let Some(file) = &tensor.file else { return Ok(None) };
        let path = self.folder.join(file);
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let read = HostTensor::new(tensor.dtype, &tensor.shape, bytes);
        read.map(Some).with_context(|| format!("{} ({})", path.display(), tensor.name))
    }

    /// The inputs of a step.
    pub(crate) fn inputs(&self, step: &CaseStep) -> Result<Vec<HostTensor>> {
        let read = |tensor: &CaseTensor| {
            self.read(tensor)?.with_context(|| format!("{}: input {} has no file", self.folder.display(), tensor.name))
        };
        step.inputs.iter().map(read).collect()
    }
}
