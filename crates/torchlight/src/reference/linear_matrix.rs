//! `linear_matrix`: a linear layer.

pub use super::linear_vector::reference;
