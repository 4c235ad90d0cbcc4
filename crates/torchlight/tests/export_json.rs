//! The JSON export: it comes back as it was, and what is no profile is refused with the reason.

mod export_cases;

use std::collections::BTreeSet;

use export_cases::{awkward_profile, golden, long_profile, profile_of, random_profile, run, written};
use serde_json::{Value, json};
use torchlight::Profile;
use torchlight::profile::DeviceClock;
use torchlight::profile::export::{ReadError, read_json, write_json};

fn json(profile: &Profile) -> Vec<u8> {
    written(|out| write_json(profile, out))
}

fn error(bytes: &[u8]) -> String {
    read_json(bytes).unwrap_err().to_string()
}

/// A profile's JSON with something changed.
fn changed(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value = serde_json::from_slice(&json(&awkward_profile())).unwrap();
    change(&mut value);
    serde_json::to_vec(&value).unwrap()
}

#[test]
fn profiles_come_back_as_they_were() {
    let mut rng = fastrand::Rng::with_seed(2);
    let random = std::iter::repeat_with(|| random_profile(&mut rng)).take(200);
    for profile in random.chain([awkward_profile(), Profile::default()]) {
        let bytes = json(&profile);
        let read = read_json(&bytes).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read, profile);
        assert_eq!(json(&read), bytes);
    }
}

#[test]
fn files_of_this_version_stay_readable() {
    let bytes = std::fs::read(golden("profile.json")).unwrap();
    assert_eq!(read_json(&bytes).unwrap(), awkward_profile());
}

#[test]
#[ignore = "writes the golden file anew, for a new version of the schema"]
fn write_golden() {
    std::fs::write(golden("profile.json"), json(&awkward_profile())).unwrap();
}

#[test]
fn what_is_no_json_is_refused() {
    assert_eq!(error(b""), "the JSON is cut off at line 1, column 0");
    assert_eq!(error(b"step\trun\n"), "not JSON: expected value at line 1 column 1");
    assert_eq!(error(b"{\n\"schema\": nil}"), "not JSON: expected ident at line 2 column 12");
    assert!(error(b"\xff\xfe{").starts_with("not JSON"));
    let twice = [json(&awkward_profile()), json(&awkward_profile())].concat();
    assert!(error(&twice).starts_with("not JSON: trailing characters at line 2 column 1"));
}

#[test]
fn a_file_cut_anywhere_is_called_cut_off() {
    let clock = DeviceClock { period_ns: 1.5, quantum_ticks: 1 };
    let bytes = json(&profile_of(&[run(0, &["größe\n", "b"], &[(5, 9), (0, 0)], clock)]));
    let whole = bytes.len() - 1;
    assert!(read_json(&bytes[..whole]).is_ok(), "only the last newline is missing");
    for end in 0..whole {
        let error = read_json(&bytes[..end]).unwrap_err();
        // The parser calls the first half of a number a wrong one.
        let in_number = bytes[..end].ends_with(b".");
        let found = match &error {
            ReadError::Truncated { line: 1, column } => *column == end,
            ReadError::NotJson(_) => in_number,
            _ => false,
        };
        assert!(found, "{end} bytes: {error}");
    }
}

#[test]
fn other_json_is_refused_with_what_it_is() {
    let wanted = "not a profile: wanted an object with the schema \"torchlight-profile\", found ";
    assert_eq!(error(br#"{"traceEvents": []}"#), format!("{wanted}no schema"));
    assert_eq!(error(br#"{"schema": "other", "version": 1}"#), format!("{wanted}\"other\""));
    assert_eq!(error(br#"{"schema": 7}"#), format!("{wanted}7"));
    for other in ["7", "\"torchlight-profile\"", "null", "true"] {
        assert!(error(other.as_bytes()).starts_with(&format!("{wanted}invalid type: ")), "{other}");
    }
}

#[test]
fn other_versions_are_refused_with_both_numbers() {
    let of_version = |version: Value| error(&changed(|profile| profile["version"] = version));
    assert_eq!(of_version(json!(2)), "a profile of version 2, and this reads version 1");
    assert_eq!(of_version(json!("1")), "a profile of version \"1\", and this reads version 1");
    assert_eq!(of_version(Value::Null), "a profile of version no version, and this reads version 1");
}

#[test]
fn damage_is_named_with_its_place() {
    let damaged = |change: fn(&mut Value)| {
        let error = read_json(&changed(change)).unwrap_err();
        assert!(matches!(error, ReadError::Damaged(_)), "{error}");
        error.to_string()
    };
    let missing = damaged(|profile| drop(profile["runs"][0]["samples"][1].as_object_mut().unwrap().remove("kernel")));
    assert!(missing.starts_with("a damaged profile: missing field `kernel` at line 1 column "), "{missing}");
    let unknown = damaged(|profile| profile["runs"][0]["samples"][0]["quality"] = json!("splendid"));
    assert!(unknown.contains("unknown variant `splendid`, expected one of `ok`"), "{unknown}");
    let negative = damaged(|profile| profile["runs"][0]["samples"][0]["bytes"] = json!(-1));
    assert!(negative.contains("invalid value: integer `-1`, expected u64"), "{negative}");
    let null = damaged(|profile| profile["runs"][0]["host"]["wall_ns"] = Value::Null);
    assert!(null.contains("invalid type: null, expected f64"), "{null}");
}

#[test]
fn fields_of_later_writers_are_left_out() {
    let bytes = changed(|profile| {
        profile["colour"] = json!({"r": [1, null]});
        profile["runs"][0]["samples"][0]["mood"] = json!("good");
    });
    assert_eq!(read_json(&bytes).unwrap(), awkward_profile());
}

#[test]
fn the_documentation_has_every_field() {
    fn collect(value: &Value, fields: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                fields.extend(object.keys().cloned());
                object.values().for_each(|value| collect(value, fields));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, fields)),
            _ => {}
        }
    }
    let mut fields = BTreeSet::new();
    collect(&serde_json::from_slice(&json(&awkward_profile())).unwrap(), &mut fields);
    let documentation = include_str!("../../../docs/profile-schema.md");
    let missing: Vec<_> = fields.iter().filter(|field| !documentation.contains(&format!("`{field}`"))).collect();
    assert!(missing.is_empty(), "docs/profile-schema.md does not have {missing:?}");
}

#[test]
fn a_long_profile_comes_back() {
    let profile = long_profile(100_000);
    assert_eq!(read_json(&json(&profile)).unwrap(), profile);
}

#[test]
fn errors_of_the_writer_come_back() {
    let mut full: &mut [u8] = &mut [0; 100];
    assert!(write_json(&awkward_profile(), &mut full).is_err());
}
