//! Which tensors share a buffer: those whose lifetimes do not meet.
//!
//! A buffer is shared whole, never carved: WebGPU tracks whole buffers, so two ranges of one buffer cannot be read and
//! written in the same dispatch.

/// Something that needs memory from one step to another, both included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    /// The step that writes it first.
    pub(super) first: usize,
    /// The last step that uses it.
    pub(super) last: usize,
    /// How much it needs.
    pub(super) size_bytes: u64,
}

/// Slots and who lives in which.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Slots {
    /// Size of each slot.
    pub(super) size_bytes: Vec<u64>,
    /// The slot of each lifetime, in the order given.
    pub(super) of: Vec<usize>,
}

/// Gives every lifetime a slot.
///
/// Lifetimes are served in order of their first step: from the free slots it takes the smallest that is large enough,
/// else it grows the largest, else it opens a new one.
pub(super) fn assign(lifetimes: &[Lifetime]) -> Slots {
    let mut order: Vec<usize> = (0..lifetimes.len()).collect();
    order.sort_by_key(|&index| (lifetimes[index].first, std::cmp::Reverse(lifetimes[index].size_bytes)));
    let mut slots = Slots { size_bytes: Vec::new(), of: vec![usize::MAX; lifetimes.len()] };
    let mut busy_until: Vec<usize> = Vec::new();
    for index in order {
        let lifetime = lifetimes[index];
        let free = || (0..busy_until.len()).filter(|&slot| busy_until[slot] < lifetime.first);
        let fitting = free()
            .filter(|&slot| slots.size_bytes[slot] >= lifetime.size_bytes)
            .min_by_key(|&slot| slots.size_bytes[slot]);
        let slot = fitting.or_else(|| free().max_by_key(|&slot| slots.size_bytes[slot])).unwrap_or_else(|| {
            slots.size_bytes.push(0);
            busy_until.push(0);
            busy_until.len() - 1
        });
        slots.size_bytes[slot] = slots.size_bytes[slot].max(lifetime.size_bytes);
        busy_until[slot] = lifetime.last;
        slots.of[index] = slot;
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifetime(first: usize, last: usize, size_bytes: u64) -> Lifetime {
        Lifetime { first, last, size_bytes }
    }

    #[test]
    fn lifetimes_that_meet_never_share() {
        // A pseudo-random set; the property is checked pair by pair.
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let lifetimes: Vec<Lifetime> = (0..200)
            .map(|_| {
                let first = next(100) as usize;
                lifetime(first, first + next(20) as usize, 16 * (1 + next(50)))
            })
            .collect();
        let slots = assign(&lifetimes);
        for (i, a) in lifetimes.iter().enumerate() {
            assert!(slots.size_bytes[slots.of[i]] >= a.size_bytes);
            for (j, b) in lifetimes.iter().enumerate().skip(i + 1) {
                let meet = a.first <= b.last && b.first <= a.last;
                assert!(!meet || slots.of[i] != slots.of[j], "{a:?} and {b:?} share slot {}", slots.of[i]);
            }
        }
        let shared: u64 = slots.size_bytes.iter().sum();
        let apart: u64 = lifetimes.iter().map(|lifetime| lifetime.size_bytes).sum();
        assert!(shared * 2 < apart, "{shared} of {apart} bytes");
    }

    #[test]
    fn a_chain_needs_two_buffers() {
        let chain: Vec<Lifetime> = (0..10).map(|step| lifetime(step, step + 1, 64)).collect();
        assert_eq!(assign(&chain).size_bytes, [64, 64]);
    }
}
