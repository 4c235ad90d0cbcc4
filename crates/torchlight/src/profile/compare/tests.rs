//! Comparisons of profiles made by hand, with seeded noise.

use super::bootstrap::normal;
use super::*;
use crate::profile::testing::{run, sample};
use crate::profile::{DeviceClock, KeyStatistics};

/// A profile of one run, which says the clock, and of these durations a kernel, in ns.
fn profile(kernels: &[(&str, Vec<f64>)]) -> Profile {
    let statistics = kernels.iter().map(|(kernel, values)| {
        let mut durations = Durations::default();
        values.iter().for_each(|&value| durations.add(&sample(kernel, Some(value))));
        KeyStatistics { key: Key::of(&sample(kernel, None)), durations }
    });
    let run = run(Vec::new());
    Profile { mode: run.mode, runs: vec![run], statistics: statistics.collect(), ..Profile::default() }
}

/// Durations about a median with 5 % of noise, and now and then a long one, as where something else ran.
fn noisy(median_ns: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut random = Rng::with_seed(seed);
    let one = |_| {
        let long = if random.f64() < 0.02 { 3.0 } else { 1.0 };
        median_ns * long * (0.05 * normal(&mut random)).exp()
    };
    (0..count).map(one).collect()
}

fn compared(before: &Profile, after: &Profile) -> Comparison {
    compare(before, after, &CompareOptions::default()).unwrap()
}

fn verdicts(comparison: &Comparison) -> Vec<Verdict> {
    comparison.keys.iter().map(|key| key.verdict).collect()
}

fn kernels<'k>(keys: impl IntoIterator<Item = &'k Key>) -> Vec<&'k str> {
    keys.into_iter().map(|key| &*key.kernel).collect()
}

#[test]
fn a_profile_does_not_differ_from_itself() {
    let profile = profile(&[("a", noisy(5000.0, 300, 1)), ("b", noisy(90_000.0, 20, 2)), ("c", vec![700.0; 50])]);
    let comparison = compared(&profile, &profile);
    assert_eq!(verdicts(&comparison), [Verdict::Noise; 3]);
    assert!(comparison.keys.iter().all(|key| key.ratio == Some(1.0) && key.cost_ns() == Some(0.0)));
    assert_eq!(comparison.keys[2].interval, Some(Interval { low: 1.0, high: 1.0 }));
    let total = comparison.total.unwrap();
    assert_eq!((total.keys, total.ratio, total.verdict), (3, 1.0, Verdict::Noise));
    assert_eq!(comparison.regressions(0.0).count(), 0);
    assert!(comparison.notes.is_empty() && comparison.only_before.is_empty() && comparison.only_after.is_empty());
}

#[test]
fn what_changed_is_told_from_noise() {
    let of = |[slower, same, faster]: [f64; 3], seed| {
        profile(&[
            ("slower", noisy(slower, 400, seed)),
            ("same", noisy(same, 100, seed + 1)),
            ("shorter", noisy(faster, 400, seed + 2)),
        ])
    };
    let comparison = compared(&of([5000.0, 5000.0, 5000.0], 10), &of([6000.0, 5050.0, 4650.0], 20));
    assert_eq!(kernels(comparison.keys.iter().map(|key| &key.key)), ["same", "shorter", "slower"]);
    assert_eq!(verdicts(&comparison), [Verdict::Noise, Verdict::Faster, Verdict::Slower]);
    let slower = &comparison.keys[2];
    let Interval { low, high } = slower.interval.unwrap();
    assert!(low > 1.15 && low < 1.2 && high > 1.2 && high < 1.25, "{low} {high}");
    assert!((slower.cost_ns().unwrap() / 400.0 - 1000.0).abs() < 100.0, "{slower:?}");

    let regressed = |threshold| kernels(comparison.regressions(threshold).map(|key| &key.key));
    assert_eq!((regressed(0.05), regressed(0.15)), (vec!["slower"], vec!["slower"]));
    // The ratio lies above 1.19, but not all of its interval.
    assert!(slower.ratio.unwrap() > 1.19 && regressed(0.19).is_empty(), "{slower:?}");

    let total = comparison.total.unwrap();
    let wanted = (400.0 * 6000.0 + 100.0 * 5050.0 + 400.0 * 4650.0) / (900.0 * 5000.0);
    assert!((total.ratio - wanted).abs() < 0.015, "{total:?}");
    assert!(total.interval.low < total.ratio && total.ratio < total.interval.high, "{total:?}");
    assert_eq!(total.verdict, Verdict::Slower);
}

#[test]
fn a_long_tail_does_not_move_a_median() {
    let mut after = noisy(5000.0, 200, 4);
    after.iter_mut().step_by(10).for_each(|duration| *duration *= 50.0);
    let comparison = compared(&profile(&[("a", noisy(5000.0, 200, 3))]), &profile(&[("a", after)]));
    assert_eq!(verdicts(&comparison), [Verdict::Noise]);
}

#[test]
fn too_few_durations_have_no_interval() {
    for (before, after, verdict) in
        [(7, 100, Verdict::TooFew), (100, 7, Verdict::TooFew), (0, 100, Verdict::TooFew), (8, 8, Verdict::Slower)]
    {
        let comparison =
            compared(&profile(&[("a", noisy(1000.0, before, 1))]), &profile(&[("a", noisy(2000.0, after, 2))]));
        let key = &comparison.keys[0];
        assert_eq!(key.verdict, verdict, "{before} and {after}");
        assert_eq!(key.interval.is_some(), verdict == Verdict::Slower);
        assert_eq!(key.ratio.is_some(), before > 0, "a ratio of two medians, however few they are made of");
        assert_eq!((key.before.median_ns.is_some(), key.before_ns().is_some()), (before > 0, before > 0));
        assert_eq!(comparison.total.is_some(), key.interval.is_some());
    }
}

#[test]
fn keys_of_one_side_stand_apart() {
    let before = profile(&[("a", noisy(10.0, 20, 1)), ("b", noisy(10.0, 20, 1))]);
    let after = profile(&[("b", noisy(10.0, 20, 1)), ("c", noisy(10.0, 20, 1)), ("d", Vec::new())]);
    let comparison = compared(&before, &after);
    assert_eq!(kernels(comparison.keys.iter().map(|key| &key.key)), ["b"]);
    assert_eq!((kernels(&comparison.only_before), kernels(&comparison.only_after)), (vec!["a"], vec!["c", "d"]));
    let disjoint = compared(&profile(&[("a", noisy(10.0, 20, 1))]), &after);
    assert_eq!((disjoint.keys.len(), disjoint.total), (0, None));
    let empty = compared(&Profile::default(), &Profile::default());
    assert_eq!((empty.keys.len(), empty.total, empty.clock_step_ns), (0, None, None));
}

#[test]
fn different_devices_and_modes_are_refused() {
    let before = Profile {
        adapter: Adapter { name: "GPU".into(), backend: "vulkan".into(), driver: "1.0".into(), is_cpu: false },
        ..profile(&[("a", noisy(10.0, 20, 1))])
    };
    let mut after = before.clone();
    let allowed = CompareOptions { allow_different_adapters: true, ..CompareOptions::default() };

    after.adapter.driver = "1.1".into();
    let drivers = Note::DifferentDrivers { before: "1.0".into(), after: "1.1".into() };
    assert_eq!(compared(&before, &after).notes, [drivers]);

    for (name, backend) in [("other", "vulkan"), ("GPU", "metal")] {
        after.adapter = Adapter { name: name.into(), backend: backend.into(), ..before.adapter.clone() };
        let error = compare(&before, &after, &CompareOptions::default()).unwrap_err().to_string();
        let wanted = format!("GPU (vulkan), and {name} ({backend})");
        assert_eq!(error, format!("the profiles are of different adapters: {wanted}"));
        let notes = compare(&before, &after, &allowed).unwrap().notes;
        assert_eq!(notes[0].to_string(), format!("different adapters: {wanted}"));
    }

    let of_mode = |mode, run_mode| {
        let mut profile = Profile { mode, ..before.clone() };
        profile.runs[0].mode = run_mode;
        profile
    };
    use TimestampMode::{Inside, Pass};
    for mixed in [of_mode(Inside, Inside), of_mode(Pass, Inside)] {
        let error = compare(&before, &mixed, &allowed).unwrap_err();
        assert_eq!(error, CompareError::Modes { before: Pass, after: Inside });
    }
    let inside = of_mode(Inside, Inside);
    assert_eq!(compared(&inside, &inside).mode, Inside);
}

#[test]
fn what_the_clock_or_the_method_cannot_tell_is_noise() {
    let of = |value: f64| profile(&[("a", vec![value; 100])]);
    let verdict = |before: &Profile, after: &Profile| verdicts(&compared(before, after))[0];
    assert_eq!(verdict(&of(10_000.0), &of(10_499.0)), Verdict::Noise);
    assert_eq!(verdict(&of(10_000.0), &of(10_501.0)), Verdict::Slower);

    // A clock of steps of 64 ns: one step may be a change of much less, two are one.
    let mut stepped = of(640.0);
    stepped.runs[0].clock = DeviceClock { period_ns: 0.1, quantum_ticks: 640 };
    assert_eq!(verdict(&stepped, &of(704.0)), Verdict::Noise);
    assert_eq!(verdict(&of(576.0), &stepped), Verdict::Noise);
    assert_eq!(verdict(&stepped, &of(768.0)), Verdict::Slower);
    let comparison = compared(&stepped, &of(704.0));
    assert_eq!((comparison.clock_step_ns, comparison.total.unwrap().verdict), (Some(64.0), Verdict::Noise));
}

#[test]
fn the_same_profiles_compare_the_same() {
    let before = profile(&[("a", noisy(10.0, 20, 1)), ("b", noisy(10.0, 5000, 2))]);
    let after = profile(&[("a", noisy(10.0, 30, 3)), ("b", noisy(10.0, 9000, 4))]);
    assert_eq!(compared(&before, &after), compared(&before, &after));
    let other = compare(&before, &after, &CompareOptions { seed: 2, ..CompareOptions::default() }).unwrap();
    assert_ne!(other, compared(&before, &after));
}

#[test]
fn what_did_not_change_is_seldom_said_to_have() {
    const PAIRS: usize = 200;
    // Without the least change that counts, the interval alone decides: 95 % should say noise.
    let options = CompareOptions { resolution: 0.0, resamples: 500, ..CompareOptions::default() };
    // Seeds that follow each other give related numbers: draw them, too.
    let mut seeds = Rng::with_seed(1);
    for (before_count, after_count) in [(8, 8), (9, 30), (100, 100), (8, 300), (500, 500)] {
        let mut changed = || {
            let before = profile(&[("a", noisy(5000.0, before_count, seeds.u64(..)))]);
            let after = profile(&[("a", noisy(5000.0, after_count, seeds.u64(..)))]);
            compare(&before, &after, &options).unwrap().keys[0].verdict != Verdict::Noise
        };
        let wrong = (0..PAIRS).filter(|_| changed()).count();
        assert!(wrong <= PAIRS / 10, "{before_count} and {after_count}: {wrong} of {PAIRS}");
        assert!(wrong > 0, "{before_count} and {after_count}: an interval that is never wrong is too wide");
    }
}

#[test]
fn json_says_nothing_of_what_is_not_known() {
    let before = profile(&[("a", noisy(10.0, 20, 1)), ("b", noisy(10.0, 3, 2)), ("c", Vec::new())]);
    let after = profile(&[("a", noisy(12.0, 20, 3)), ("b", noisy(10.0, 3, 2)), ("c", Vec::new())]);
    let json = serde_json::to_value(compared(&before, &after)).unwrap();
    let [a, b, c] = json["keys"].as_array().unwrap().as_slice() else { panic!("{json}") };
    assert_eq!((&a["kernel"], &a["verdict"], &a["before"]["counted"]), (&"a".into(), &"slower".into(), &20.into()));
    assert!(a["interval"]["low"].is_f64(), "{a}");
    assert!(b["verdict"] == "too_few" && b["ratio"] == 1.0 && b["interval"].is_null(), "{b}");
    assert!(c["ratio"].is_null() && c["before"]["median_ns"].is_null(), "{c}");
}
