//! A language model, token by token: what was pushed stays in the program's caches, and the next token's logits come out.

use super::outputs::{Results, Wanted};
use super::{Input, Session};
use crate::error::{Error, Result};
use crate::graph::{Graph, GraphInput, GraphOutput, Operator};
use crate::tensor::{DType, TensorView};

/// What a program has to be, so that it can generate.
const CONVENTION: &str = "one method with the inputs tokens [1, S] and input_pos [1], both integers, the output logits f32[1, V] \
     or f32[1, S, V], and its KV caches inside the program";

/// Generates with a program of a language model.
///
/// The program takes `tokens [1, S]`, with any S up to a bound, and `input_pos [1]`, both of 32-bit or 64-bit integers, keeps
/// its KV caches inside, and gives `logits [1, V]` of the last token or `logits [1, S, V]` of all: what
/// ExecuTorch's Llama export makes.
///
/// Tokens are appended by [`push`](Self::push), in steps of at most the bound; [`rewind`](Self::rewind) costs nothing. Runs
/// are numbered by the position of their first token: profiles carry it as the step.
///
/// ```no_run
/// use torchlight::{Generator, Gpu, GpuOptions, Graph, Program, Session, SessionOptions};
///
/// let bytes = std::fs::read("model.pte")?;
/// let program = Program::parse(&bytes).map_err(torchlight::Error::from)?;
/// let graph = Graph::from_method(&program, "forward")?;
/// let gpu = Gpu::open_blocking(&GpuOptions::default())?;
/// let mut generator = Generator::new(Session::new(&gpu, &graph, SessionOptions::default())?)?;
///
/// let mut next = greedy(generator.push(&[504, 3575, 282, 4649, 314])?);
/// while generator.position() < generator.max_context() {
///     println!("{next}");
///     next = greedy(generator.push(&[next])?);
/// }
///
/// fn greedy(logits: &[f32]) -> u32 {
///     (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0) as u32
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Generator {
    session: Session,
    convention: Convention,
    position: u32,
    step: StepInputs,
    logits: Vec<f32>,
}

/// Which input and output of a program is which, and its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Convention {
    tokens: usize,
    input_pos: usize,
    logits: usize,
    /// Host types of tokens and input_pos.
    dtypes: [DType; 2],
    max_step: u32,
    vocab_size: u32,
    max_context: u32,
}

/// The bytes of a step's inputs; their memory is reused.
#[derive(Debug, Default)]
struct StepInputs {
    tokens: Vec<u8>,
    input_pos: Vec<u8>,
}

impl Generator {
    /// Takes a session of a language model, with nothing in its context yet.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the session's program is no language model, and why.
    pub fn new(session: Session) -> Result<Self> {
        let convention = Convention::of(session.graph())?;
        Ok(Self { session, convention, position: 0, step: StepInputs::default(), logits: Vec::new() })
    }

    /// Appends tokens, and gives the logits of what follows the last of them: one for each entry of the vocabulary.
    ///
    /// # Errors
    /// [`Error::ContextFull`] where there is no room for all of them, [`Error::Input`] where there are none, or one is not
    /// of the vocabulary: then nothing has changed. After any other error [`Self::position`] is what it was, too.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn push(&mut self, tokens: &[u32]) -> Result<&[f32]> {
        self.check(tokens)?;
        let start = self.position;
        for chunk in tokens.chunks(self.convention.max_step as usize) {
            self.step.fill(&self.convention, chunk, self.position);
            self.session.set_step(self.position.into());
            let inputs = self.step.views(&self.convention, chunk.len() as u32)?;
            let wanted = Wanted::LastRowOf(self.convention.logits);
            let take = |results: Results<'_>| results.row().map(|row| copy_f32(row, &mut self.logits));
            self.session.step((&inputs, wanted), take).inspect_err(|_| self.position = start)?;
            self.position += chunk.len() as u32;
        }
        Ok(&self.logits)
    }

    /// [`Generator::push`] for executors and browsers.
    ///
    /// # Errors
    /// As [`Generator::push`].
    pub async fn push_async(&mut self, tokens: &[u32]) -> Result<&[f32]> {
        self.check(tokens)?;
        let start = self.position;
        for chunk in tokens.chunks(self.convention.max_step as usize) {
            self.step.fill(&self.convention, chunk, self.position);
            self.session.set_step(self.position.into());
            let inputs = self.step.views(&self.convention, chunk.len() as u32)?;
            let wanted = Wanted::LastRowOf(self.convention.logits);
            let take = |results: Results<'_>| results.row().map(|row| copy_f32(row, &mut self.logits));
            self.session.step_async((&inputs, wanted), take).await.inspect_err(|_| self.position = start)?;
            self.position += chunk.len() as u32;
        }
        Ok(&self.logits)
    }

    /// Forgets all tokens from `position` on: the next ones take their place.
    ///
    /// # Errors
    /// [`Error::Input`] where there are not so many.
    pub fn rewind(&mut self, position: u32) -> Result<()> {
        if position > self.position {
            return Err(Error::Input {
                what: "position".into(),
                wanted: format!("at most the {} tokens so far", self.position),
                got: position.to_string(),
            });
        }
        self.position = position;
        Ok(())
    }

    /// Forgets all tokens, and puts the caches back to the program's content.
    pub fn reset(&mut self) {
        self.session.reset();
        self.position = 0;
    }

    /// Tokens so far.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// The most tokens that the program's caches hold.
    pub fn max_context(&self) -> u32 {
        self.convention.max_context
    }

    /// The most tokens of one step of the program: longer pushes take several.
    pub fn max_step(&self) -> u32 {
        self.convention.max_step
    }

    /// How many tokens there are to choose from.
    pub fn vocab_size(&self) -> u32 {
        self.convention.vocab_size
    }

    /// The session that computes: for profiles, its plan, and its caches as they are.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Refuses what cannot be pushed whole.
    fn check(&self, tokens: &[u32]) -> Result<()> {
        let Convention { max_context, vocab_size, .. } = self.convention;
        if tokens.is_empty() {
            return Err(Error::Input { what: "tokens".into(), wanted: "at least one".into(), got: "none".into() });
        }
        if tokens.len() > (max_context - self.position) as usize {
            return Err(Error::ContextFull { position: self.position, new_tokens: tokens.len(), max_context });
        }
        match tokens.iter().position(|&token| token >= vocab_size) {
            Some(index) => Err(Error::Input {
                what: format!("token {index}"),
                wanted: format!("an id below the vocabulary's {vocab_size}"),
                got: tokens[index].to_string(),
            }),
            None => Ok(()),
        }
    }
}

impl StepInputs {
    fn fill(&mut self, convention: &Convention, tokens: &[u32], position: u32) {
        let [tokens_dtype, position_dtype] = convention.dtypes;
        self.tokens.clear();
        self.input_pos.clear();
        tokens.iter().for_each(|&token| push_integer(&mut self.tokens, tokens_dtype, token));
        push_integer(&mut self.input_pos, position_dtype, position);
    }

    /// The inputs in the program's order.
    fn views(&self, convention: &Convention, tokens: u32) -> Result<[Input<'_>; 2]> {
        let [tokens_dtype, position_dtype] = convention.dtypes;
        let tokens = TensorView::new(tokens_dtype, &[1, tokens], &self.tokens)?.into();
        let position = TensorView::new(position_dtype, &[1], &self.input_pos)?.into();
        Ok(if convention.tokens < convention.input_pos { [tokens, position] } else { [position, tokens] })
    }
}

/// The memory of `values` is reused.
fn copy_f32(bytes: &[u8], values: &mut Vec<f32>) {
    values.clear();
    values.extend(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
}

/// Ids and positions fit 31 bits: they lie below sizes of tensors.
fn push_integer(bytes: &mut Vec<u8>, dtype: DType, value: u32) {
    match dtype {
        DType::I64 => bytes.extend(i64::from(value).to_le_bytes()),
        _ => bytes.extend(value.to_le_bytes()),
    }
}

impl Convention {
    /// Finds out which is which.
    fn of(graph: &Graph<'_>) -> Result<Self> {
        let refuse = |why: String| Error::Unsupported {
            what: format!("generating with the method {}, which has {why}", graph.name.escape_debug()),
            supported: CONVENTION.into(),
        };
        let described = || {
            let input = |input: &GraphInput| format!("{}{}", input.host_dtype, graph.tensor(input.tensor).bound);
            let inputs: Vec<String> = graph.inputs.iter().map(input).collect();
            refuse(format!("the inputs {}", if inputs.is_empty() { "none".into() } else { inputs.join(", ") }))
        };
        if graph.inputs.len() != 2 {
            return Err(described());
        }
        let find = |is: fn(&[u32]) -> bool| {
            let is_one = |input: &GraphInput| {
                matches!(input.host_dtype, DType::I32 | DType::I64) && is(graph.tensor(input.tensor).bound.as_slice())
            };
            graph.inputs.iter().position(is_one)
        };
        let tokens = find(|sizes| matches!(sizes, [1, size] if *size > 0)).ok_or_else(described)?;
        let input_pos = find(|sizes| sizes == [1]).ok_or_else(described)?;
        let max_step = graph.tensor(graph.inputs[tokens].tensor).bound.as_slice()[1];
        if max_step > 1 && !graph.inputs[tokens].dynamic {
            return Err(refuse(format!("steps of always {max_step} tokens")));
        }
        let is_position =
            |operator: &Operator| matches!(operator, Operator::SelectAsSymInt(op) if op.input == input_pos);
        if !graph.nodes.iter().any(|node| is_position(&node.operator)) {
            return Err(refuse(format!("an input {input_pos} that nothing takes as a position")));
        }
        let (logits, vocab_size) = logits(graph).map_err(refuse)?;
        let rows = graph.states().into_iter().filter_map(|state| match *graph.tensor(state).bound.as_slice() {
            [1, rows, _, _] => Some(rows),
            _ => None,
        });
        let max_context = rows.min().filter(|&rows| rows > 0);
        let max_context = max_context.ok_or_else(|| refuse("no KV cache inside".into()))?;
        let dtypes = [tokens, input_pos].map(|input| graph.inputs[input].host_dtype);
        Ok(Self { tokens, input_pos, logits, dtypes, max_step, vocab_size, max_context })
    }
}

/// Which output are the logits, and over how many tokens.
fn logits(graph: &Graph<'_>) -> std::result::Result<(usize, u32), String> {
    let tensors = graph.outputs.iter().enumerate().filter_map(|(index, output)| match output {
        GraphOutput::Tensor { tensor, host_dtype, .. } => Some((index, *host_dtype, graph.tensor(*tensor).bound)),
        _ => None,
    });
    let tensors: Vec<_> = tensors.collect();
    match tensors.as_slice() {
        [(index, DType::F32, bound)] => match *bound.as_slice() {
            [1, vocab_size] | [1, _, vocab_size] if vocab_size > 0 => Ok((*index, vocab_size)),
            _ => Err(format!("the output f32{bound}")),
        },
        tensors => {
            let outputs: Vec<String> = tensors.iter().map(|(_, dtype, bound)| format!("{dtype}{bound}")).collect();
            Err(format!("the outputs {}", if outputs.is_empty() { "none".into() } else { outputs.join(", ") }))
        }
    }
}
