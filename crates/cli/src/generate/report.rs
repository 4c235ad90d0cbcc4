//! What is said after a text: counts, rates, where the time went, and the profiles.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use torchlight::{Generator, Profile, TimestampMode};

use super::{Ended, Generated, Profiles, Times};
use crate::export::{Format, write_profile, write_whole};
use crate::profile_tables::{write_kernels, write_times};
use crate::table::{counted, rate};

/// All that is known when a text is done.
pub(super) struct Report<'r> {
    pub(super) generator: &'r mut Generator,
    pub(super) prompt: &'r [u32],
    pub(super) generated: &'r Generated,
}

#[derive(Serialize)]
struct Json<'r> {
    prompt_tokens: &'r [u32],
    tokens: &'r [u32],
    text: &'r str,
    ended: Ended,
    max_context: u32,
    loading_s: f64,
    prefill_s: f64,
    prefill_tokens_per_s: Option<f64>,
    decode_steps: usize,
    decode_s: f64,
    decode_tokens_per_s: Option<f64>,
    sampling_s: f64,
    text_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'r Profiles>,
}

impl Report<'_> {
    /// As one object.
    pub(super) fn write_json(&self, out: &mut impl Write) -> Result<()> {
        let Generated { tokens, text, ended, times, profiles } = self.generated;
        let json = Json {
            prompt_tokens: self.prompt,
            tokens,
            text,
            ended: *ended,
            max_context: self.generator.max_context(),
            loading_s: times.loading.as_secs_f64(),
            prefill_s: times.prefill.as_secs_f64(),
            prefill_tokens_per_s: per_second(self.prompt.len(), times.prefill),
            decode_steps: times.decode_steps,
            decode_s: times.decode.as_secs_f64(),
            decode_tokens_per_s: per_second(times.decode_steps, times.decode),
            sampling_s: times.sampling.as_secs_f64(),
            text_s: times.text.as_secs_f64(),
            profile: profiles.as_ref(),
        };
        serde_json::to_writer_pretty(&mut *out, &json)?;
        writeln!(out)?;
        Ok(())
    }

    /// Ends the text and shows the tables on `out`; counts and rates go to stderr, so that `out` can be the text alone.
    pub(super) fn write_text(&self, out: &mut impl Write) -> Result<()> {
        let Generated { tokens, ended, times, profiles, .. } = self.generated;
        writeln!(out)?;
        if let Some(Profiles { prefill, decode }) = profiles {
            let title = format!("prefill of {}", counted(self.prompt.len(), "token", "tokens"));
            write_part(&title, prefill, out)?;
            let title = format!("decode in {}", counted(times.decode_steps, "step", "steps"));
            write_part(&title, decode, out)?;
        }
        // What was shown comes before what is said of it, also where both go to one terminal.
        out.flush()?;
        let mut said = String::new();
        if *ended == Ended::ContextFull {
            let (prompt, max_context) = (self.prompt.len(), self.generator.max_context());
            said = format!(
                "the context is full: the program holds {max_context} tokens, {prompt} of them are the prompt's\n"
            );
        }
        said += &summary((self.prompt.len(), tokens.len()), times);
        let _ = writeln!(io::stderr(), "{said}");
        Ok(())
    }
}

/// The line at the end.
fn summary((prompt, tokens): (usize, usize), times: &Times) -> String {
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let steps = times.decode.saturating_sub(times.sampling + times.text);
    format!(
        "prompt {}, prefill {} tokens/s; generated {}, decode {} tokens/s; loading {}, prefill {}, decode {} of steps {}, \
         sampling {}, text {}",
        counted(prompt, "token", "tokens"),
        rate(per_second(prompt, times.prefill)),
        counted(tokens, "token", "tokens"),
        rate(per_second(times.decode_steps, times.decode)),
        ms(times.loading),
        ms(times.prefill),
        ms(times.decode),
        ms(steps),
        ms(times.sampling),
        ms(times.text),
    )
}

/// A rate, where something was counted.
fn per_second(count: usize, time: Duration) -> Option<f64> {
    (count > 0 && !time.is_zero()).then(|| count as f64 / time.as_secs_f64())
}

fn write_part(title: &str, profile: &Profile, out: &mut impl Write) -> Result<()> {
    writeln!(out, "\n{title}")?;
    if profile.runs.is_empty() && profile.statistics.is_empty() {
        // A profile without runs knows no mode.
        let why = if profile.mode == TimestampMode::Off { "no timestamps were taken" } else { "nothing ran" };
        writeln!(out, "{why}")?;
        return Ok(());
    }
    write_kernels(profile, out)?;
    write_times(profile, out)
}

/// Writes both profiles, each as a file of its own.
pub(super) fn write_files(profiles: &Profiles, paths: &[PathBuf; 2], format: Format) -> Result<()> {
    for (profile, path) in [&profiles.prefill, &profiles.decode].into_iter().zip(paths) {
        let title = path.file_stem().map(|name| name.to_string_lossy()).unwrap_or_default();
        write_whole(path, |file| write_profile(profile, format, &title, file))?;
    }
    Ok(())
}

/// The path of one part of a profile: `a.trace.json` becomes `a-decode.trace.json`.
pub(super) fn path_of(path: &Path, part: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The ending of a format may have two dots; a name may begin with one.
    let endings = [".trace.json"].into_iter().filter(|ending| name.to_lowercase().ends_with(ending));
    let ending = endings.map(str::len).next();
    let ending = ending.or_else(|| path.extension().map(|extension| extension.len() + 1)).unwrap_or(0);
    let (stem, ending) = name.split_at(name.len().saturating_sub(ending));
    path.with_file_name(format!("{stem}-{part}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_before_the_ending() {
        let path = |text: &str| path_of(Path::new(text), "decode").to_string_lossy().into_owned();
        assert_eq!(path("a/b.trace.json"), "a/b-decode.trace.json");
        assert_eq!(path("b.c.HTML"), "b.c-decode.HTML");
        assert_eq!(path("profile"), "profile-decode");
    }

    #[test]
    fn the_summary_says_where_the_time_went() {
        let ms = Duration::from_millis;
        let times = Times {
            loading: ms(840),
            prefill: ms(10),
            decode: ms(100),
            decode_steps: 23,
            sampling: ms(3),
            text: ms(2),
        };
        assert_eq!(
            summary((5, 24), &times),
            "prompt 5 tokens, prefill 500 tokens/s; generated 24 tokens, decode 230 tokens/s; loading 840.0 ms, \
             prefill 10.0 ms, decode 100.0 ms of steps 95.0 ms, sampling 3.0 ms, text 2.0 ms"
        );
        let nothing = summary((1, 1), &Times { prefill: ms(1), ..Times::default() });
        assert!(nothing.contains("decode - tokens/s"), "{nothing}");
    }
}
