//! The ETDump: the bytes that ExecuTorch's Inspector accepted, and what a reader finds in any other.

mod export_cases;

#[path = "../src/profile/export/generated"]
#[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "generated, with builders beside the readers that the tests need"
)]
mod generated {
    pub(crate) mod etdump;
}

use export_cases::{AWKWARD, FLAGGED, awkward_profile, golden, long_profile, profile_of, random_profile, run, written};
use generated::etdump::{EtDump, EtDumpRef};
use planus::ReadAsRoot;
use torchlight::Profile;
use torchlight::profile::export::write_etdump;
use torchlight::profile::{DeviceClock, Quality};

fn etdump(profile: &Profile) -> Vec<u8> {
    written(|out| write_etdump(profile, out))
}

/// An event as a reader finds it.
#[derive(Debug, PartialEq)]
struct Event {
    name: String,
    instruction: i32,
    begin_ns: u64,
    end_ns: u64,
}

/// The runs of a dump, after a look at everything that is the same in all events.
fn runs(bytes: &[u8]) -> Vec<Vec<Event>> {
    let (size, flatbuffer) = bytes.split_at(4);
    assert_eq!(u32::from_le_bytes(size.try_into().unwrap()) as usize, flatbuffer.len());
    assert_eq!(&flatbuffer[4..8], b"ED00");
    let dump: EtDump = EtDumpRef::read_as_root(flatbuffer).unwrap().try_into().unwrap();
    let run = |run: generated::etdump::RunData| {
        assert_eq!((run.name.as_deref(), run.bundled_input_index), (Some("Execute"), -1));
        assert_eq!(run.allocators, None);
        run.events.unwrap().into_iter().map(event).collect()
    };
    dump.run_data.unwrap().into_iter().map(run).collect()
}

fn event(event: generated::etdump::Event) -> Event {
    let event = *event.profile_event.unwrap();
    assert_eq!((event.name, event.chain_index, event.delegate_debug_id_int), (None, 0, -1));
    Event {
        name: event.delegate_debug_id_str.unwrap(),
        instruction: event.instruction_id,
        begin_ns: event.start_time,
        end_ns: event.end_time,
    }
}

#[test]
fn a_reader_finds_what_counts() {
    let mut rng = fastrand::Rng::with_seed(4);
    let random = std::iter::repeat_with(|| random_profile(&mut rng)).take(100);
    for profile in random.chain([awkward_profile(), Profile::default()]) {
        let mut dumped = runs(&etdump(&profile)).into_iter();
        for run in &profile.runs {
            let counted: Vec<_> = run.samples.iter().filter(|sample| sample.counted_ns().is_some()).collect();
            if counted.is_empty() {
                continue;
            }
            let events = dumped.next().unwrap();
            assert_eq!(events.len(), counted.len());
            for (event, sample) in events.iter().zip(counted) {
                assert_eq!(event.name, format!("{} #{}", sample.timed.kernel, sample.timed.dispatch));
                assert_eq!(event.instruction, sample.timed.instruction as i32);
                let difference = (event.end_ns - event.begin_ns) as f64 - sample.duration_ns.unwrap();
                assert!(difference.abs() <= 1.0 + 1e-6, "{event:?} and {sample:?}");
            }
            assert!(events.windows(2).all(|pair| pair[0].end_ns <= pair[1].begin_ns), "two at once: {events:#?}");
        }
        assert_eq!(dumped.next(), None);
    }
}

#[test]
fn what_does_not_count_is_left_out() {
    let clock = DeviceClock { period_ns: 1.0, quantum_ticks: 8 };
    let flagged = run(0, &["k"; FLAGGED.len()], &FLAGGED, clock);
    let nothing = run(1, &["k"; 2], &[(0, 0), (9, 5)], clock);
    let found = runs(&etdump(&profile_of(&[flagged.clone(), nothing])));
    let event =
        |name: &str, instruction, begin_ns, end_ns| Event { name: name.to_owned(), instruction, begin_ns, end_ns };
    let wanted = vec![event("k #0", 0, 0, 100), event("k #1", 0, 100, 200), event("k #5", 1, 400, 500)];
    assert_eq!(found, [wanted]);
    let left_out = flagged.samples.iter().filter(|sample| !sample.quality.counts()).map(|sample| sample.quality);
    let wanted = [Quality::OutOfOrder, Quality::NotMeasured, Quality::Negative, Quality::BelowQuantum];
    assert_eq!(left_out.collect::<Vec<_>>(), wanted);
}

#[test]
fn the_bytes_are_those_that_the_inspector_accepted() {
    let bytes = etdump(&awkward_profile());
    assert!(bytes == std::fs::read(golden("profile.etdp")).unwrap(), "check the new bytes with tools/etdump_check.py");
}

#[test]
#[ignore = "writes the golden file anew, for a look with tools/etdump_check.py"]
fn write_golden() {
    std::fs::write(golden("profile.etdp"), etdump(&awkward_profile())).unwrap();
}

#[test]
fn numbers_are_aligned_from_the_start_of_the_file() {
    // The first end time of the awkward profile, which no other bytes repeat.
    let profile = awkward_profile();
    let end = runs(&etdump(&profile))[0][AWKWARD.len() - 1].end_ns.to_le_bytes();
    let bytes = etdump(&profile);
    let places: Vec<usize> = (0..bytes.len() - 8).filter(|&at| bytes[at..at + 8] == end).collect();
    assert!(places.len() == 1 && places[0].is_multiple_of(8), "{places:?}");
}

#[test]
fn names_are_unique_in_a_run_and_stored_once() {
    let [one, many] = [1000, 100_000].map(|dispatches| etdump(&long_profile(dispatches)));
    let runs = runs(&many);
    let mut names: Vec<&str> = runs[99].iter().map(|event| event.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!((runs.len(), names.len()), (100, 1000));
    assert!(many.len() < 100 * one.len(), "{} and {} bytes", one.len(), many.len());
}

#[test]
fn errors_of_the_writer_come_back() {
    let mut full: &mut [u8] = &mut [0; 100];
    assert!(write_etdump(&awkward_profile(), &mut full).is_err());
}
