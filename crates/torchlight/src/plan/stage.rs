//! The kernels of attention as dispatches: what each makes of a problem.

use super::launch::write;
use crate::kernels::{
    AttentionProblem, KvType, Work, sdpa_compute_attn_weights, sdpa_compute_out, sdpa_matrix, sdpa_merge, sdpa_softmax,
    sdpa_split, sdpa_streaming,
};

/// A kernel of attention, and what its params follow from besides the problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Scores.
    ComputeAttnWeights,
    /// Scores to weights.
    Softmax,
    /// Weights times values.
    ComputeOut,
    /// Attention tile by tile.
    Streaming(sdpa_streaming::Shape),
    /// Attention of few tokens over parts of the keys.
    Split(sdpa_split::Shape, Parts),
    /// Attention on cooperative matrices, perhaps over parts of the keys.
    Matrix(sdpa_matrix::Shape, Parts),
    /// The results of the parts of [`Stage::Split`], joined.
    MergeSplit(sdpa_split::Shape, Parts),
    /// The results of the parts of [`Stage::Matrix`], joined.
    MergeMatrix(sdpa_matrix::Shape, Parts),
}

/// Into how many parts keys may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// Workgroups that fill the device.
    pub target_workgroups: u32,
    /// Partial rows (rows of q times parts) that scratch memory holds.
    pub capacity_rows: u64,
}

impl Parts {
    /// So many parts, or as many as scratch memory holds; each has a key.
    fn fitting(&self, problem: &AttentionProblem, wanted: u32) -> u32 {
        let rows = u64::from(problem.q_heads) * u64::from(problem.new_tokens);
        let parts = u64::from(wanted).min(self.capacity_rows / rows).max(1) as u32;
        problem.context_len().div_ceil(problem.context_len().div_ceil(parts))
    }

    fn of_split(&self, problem: &AttentionProblem, shape: sdpa_split::Shape) -> u32 {
        self.fitting(problem, sdpa_split::splits(problem, shape, self.target_workgroups))
    }

    fn of_matrix(&self, problem: &AttentionProblem, shape: sdpa_matrix::Shape) -> sdpa_matrix::Params {
        let splits = self.fitting(problem, sdpa_matrix::splits(problem, shape));
        sdpa_matrix::params(problem, sdpa_matrix::Choice { shape, splits })
    }
}

impl Stage {
    /// Writes the params of a step into their slot and returns the number of workgroups: 0 where there is nothing to do.
    pub fn resolve(&self, problem: &AttentionProblem, kv: KvType, slot: &mut [u8]) -> u64 {
        match *self {
            Self::ComputeAttnWeights => {
                write(slot, &sdpa_compute_attn_weights::params(problem, kv));
                sdpa_compute_attn_weights::workgroups(problem)
            }
            Self::Softmax => {
                write(slot, &sdpa_softmax::params(problem));
                sdpa_softmax::workgroups(problem)
            }
            Self::ComputeOut => {
                write(slot, &sdpa_compute_out::params(problem, kv));
                sdpa_compute_out::workgroups(problem, kv)
            }
            Self::Streaming(shape) => {
                write(slot, &sdpa_streaming::params(problem, &shape));
                sdpa_streaming::workgroups(problem, &shape)
            }
            Self::Split(shape, parts) => {
                let splits = parts.of_split(problem, shape);
                write(slot, &sdpa_split::params(problem, shape, splits));
                sdpa_split::workgroups(problem, shape, splits)
            }
            Self::Matrix(shape, parts) => {
                let params = parts.of_matrix(problem, shape);
                write(slot, &params);
                sdpa_matrix::workgroups(&params)
            }
            Self::MergeSplit(shape, parts) => merge(problem, parts.of_split(problem, shape), slot),
            Self::MergeMatrix(shape, parts) => merge(problem, parts.of_matrix(problem, shape).splits, slot),
        }
    }

    /// What a step must do.
    pub fn work(&self, problem: &AttentionProblem, kv: KvType) -> Work {
        match self {
            Self::ComputeAttnWeights => sdpa_compute_attn_weights::work(problem, kv),
            Self::Softmax => sdpa_softmax::work(problem),
            Self::ComputeOut => sdpa_compute_out::work(problem, kv),
            Self::Streaming(_) => sdpa_streaming::work(problem, kv),
            Self::Split(..) => sdpa_split::work(problem, kv),
            Self::Matrix(..) => sdpa_matrix::work(problem, kv),
            Self::MergeSplit(..) | Self::MergeMatrix(..) => sdpa_merge::work(problem),
        }
    }
}

/// What was not split was written in its place: there is nothing to join.
fn merge(problem: &AttentionProblem, splits: u32, slot: &mut [u8]) -> u64 {
    write(slot, &sdpa_merge::params(problem, splits));
    if splits > 1 { sdpa_merge::workgroups(problem) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_exceed_scratch_and_each_has_a_key() {
        for (capacity_rows, new_tokens, input_pos) in [(0, 1, 99), (64, 1, 0), (200, 3, 997), (5000, 8, 4000)] {
            let problem =
                AttentionProblem { q_heads: 12, kv_heads: 2, head_dim: 64, new_tokens, input_pos, scale: 1.0 };
            let parts = Parts { target_workgroups: 384, capacity_rows };
            for wanted in 1..300 {
                let fitting = parts.fitting(&problem, wanted);
                assert!(fitting == 1 || u64::from(fitting * 12 * new_tokens) <= capacity_rows, "{parts:?} {wanted}");
                let chunk = problem.context_len().div_ceil(fitting);
                assert!((fitting - 1) * chunk < problem.context_len(), "{parts:?} {wanted}");
            }
        }
    }
}
