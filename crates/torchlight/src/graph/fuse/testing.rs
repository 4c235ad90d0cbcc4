//! Small graphs for the tests of patterns.
