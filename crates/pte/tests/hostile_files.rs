//! Damaged files: every prefix, every flipped bit and random mutations give an error or the content, never a panic.

mod fixture_files;

use fixture_files::{all, check_message, delegate_ranges, read_everything};
use torchlight_pte::DelegateGraph;

/// Files up to this size have every bit flipped; larger ones a sample of bits.
const SMALL: usize = 4096;
const SAMPLE: usize = 150;

#[test]
fn every_prefix_of_a_file_is_refused() {
    for fixture in all() {
        for length in 0..fixture.bytes.len() {
            assert!(read_everything(&fixture.bytes[..length], &[]).is_err(), "{}: {length}", fixture.path.display());
        }
    }
}

#[test]
fn every_prefix_of_a_delegate_is_refused() {
    for fixture in all() {
        for range in delegate_ranges(&fixture.bytes) {
            let blob = &fixture.bytes[range];
            // The header promises the flatbuffer's end; what follows is padding.
            let header = |at: usize| u32::from_le_bytes(blob[at..at + 4].try_into().unwrap()) as usize;
            for length in 0..header(10) + header(14) {
                check_message(&DelegateGraph::parse(&blob[..length]).unwrap_err());
            }
        }
    }
}

#[test]
fn flipped_bits_do_no_harm() {
    std::thread::scope(|scope| {
        for fixture in all() {
            scope.spawn(move || flip_bits(&fixture.bytes));
        }
    });
}

fn flip_bits(original: &[u8]) {
    let mut random = fastrand::Rng::with_seed(26);
    let bits = original.len() * 8;
    // A .ptd file is parsed fast, and its tables are a small part that a sample would miss.
    let every = original.len() <= SMALL || original.get(4..8) == Some(b"FT01");
    let flips = (0..if every { bits } else { SAMPLE }).map(|step| if every { step } else { random.usize(..bits) });
    let delegates = delegate_ranges(original);
    let known_blobs: Vec<&[u8]> = delegates.iter().map(|range| &original[range.clone()]).collect();
    let mut damaged = original.to_vec();
    for bit in flips {
        let (at, mask) = (bit / 8, 1 << (bit % 8));
        damaged[at] ^= mask;
        match delegates.iter().find(|range| range.contains(&at)) {
            // The program's parser does not look into the blobs.
            Some(range) => {
                let _ = DelegateGraph::parse(&damaged[range.clone()]).inspect_err(check_message);
            }
            None => {
                let _ = read_everything(&damaged, &known_blobs);
            }
        }
        damaged[at] ^= mask;
    }
}

#[test]
fn random_mutations_do_no_harm() {
    const MUTATIONS: usize = 400;
    let mut random = fastrand::Rng::with_seed(27);
    for fixture in all().into_iter().filter(|fixture| fixture.bytes.len() <= 2 * SMALL) {
        let known_blobs: Vec<&[u8]> =
            delegate_ranges(&fixture.bytes).into_iter().map(|range| &fixture.bytes[range]).collect();
        for _ in 0..MUTATIONS {
            let mut bytes = fixture.bytes.clone();
            for _ in 0..random.usize(1..8) {
                mutate(&mut bytes, &mut random);
            }
            let _ = read_everything(&bytes, &known_blobs);
        }
    }
}

/// Changes a few bytes in a way that a parser may trip over.
fn mutate(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    let at = random.usize(..bytes.len());
    match random.u8(..5) {
        0 => bytes[at] = random.u8(..),
        // Numbers at the edges of their types, aligned as the format has them.
        1 => {
            let edges = [0, 1, u32::MAX, i32::MAX as u32, 1 << 31, bytes.len() as u32, u32::MAX - 3];
            overwrite(bytes, at & !3, &edges[random.usize(..edges.len())].to_le_bytes());
        }
        2 => {
            let small = random.u32(..64) * 4;
            overwrite(bytes, at & !3, &small.to_le_bytes());
        }
        // An offset or a table of another place.
        3 => {
            let from = random.usize(..bytes.len()) & !3;
            let piece = bytes[from..(from + random.usize(4..=32)).min(bytes.len())].to_vec();
            overwrite(bytes, at & !3, &piece);
        }
        _ => bytes.truncate(at.max(8)),
    }
}

fn overwrite(bytes: &mut [u8], at: usize, piece: &[u8]) {
    let length = piece.len().min(bytes.len() - at);
    bytes[at..at + length].copy_from_slice(&piece[..length]);
}
