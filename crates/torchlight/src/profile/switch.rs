//! The switch that turns timestamps on: the value of an environment variable, read elsewhere.

use crate::error::{Error, Result};

/// The environment variable.
pub const TIMESTAMP_QUERY_VARIABLE: &str = "WEBGPU_TIMESTAMP_QUERY";

/// Whether a value of the variable means on. `None` is an unset variable.
///
/// # Errors
/// [`Error::Setting`] for a value that is neither.
pub fn parse_switch(value: Option<&str>) -> Result<bool> {
    match value.unwrap_or("").to_ascii_lowercase().as_str() {
        "" | "0" | "false" | "off" => Ok(false),
        "1" | "true" | "on" => Ok(true),
        _ => Err(Error::Setting {
            name: TIMESTAMP_QUERY_VARIABLE,
            value: value.unwrap_or("").to_owned(),
            wanted: "wanted 1, true or on, or 0, false, off or nothing",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_off_on_or_an_error() {
        for off in [None, Some(""), Some("0"), Some("false"), Some("off"), Some("OFF")] {
            assert!(!parse_switch(off).unwrap(), "{off:?}");
        }
        for on in ["1", "true", "on", "True"] {
            assert!(parse_switch(Some(on)).unwrap(), "{on:?}");
        }
        for neither in ["2", "yes", " 1", "pass"] {
            let error = parse_switch(Some(neither)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("WEBGPU_TIMESTAMP_QUERY={neither:?}: wanted 1")), "{error}");
        }
    }
}
