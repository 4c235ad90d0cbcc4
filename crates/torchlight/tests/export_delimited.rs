//! The tables of dispatches: one row each, all columns, nothing lost and nothing made up.

mod export_cases;

use export_cases::{AWKWARD, FLAGGED, awkward_profile, long_profile, random_profile, written};
use torchlight::Profile;
use torchlight::profile::export::{write_csv, write_tsv};

const COLUMNS: usize = 20;

fn csv(profile: &Profile) -> Vec<u8> {
    written(|out| write_csv(profile, out))
}

fn tsv(profile: &Profile) -> String {
    String::from_utf8(written(|out| write_tsv(profile, out))).unwrap()
}

/// The rows of a comma-separated table as an independent reader finds them, the header first.
fn csv_rows(bytes: &[u8]) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(bytes);
    reader.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
}

/// The rows of a tab-separated table: a line each, fields with their escapes undone.
fn tsv_rows(text: &str) -> Vec<Vec<String>> {
    let lines = text.strip_suffix('\n').expect("the last line ends, too").split('\n');
    lines.map(|line| line.split('\t').map(unescaped).collect()).collect()
}

fn unescaped(field: &str) -> String {
    let mut characters = field.chars();
    let mut text = String::new();
    while let Some(character) = characters.next() {
        text.push(match character {
            '\\' => match characters.next() {
                Some('\\') => '\\',
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                other => panic!("escape {other:?} in {field:?}"),
            },
            other => other,
        });
    }
    text
}

#[test]
fn both_tables_hold_what_the_profile_does() {
    let mut rng = fastrand::Rng::with_seed(1);
    let random = std::iter::repeat_with(|| random_profile(&mut rng)).take(50);
    for profile in random.chain([awkward_profile(), Profile::default()]) {
        let rows = csv_rows(&csv(&profile));
        assert_eq!(rows, tsv_rows(&tsv(&profile)));
        assert!(rows.iter().all(|row| row.len() == COLUMNS));
        let mut rows = rows[1..].iter();
        for run in &profile.runs {
            for sample in &run.samples {
                let row = rows.next().unwrap();
                let timed = &sample.timed;
                let texts = [row[3].as_str(), row[5].as_str(), row[7].as_str(), row[19].as_str()];
                assert_eq!(texts, [&*timed.kernel, &*timed.operator, &*timed.shape, sample.quality.name()]);
                let numbers: [u64; 5] =
                    [&row[1], &row[2], &row[12], &row[14], &row[15]].map(|field| field.parse().unwrap());
                let wanted = [run.run, timed.dispatch.into(), timed.bytes, sample.ticks.begin, sample.ticks.end];
                assert_eq!(numbers, wanted);
                let times: [Option<f64>; 3] = [&row[16], &row[17], &row[18]].map(|field| field.parse().ok());
                assert_eq!(
                    times,
                    [sample.begin_ns, sample.end_ns, sample.duration_ns],
                    "every number survives exactly"
                );
                let context: Option<u32> = row[8].parse().ok();
                assert_eq!((context, row[4].as_str()), (timed.context_len, timed.route.map_or("", |r| r.name())));
            }
        }
        assert_eq!(rows.next(), None);
    }
}

#[test]
fn the_table_looks_like_this() {
    let text = tsv(&awkward_profile());
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap().replace('\t', " "),
        "step run dispatch kernel route operator node shape context_len workgroups_x workgroups_y workgroup_size bytes \
         flops begin_ticks end_ticks begin_ns end_ns duration_ns quality"
    );
    assert_eq!(
        lines.nth(3).unwrap(),
        "0\t0\t3\tnew\\nline\t\toperator of new\\nline\t6\t[1, 3] new\\nline\t4\t4\t2\t64\t8\t51\t36028797018966968\t\
         36028797018967092\t156249\t162707.292\t6458.2919999999995\tok"
    );
}

#[test]
fn what_was_not_measured_is_empty() {
    let rows = csv_rows(&csv(&awkward_profile()));
    let flagged = &rows[1 + 3 * AWKWARD.len()..];
    assert_eq!(flagged.len(), FLAGGED.len());
    let found: Vec<[&str; 3]> = flagged.iter().map(|row| [&*row[16], &*row[18], &*row[19]]).collect();
    let wanted = [
        ["0", "5208.3", "ok"],
        ["2604.15", "5208.3", "overlap_removed"],
        ["3124.98", "0", "out_of_order"],
        ["", "", "not_measured"],
        ["", "", "negative"],
        ["20833.2", "5208.3", "ok"],
        ["31249.8", "", "below_quantum"],
    ];
    assert_eq!(found, wanted);
}

#[test]
fn a_table_grows_with_its_rows_alone() {
    let [some, many] = [10_000, 100_000].map(|dispatches| csv(&long_profile(dispatches)));
    assert_eq!(csv_rows(&many).len(), 100_001);
    assert!(many.len() < 11 * some.len(), "{} and {} bytes", some.len(), many.len());
}

#[test]
fn errors_of_the_writer_come_back() {
    let mut full: &mut [u8] = &mut [0; 100];
    assert!(write_csv(&awkward_profile(), &mut full).is_err());
    let mut full: &mut [u8] = &mut [0; 100];
    assert!(write_tsv(&awkward_profile(), &mut full).is_err());
}
