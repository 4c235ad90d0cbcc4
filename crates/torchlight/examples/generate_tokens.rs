//! Greedy tokens of a language model, then a step back and the same again.
//!
//! `cargo run --release -p torchlight --example generate_tokens [MODEL.pte [TOKEN ...]]`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use torchlight::{Generator, Gpu, GpuOptions, Graph, Program, Session, SessionOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tiny_llama_q4/model.pte");
    let mut args = std::env::args().skip(1);
    let bytes = std::fs::read(args.next().as_deref().unwrap_or(fixture))?;
    let mut prompt = args.map(|token| token.parse()).collect::<Result<Vec<u32>, _>>()?;
    if prompt.is_empty() {
        prompt = vec![5, 10, 15, 20];
    }

    let program = Program::parse(&bytes)?;
    let graph = Graph::from_method(&program, "forward")?;
    let gpu = Gpu::open_blocking(&GpuOptions::default())?;
    let mut generator = Generator::new(Session::new(&gpu, &graph, SessionOptions::from_env()?)?)?;
    println!("a vocabulary of {}, a context of {}", generator.vocab_size(), generator.max_context());

    let first = continue_greedily(&mut generator, &prompt, 8)?;
    println!("{prompt:?} goes on with {first:?}");

    // A step back costs nothing: what comes next takes the place of what was there.
    generator.rewind(0)?;
    assert_eq!(continue_greedily(&mut generator, &prompt, 8)?, first);
    Ok(())
}

/// Pushes a prompt, then the most likely token again and again.
fn continue_greedily(generator: &mut Generator, prompt: &[u32], count: usize) -> torchlight::Result<Vec<u32>> {
    let mut tokens = vec![most_likely(generator.push(prompt)?)];
    while tokens.len() < count && generator.position() < generator.max_context() {
        let last = tokens[tokens.len() - 1];
        tokens.push(most_likely(generator.push(&[last])?));
    }
    Ok(tokens)
}

fn most_likely(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map_or(0, |(token, _)| token as u32)
}
