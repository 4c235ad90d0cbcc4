//! What `run` and `profile` run: the steps of a case folder, or one step of a bare program.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use torchlight::{Gpu, HostTensor, Input, Output, Profile, Session, SessionOptions};

use crate::case::Case;
use crate::device::{GlobalArgs, Notices};
use crate::loading::build_session;
use crate::synthetic::InputArgs;

/// Steps to run, in order, and a session for each program among them.
pub(crate) struct Workload {
    sessions: Vec<(PathBuf, Session)>,
    steps: Vec<Step>,
}

/// One run of one program.
struct Step {
    session: usize,
    inputs: Vec<HostTensor>,
    output_names: Vec<String>,
}

impl Workload {
    /// Opens a case folder or a program, and builds the sessions.
    pub(crate) fn open(
        global: &GlobalArgs,
        (path, args): (&Path, &InputArgs),
        gpu: &Gpu,
        options: SessionOptions,
    ) -> Result<Self> {
        let mut workload = Self { sessions: Vec::new(), steps: Vec::new() };
        if !Case::is_case(path) {
            let session = workload.session(global, path, (gpu, &args.method), options)?;
            let graph = workload.sessions[session].1.graph();
            let inputs = args.tensors(graph)?;
            let output_names = (0..graph.outputs.len()).map(|index| format!("output{index}")).collect();
            workload.steps.push(Step { session, inputs, output_names });
            return Ok(workload);
        }
        if args.are_given() {
            bail!("--input and --shape are for a .pte file: {} is a case folder, with its own inputs", path.display());
        }
        let case = Case::open(path)?;
        for step in case.steps() {
            let session = workload.session(global, &case.model_path(step), (gpu, &args.method), options)?;
            let output_names = step.outputs.iter().map(|output| output.name.clone()).collect();
            workload.steps.push(Step { session, inputs: case.inputs(step)?, output_names });
        }
        Ok(workload)
    }

    /// The session for a program, built when the first step asks for it.
    fn session(
        &mut self,
        global: &GlobalArgs,
        path: &Path,
        (gpu, method): (&Gpu, &str),
        options: SessionOptions,
    ) -> Result<usize> {
        if let Some(index) = self.sessions.iter().position(|(known, _)| known == path) {
            return Ok(index);
        }
        let session = build_session(global, path, (gpu, method), options)?;
        self.sessions.push((path.to_owned(), session));
        Ok(self.sessions.len() - 1)
    }

    /// How many steps there are.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The sessions.
    pub(crate) fn sessions(&mut self) -> impl Iterator<Item = &mut Session> {
        self.sessions.iter_mut().map(|(_, session)| session)
    }

    /// The session of a step.
    pub(crate) fn session_of(&mut self, step: usize) -> &mut Session {
        &mut self.sessions[self.steps[step].session].1
    }

    /// Shows what the sessions have to say.
    pub(crate) fn show_notices(&mut self, notices: &mut Notices) {
        self.sessions().for_each(|session| notices.show(session));
    }

    /// Runs a step.
    pub(crate) fn run(&mut self, step: usize) -> Result<Vec<Output>> {
        let Step { session, inputs, .. } = &self.steps[step];
        let inputs: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
        let session = &mut self.sessions[*session].1;
        session.set_step(step as u64);
        session.run(&inputs).with_context(|| format!("step {step}"))
    }

    /// Takes the profiles of all sessions together.
    pub(crate) fn take_profile(&mut self) -> Result<Profile> {
        let mut profile = Profile::default();
        for session in self.sessions() {
            profile.merge(session.take_profile()?);
        }
        Ok(profile)
    }

    /// The names of a step's outputs.
    pub(crate) fn output_names(&self, step: usize) -> &[String] {
        &self.steps[step].output_names
    }
}
