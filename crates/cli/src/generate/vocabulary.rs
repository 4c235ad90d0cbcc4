//! Between text and tokens: a tokenizer.json, the ChatML template, and text that grows token by token.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use tokenizers::Tokenizer;

/// Tokens that end a text, by the names that models give them.
const END_OF_TEXT: [&str; 5] = ["<|im_end|>", "<|endoftext|>", "</s>", "<|end_of_text|>", "<|eot_id|>"];

/// The tokens around a message of ChatML.
const CHAT_MARKS: [&str; 2] = ["<|im_start|>", "<|im_end|>"];

/// A tokenizer.
pub(crate) struct Vocabulary {
    tokenizer: Tokenizer,
    ends: Vec<u32>,
}

/// What a model is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Prompt<'p> {
    /// Text to go on with.
    Text(&'p str),
    /// A user's message, and what the model was told before it.
    Chat { system: Option<&'p str>, user: &'p str },
}

impl Vocabulary {
    /// Reads a tokenizer.json.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read the tokenizer {}", path.display()))?;
        let tokenizer = Tokenizer::from_bytes(bytes);
        Self::new(tokenizer.map_err(|error| anyhow!("{} is no tokenizer: {error}", path.display()))?)
    }

    fn new(mut tokenizer: Tokenizer) -> Result<Self> {
        // These are for batches of training data: a prompt is taken whole or refused.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(anyhow::Error::from_boxed)?;
        let added = tokenizer.get_added_tokens_decoder();
        let ends = added.iter().filter(|(_, token)| END_OF_TEXT.contains(&token.content.as_str()));
        let ends = ends.map(|(&id, _)| id).collect();
        Ok(Self { tokenizer, ends })
    }

    /// The tokens of a prompt.
    pub(crate) fn encode(&self, prompt: Prompt<'_>) -> Result<Vec<u32>> {
        let encoded = match prompt {
            // What the tokenizer itself puts around a text, as a token for its begin.
            Prompt::Text(text) => self.tokenizer.encode(text, true),
            Prompt::Chat { system, user } => {
                if let Some(mark) = CHAT_MARKS.iter().find(|mark| self.tokenizer.token_to_id(mark).is_none()) {
                    bail!("--chat: the tokenizer has no token {mark}, so the model knows no ChatML");
                }
                self.tokenizer.encode(chat_ml(system, user), false)
            }
        };
        Ok(encoded.map_err(anyhow::Error::from_boxed)?.get_ids().to_vec())
    }

    /// Whether a token ends a text.
    pub(crate) fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// An empty text, to which tokens are added.
    pub(crate) fn text(&self) -> GrowingText<'_> {
        GrowingText { vocabulary: self, tokens: Vec::new(), shown: String::new() }
    }

    fn decode(&self, tokens: &[u32]) -> Result<String> {
        self.tokenizer.decode(tokens, true).map_err(anyhow::Error::from_boxed)
    }
}

/// The messages as ChatML, up to where the model's own begins.
fn chat_ml(system: Option<&str>, user: &str) -> String {
    let [start, end] = CHAT_MARKS;
    let system = system.map_or_else(String::new, |system| format!("{start}system\n{system}{end}\n"));
    format!("{system}{start}user\n{user}{end}\n{start}assistant\n")
}

/// The text of tokens that come one by one.
///
/// A token may hold a part of a character, and what a token's text is can depend on the one before it: so the latest tokens are
/// decoded together, and what may still change is held back.
pub(crate) struct GrowingText<'v> {
    vocabulary: &'v Vocabulary,
    /// The latest tokens.
    tokens: Vec<u32>,
    /// What was given out of their text.
    shown: String,
}

/// Stands for bytes that are no character, or not one yet.
const REPLACEMENT: char = '\u{fffd}';

/// A character has four bytes at most: so many of the last can still become one.
const OPEN_BYTES: usize = 3;

/// So many tokens are decoded together, and so many of them are kept for those that follow.
const MOST_TOKENS: usize = 64;
const KEPT_TOKENS: usize = 16;

impl GrowingText<'_> {
    /// Adds a token. Returns the text that is certain now.
    pub(crate) fn push(&mut self, token: u32) -> Result<String> {
        self.tokens.push(token);
        let text = self.vocabulary.decode(&self.tokens)?;
        let open = text.chars().rev().take(OPEN_BYTES).take_while(|&char| char == REPLACEMENT).count();
        let certain = text.len() - open * REPLACEMENT.len_utf8();
        let new = self.show(&text[..certain]);
        if self.tokens.len() >= MOST_TOKENS && open == 0 {
            self.tokens.drain(..self.tokens.len() - KEPT_TOKENS);
            self.shown = self.vocabulary.decode(&self.tokens)?;
        }
        Ok(new)
    }

    /// No token follows. Returns what was held back.
    pub(crate) fn finish(mut self) -> Result<String> {
        let text = self.vocabulary.decode(&self.tokens)?;
        Ok(self.show(&text))
    }

    /// What is new in a text. Where a decoder took back what was given out, nothing is given out twice.
    fn show(&mut self, text: &str) -> String {
        let new = text.strip_prefix(self.shown.as_str()).unwrap_or_default().to_owned();
        if text.len() > self.shown.len() {
            text.clone_into(&mut self.shown);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tokenizer of bytes: the ids of bytes are the bytes, and those that no text has are special.
    fn bytes() -> Vocabulary {
        vocabulary(include_str!("../../tests/data/bytes_tokenizer.json"))
    }

    fn vocabulary(json: &str) -> Vocabulary {
        Vocabulary::new(json.parse().unwrap()).unwrap()
    }

    /// What is shown after each token, and at the end.
    fn shown(vocabulary: &Vocabulary, tokens: &[u32]) -> Vec<String> {
        let mut text = vocabulary.text();
        let mut parts: Vec<String> = tokens.iter().map(|&token| text.push(token).unwrap()).collect();
        parts.push(text.finish().unwrap());
        parts
    }

    #[test]
    fn prompts_become_tokens_and_marks_are_single_ones() {
        let vocabulary = bytes();
        assert_eq!(vocabulary.encode(Prompt::Text("aé")).unwrap(), [97, 0xc3, 0xa9]);
        let chat = Prompt::Chat { system: None, user: "a" };
        let text = |text: &str| text.bytes().map(u32::from).collect::<Vec<u32>>();
        let user = [&[254][..], &text("user\na"), &[255], &text("\n"), &[254], &text("assistant\n")].concat();
        assert_eq!(vocabulary.encode(chat).unwrap(), user);
        let told = vocabulary.encode(Prompt::Chat { system: Some("b"), user: "a" }).unwrap();
        assert_eq!(told, [&[254][..], &text("system\nb"), &[255], &text("\n"), &user].concat());
        assert_eq!([97, 253, 254, 255].map(|token| vocabulary.is_end(token)), [false, true, false, true]);
    }

    #[test]
    fn a_character_of_several_tokens_is_shown_when_it_is_whole() {
        let vocabulary = bytes();
        let tokens: Vec<u32> = "a€b😀".bytes().map(u32::from).collect();
        assert_eq!(shown(&vocabulary, &tokens), ["a", "", "", "€", "b", "", "", "", "😀", ""]);
        // Without its end it is a replacement at the end, and so are bytes that are no text; special tokens are none.
        assert_eq!(shown(&vocabulary, &tokens[..3]), ["a", "", "", "\u{fffd}"]);
        assert_eq!(shown(&vocabulary, &[97, 0xf8, 255, 98]), ["a", "", "", "\u{fffd}b", ""]);
    }

    #[test]
    fn long_texts_lose_nothing_where_tokens_are_dropped() {
        let vocabulary = bytes();
        let mut rng = fastrand::Rng::with_seed(1);
        let words = ["word ", "größe ", "核", "😀", "\n", "  "];
        let text: String = (0..500).map(|_| words[rng.usize(..words.len())]).collect();
        let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
        assert_eq!(shown(&vocabulary, &tokens).concat(), text);
        // Any bytes at all: as many replacements as one decoding of all gives, give or take those at a seam.
        let tokens: Vec<u32> = (0..5000).map(|_| rng.u32(0..253)).collect();
        assert_eq!(shown(&vocabulary, &tokens).concat(), vocabulary.decode(&tokens).unwrap());
    }

    #[test]
    fn decoders_that_look_at_the_word_before_keep_their_spaces() {
        // Words with a mark for the space before them, and bytes as a fallback: the way of SentencePiece.
        let vocabulary = vocabulary(
            r#"{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab":
                {"<unk>": 0, "▁one": 1, "▁two": 2, "<0xE2>": 3, "<0x82>": 4, "<0xAC>": 5}}}"#,
        );
        assert_eq!(shown(&vocabulary, &[1, 2, 3, 4, 5, 1]), ["one", " two", "", "", "€", " one", ""]);
        let many: Vec<u32> = (0..300).map(|index| 1 + index % 2).collect();
        assert_eq!(shown(&vocabulary, &many).concat(), "one two ".repeat(150).trim_end());
        let error = vocabulary.encode(Prompt::Chat { system: None, user: "one" }).unwrap_err().to_string();
        assert_eq!(error, "--chat: the tokenizer has no token <|im_start|>, so the model knows no ChatML");
    }
}
