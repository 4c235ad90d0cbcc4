//! Parsing allocates at most a few times the file's size, whatever the file says. One test: the counter is global.

#[allow(dead_code, reason = "each test file uses a part")]
mod fixture_files;
#[allow(dead_code, reason = "each test file uses a part")]
mod handmade;

use peak_alloc::PeakAlloc;
use torchlight_pte::{DelegateGraph, Program};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What parsing a file may hold at once, per byte of it.
const FACTOR: usize = 12;
/// For messages and what else does not grow with the file.
const CONSTANT: usize = 4096;

#[test]
fn parsing_holds_a_few_times_the_file() {
    let mut random = fastrand::Rng::with_seed(28);
    for fixture in fixture_files::all().into_iter().filter(|fixture| fixture.bytes.len() < 8192) {
        check(&fixture.bytes);
        let mut damaged = fixture.bytes.clone();
        for _ in 0..500 {
            let at = random.usize(..damaged.len());
            let kept = std::mem::replace(&mut damaged[at], random.u8(..));
            check(&damaged);
            damaged[at] = kept;
        }
    }
    for (values, list) in [(4, 1000), (100, 100), (1000, 1000), (30_000, 30_000), (100_000, 1)] {
        check(&handmade::many_values_of_one_list(values, list));
    }
}

fn check(bytes: &[u8]) {
    let limit = bytes.len() * FACTOR + CONSTANT;
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let mut graphs = Vec::new();
    let program = Program::parse(bytes);
    if let Ok(program) = &program {
        let delegates = program.methods.iter().flat_map(|method| &method.delegates);
        graphs.extend(delegates.map(|delegate| DelegateGraph::parse(delegate.blob)));
    }
    let peak = ALLOCATOR.peak_usage() - before;
    assert!(peak <= limit, "{peak} bytes for a file of {} bytes", bytes.len());
}
