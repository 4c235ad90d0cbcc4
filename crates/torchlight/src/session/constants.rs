//! The content that a program gives its tensors, on its way to the device: in pieces, without a copy of a whole tensor.

use std::borrow::Cow;

use super::states::State;
use super::{Loading, half};
use crate::error::Result;
use crate::gpu::{Engine, PIECE_BYTES};
use crate::graph::{Graph, Tensor, TensorId};
use crate::plan::{BufferId, Plan, Role};
use crate::tensor::DType;

/// Uploads the content of constants and caches. `progress` hears of every piece.
pub(super) async fn upload(
    engine: &Engine,
    (plan, graph, states): (&Plan, &Graph<'_>, &[State]),
    progress: &mut impl FnMut(Loading),
) -> Result<()> {
    let contents = contents(plan, states);
    let all_bytes = contents.iter().map(|(_, tensor)| graph.tensor(*tensor).size_bytes()).sum();
    let mut bytes = 0;
    progress(Loading::Uploaded { bytes, all_bytes });
    let mut uploads = engine.uploads();
    for (buffer, id) in contents {
        let tensor = graph.tensor(id);
        let mut offset_bytes = 0;
        for piece in pieces(tensor, PIECE_BYTES) {
            bytes += piece.len() as u64;
            let piece = match plan.dtype(id) {
                DType::F16 => half::narrow(&piece).into(),
                _ => piece,
            };
            uploads.add((buffer, offset_bytes), &piece).await?;
            offset_bytes += piece.len() as u64;
            progress(Loading::Uploaded { bytes, all_bytes });
        }
    }
    uploads.finish().await
}

/// The buffers that begin with bytes of the program, and the tensors whose bytes these are. Caches of zeros are not among them:
/// they are cleared.
fn contents(plan: &Plan, states: &[State]) -> Vec<(BufferId, TensorId)> {
    let constants = plan.buffers.iter().enumerate().filter_map(|(index, buffer)| match buffer.role {
        Role::Constant(tensor) => Some((BufferId(index as u32), tensor)),
        _ => None,
    });
    constants.chain(states.iter().filter(|state| !state.is_zero()).map(State::place)).collect()
}

/// The content of a tensor in pieces of equal size, and a last one of what is left. A piece is borrowed where its bytes lie
/// together.
fn pieces<'t, 'a>(tensor: &'t Tensor<'a>, piece_bytes: usize) -> impl Iterator<Item = Cow<'a, [u8]>> + use<'t, 'a> {
    let mut segments = tensor.segments().map(|(_, bytes)| bytes);
    // Of the latest segment.
    let mut rest: &'a [u8] = &[];
    std::iter::from_fn(move || {
        let mut piece: Cow<'a, [u8]> = Cow::Borrowed(&[]);
        while piece.len() < piece_bytes {
            if rest.is_empty() {
                let Some(segment) = segments.next() else { break };
                rest = segment;
            }
            let (now, later) = rest.split_at(rest.len().min(piece_bytes - piece.len()));
            rest = later;
            if piece.is_empty() {
                piece = Cow::Borrowed(now);
            } else {
                piece.to_mut().extend(now);
            }
        }
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Joined, Origin};
    use crate::tensor::Dims;

    /// The pieces, and which of them are borrowed.
    fn cut(tensor: &Tensor<'_>, piece_bytes: usize) -> Vec<(Vec<u8>, bool)> {
        let is_borrowed = |piece: &Cow<'_, [u8]>| matches!(piece, Cow::Borrowed(_));
        pieces(tensor, piece_bytes).map(|piece| (piece.to_vec(), is_borrowed(&piece))).collect()
    }

    fn tensor(origin: Origin<'_>) -> Tensor<'_> {
        Tensor { dtype: DType::U8, bound: Dims::new(&[10]).unwrap(), origin }
    }

    #[test]
    fn bytes_that_lie_together_are_not_copied() {
        let bytes: Vec<u8> = (0..10).collect();
        let tensor = tensor(Origin::Constant(&bytes));
        assert_eq!(cut(&tensor, 4), [(vec![0, 1, 2, 3], true), (vec![4, 5, 6, 7], true), (vec![8, 9], true)]);
        assert_eq!(cut(&tensor, 16), [(bytes.clone(), true)]);
    }

    #[test]
    fn joined_constants_are_gathered_piece_by_piece() {
        let (a, b) = ([0, 1, 2, 3, 4, 5], [6, 7, 8, 9]);
        let rows = tensor(Origin::Joined(Joined::new(vec![&a, &b], 1).unwrap()));
        assert_eq!(cut(&rows, 4), [(vec![0, 1, 2, 3], true), (vec![4, 5, 6, 7], false), (vec![8, 9], true)]);
        let turns = tensor(Origin::Joined(Joined::new(vec![&a, &b], 2).unwrap()));
        assert_eq!(cut(&turns, 8), [(vec![0, 1, 2, 6, 7, 3, 4, 5], false), (vec![8, 9], true)]);
    }

    #[test]
    fn nothing_has_no_pieces() {
        assert_eq!(cut(&tensor(Origin::Constant(&[])), 4), []);
        assert_eq!(cut(&tensor(Origin::Computed), 4), []);
    }
}
