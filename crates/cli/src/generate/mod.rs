//! `torchlight generate`: from a prompt to text, token by token.

mod report;
mod sampling;
mod vocabulary;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use torchlight::{Generator, Profile, Session, TimestampMode};

use crate::Verdict;
use crate::attention::AttentionArgs;
use crate::calibration;
use crate::device::{GlobalArgs, Notices, TimestampArg, session_options};
use crate::export::{Format, check_place};
use crate::loading::{Stopwatch, build_session};
use report::Report;
use sampling::{Sampler, SamplingArgs};
use vocabulary::{Prompt, Vocabulary};

/// Options of `generate`.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// A .pte file of a language model.
    #[arg(value_name = "FILE")]
    model: PathBuf,

    /// The model's tokenizer.json.
    #[arg(long, value_name = "FILE")]
    tokenizer: PathBuf,

    /// The text to go on with, or with --chat the message to answer.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: String,

    /// Put the prompt as a user's message into the template of ChatML.
    #[arg(long)]
    chat: bool,

    /// What the model is told before the message.
    #[arg(long, value_name = "TEXT", requires = "chat", allow_hyphen_values = true)]
    system: Option<String>,

    /// How many tokens to generate at most. A token that ends the text, or a full context, ends it before.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,

    /// Go on behind tokens that end a text.
    #[arg(long)]
    ignore_end: bool,

    #[command(flatten)]
    sampling: SamplingArgs,

    #[command(flatten)]
    attention: AttentionArgs,

    /// Method to run, of a program with several.
    #[arg(long, default_value = "forward")]
    method: String,

    /// Time every kernel, and show prefill and decode apart.
    #[arg(long)]
    profile: bool,

    /// Write the profiles to files as well: NAME-prefill and NAME-decode, with the ending, which names the format.
    #[arg(long, value_name = "FILE", requires = "profile")]
    out: Option<PathBuf>,

    /// The format of --out.
    #[arg(long, value_name = "FORMAT", requires = "out")]
    format: Option<Format>,
}

/// What was generated.
#[derive(Debug)]
struct Generated {
    tokens: Vec<u32>,
    text: String,
    ended: Ended,
    times: Times,
    profiles: Option<Profiles>,
}

/// Why no more was generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ended {
    EndOfText,
    MaxTokens,
    ContextFull,
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// From the program's file to a session that is ready.
    loading: Duration,
    prefill: Duration,
    /// From the first token to the last: steps, choices and text.
    decode: Duration,
    /// Steps of decode: the last token needs none.
    decode_steps: usize,
    /// Choosing tokens.
    sampling: Duration,
    /// Tokens to text.
    text: Duration,
}

/// Of prefill and of decode.
#[derive(Debug, Serialize)]
struct Profiles {
    prefill: Profile,
    decode: Profile,
}

/// Generates text.
pub(crate) fn generate(global: &GlobalArgs, args: &GenerateArgs, out: &mut impl Write) -> Result<Verdict> {
    // What cannot be written or read is refused before the model is loaded.
    let files = args.out.as_deref().map(|path| profile_files(path, args.format)).transpose()?;
    let mut watch = Stopwatch::start();
    let vocabulary = Vocabulary::open(&args.tokenizer)?;
    let read = watch.lap();
    global.say(|| format!("read the tokenizer in {read}"));
    let prompt = vocabulary.encode(args.prompt())?;
    if prompt.is_empty() {
        bail!("the prompt has no tokens: give a text that has some");
    }
    let begun = Instant::now();
    let mut generator = open(global, args)?;
    let loading = begun.elapsed();
    check_fit(&generator, &prompt)?;

    let mut generated = run(&mut generator, (&vocabulary, &prompt), args, |text| {
        if !global.json {
            write!(out, "{text}")?;
            out.flush()?;
        }
        Ok(())
    })?;
    generated.times.loading = loading;
    if let (Some((paths, format)), Some(profiles)) = (&files, &generated.profiles) {
        report::write_files(profiles, paths, *format)?;
    }
    let report = Report { generator: &mut generator, prompt: &prompt, generated: &generated };
    if global.json {
        report.write_json(out)?;
    } else {
        report.write_text(out)?;
    }
    Ok(Verdict::Passed)
}

impl GenerateArgs {
    fn prompt(&self) -> Prompt<'_> {
        if self.chat {
            Prompt::Chat { system: self.system.as_deref(), user: &self.prompt }
        } else {
            Prompt::Text(&self.prompt)
        }
    }
}

/// A generator of the program, with nothing in its context.
fn open(global: &GlobalArgs, args: &GenerateArgs) -> Result<Generator> {
    let options = session_options(args.profile.then_some(TimestampArg::Pass), &args.attention)?;
    let gpu = global.open()?;
    let session = build_session(global, &args.model, (&gpu, &args.method), options)?;
    Notices::default().show(&session);
    Generator::new(session).with_context(|| args.model.display().to_string())
}

/// Refuses a prompt that the program cannot take.
fn check_fit(generator: &Generator, prompt: &[u32]) -> Result<()> {
    let (max_context, vocab_size) = (generator.max_context(), generator.vocab_size());
    if prompt.len() > max_context as usize {
        bail!("the prompt has {} tokens, and the program's context holds {max_context}", prompt.len());
    }
    match prompt.iter().find(|&&token| token >= vocab_size) {
        Some(token) => bail!(
            "the tokenizer is not the program's: it gives the token {token}, and the program knows {vocab_size} tokens"
        ),
        None => Ok(()),
    }
}

/// Pushes the prompt, then chooses token after token.
fn run(
    generator: &mut Generator,
    (vocabulary, prompt): (&Vocabulary, &[u32]),
    args: &GenerateArgs,
    mut show: impl FnMut(&str) -> Result<()>,
) -> Result<Generated> {
    let mut times = Times::default();
    let mut sampler = Sampler::new(&args.sampling);
    let mut growing = vocabulary.text();
    let (mut tokens, mut text) = (Vec::new(), String::new());
    let mut add = |new: &str| {
        text.push_str(new);
        show(new)
    };

    let logits = timed(&mut times.prefill, || generator.push(prompt))?;
    let mut next = timed(&mut times.sampling, || sampler.choose(logits))?;
    let prefill_runs = prompt.len().div_ceil(generator.max_step() as usize);
    let prefill = take_profile(generator.session(), args, prefill_runs)?;

    let begun = Instant::now();
    let ended = loop {
        if vocabulary.is_end(next) && !args.ignore_end {
            break Ended::EndOfText;
        }
        tokens.push(next);
        add(&timed(&mut times.text, || growing.push(next))?)?;
        if tokens.len() == args.max_tokens as usize {
            break Ended::MaxTokens;
        }
        if generator.position() == generator.max_context() {
            break Ended::ContextFull;
        }
        let logits = generator.push(&[next])?;
        times.decode_steps += 1;
        next = timed(&mut times.sampling, || sampler.choose(logits))?;
    };
    times.decode = begun.elapsed();
    add(&growing.finish()?)?;
    let decode = take_profile(generator.session(), args, times.decode_steps)?;
    let profiles = prefill.zip(decode).map(|(prefill, decode)| Profiles { prefill, decode });
    Ok(Generated { tokens, text, ended, times, profiles })
}

/// Adds what something takes to a sum.
fn timed<T>(sum: &mut Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    *sum += begun.elapsed();
    result
}

/// How long stamps may be under way after the results of their run.
const PATIENCE: Duration = Duration::from_secs(2);

/// The profile of so many runs: it waits for stamps that are under way, so that none of them gets into the next profile.
fn take_profile(session: &mut Session, args: &GenerateArgs, runs: usize) -> Result<Option<Profile>> {
    let mode = session.timestamps();
    if mode == TimestampMode::Off && !args.profile {
        return Ok(None);
    }
    let begun = Instant::now();
    let mut profile = session.take_profile()?;
    let count = |profile: &Profile| profile.runs.len() as u64 + profile.dropped_runs + profile.untimed_runs;
    while mode != TimestampMode::Off && count(&profile) < runs as u64 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_micros(200));
        profile.merge(session.take_profile()?);
    }
    profile.peaks = calibration::known(&profile.adapter);
    Ok(Some(profile))
}

/// Where the profiles of prefill and decode go, and in which format.
fn profile_files(path: &Path, format: Option<Format>) -> Result<([PathBuf; 2], Format)> {
    let format = format.map_or_else(|| Format::of(path), Ok)?;
    check_place(path)?;
    Ok((["prefill", "decode"].map(|part| report::path_of(path, part)), format))
}
