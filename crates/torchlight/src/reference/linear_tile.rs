//! `linear_tile`: a linear layer.

pub use super::linear_vector::reference;
