//! `linear_q4_tile`: a linear layer over a weight of 4-bit numbers.

pub use super::linear_vector::reference;
