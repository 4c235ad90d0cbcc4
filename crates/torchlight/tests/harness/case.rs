//! Case folders: exported programs with inputs and goldens for a sequence of steps.

use std::path::{Path, PathBuf};

use serde_json::Value;
use torchlight::{DType, Gpu, Graph, HostTensor, Program, Session, SessionOptions};

/// A folder of `fixtures/`.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
}

/// One run of a program, with what it takes and gives.
pub(crate) struct Step {
    pub(crate) model: String,
    pub(crate) inputs: Vec<Named>,
    pub(crate) outputs: Vec<Named>,
    /// The caches inside the program after the step.
    pub(crate) state_after: Vec<Named>,
}

/// A tensor of a step.
pub(crate) struct Named {
    pub(crate) name: String,
    /// Nothing where the content does not matter.
    pub(crate) tensor: Option<HostTensor>,
    /// The input whose new content it is.
    pub(crate) mutates_input: Option<String>,
}

/// A file of `fixtures/`.
pub(crate) fn path(case: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(case).join(file)
}

/// The bytes of a file of `fixtures/`.
pub(crate) fn read(case: &str, file: &str) -> Vec<u8> {
    let path = path(case, file);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Case {
    /// Reads `meta.json` and every tensor that it names.
    pub(crate) fn read(name: &'static str) -> Self {
        let meta: Value = serde_json::from_slice(&read(name, "meta.json")).unwrap_or_else(|e| panic!("{name}: {e}"));
        let steps: Vec<Step> = list(&meta["steps"]).iter().map(|step| read_step(name, step)).collect();
        assert!(!steps.is_empty(), "{name}: no steps");
        Self { name, steps }
    }

    /// A session for the program of a step.
    pub(crate) fn session(&self, step: usize, gpu: &Gpu) -> Session {
        self.session_with(step, gpu, SessionOptions::default())
    }

    /// The same, made in some way.
    pub(crate) fn session_with(&self, step: usize, gpu: &Gpu, options: SessionOptions) -> Session {
        session(self.name, &self.steps[step].model, gpu, options)
    }

    /// Whether all steps run the same program.
    pub(crate) fn has_one_model(&self) -> bool {
        self.steps.iter().all(|step| step.model == self.steps[0].model)
    }

    /// Whether the caches are inside the program.
    pub(crate) fn has_states(&self) -> bool {
        !self.steps[0].state_after.is_empty()
    }
}

/// A session for a program.
pub(crate) fn session(case: &str, model: &str, gpu: &Gpu, options: SessionOptions) -> Session {
    let bytes = read(case, model);
    with_graph(case, &bytes, |graph| Session::new(gpu, graph, options))
        .unwrap_or_else(|error| panic!("{case}/{model}: {error}"))
}

/// The `forward` graph of a program's bytes.
pub(crate) fn with_graph<T>(case: &str, bytes: &[u8], then: impl FnOnce(&Graph<'_>) -> T) -> T {
    let program = Program::parse(bytes).unwrap_or_else(|error| panic!("{case}: {error}"));
    then(&Graph::from_method(&program, "forward").unwrap_or_else(|error| panic!("{case}: {error}")))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn read_step(case: &str, step: &Value) -> Step {
    let tensors = |key: &str| list(&step[key]).iter().map(|tensor| read_tensor(case, tensor)).collect();
    Step {
        model: step["model"].as_str().unwrap_or_default().to_owned(),
        inputs: tensors("inputs"),
        outputs: tensors("outputs"),
        state_after: tensors("state_after"),
    }
}

fn read_tensor(case: &str, tensor: &Value) -> Named {
    let text = |key: &str| tensor[key].as_str().map(str::to_owned);
    let sizes: Vec<u32> = list(&tensor["shape"]).iter().filter_map(Value::as_u64).map(|size| size as u32).collect();
    let dtype = match tensor["dtype"].as_str() {
        Some("f32") => DType::F32,
        Some("i64") => DType::I64,
        Some("i32") => DType::I32,
        other => panic!("{case}: a tensor of type {other:?}"),
    };
    let content = |file: String| HostTensor::new(dtype, &sizes, read(case, &file));
    Named {
        name: text("name").unwrap_or_default(),
        tensor: text("file").map(|file| content(file).unwrap_or_else(|error| panic!("{case}: {error}"))),
        mutates_input: text("mutates_input"),
    }
}
