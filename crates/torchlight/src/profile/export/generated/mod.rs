//! Flatbuffer readers and builders that planus generated from `schema/*.fbs`; `schema/README.md` says how.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated: holds readers beside the builders, and planus implements its unsafe traits"
)]

pub(crate) mod etdump;
