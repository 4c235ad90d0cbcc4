//! `linear_q4_vector`: a linear layer over a weight of 4-bit numbers.

pub use super::linear_vector::reference;
