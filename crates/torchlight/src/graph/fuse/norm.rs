//! A norm in front of linear layers.

use super::{Fuser, Rewrite};
use crate::graph::{Norm, Operator, Projection};

/// Layers norm their rows themselves, where nobody else reads the norm's result:
///
/// ```text
/// rows = rms_norm(x, g)                | a = rms_norm+linear(x, g, A)
/// a = linear(rows, A)                  | b = rms_norm+linear(x, g, B)
/// b = linear(rows, B)                  |
/// ```
pub(super) fn rms_norm(fuser: &mut Fuser<'_, '_>, anchor: usize) -> Option<Rewrite> {
    let Operator::RmsNorm(op) = fuser.operator(anchor) else { return None };
    let (op, readers) = (op.clone(), fuser.uses.readers(op.out));
    if fuser.uses.producer(op.out) != Some(anchor) || readers.is_empty() {
        return None;
    }
    let norm = Norm { weight: op.weight, eps: op.eps };
    let mut nodes = Vec::with_capacity(readers.len());
    for &reader in readers {
        let layer = fuser.operator(reader).projection()?;
        // As what is added, or twice, it would have to be there.
        let reads_it_once = readers.iter().filter(|&&other| other == reader).count() == 1;
        if layer.x != op.out || layer.norm.is_some() || !reads_it_once || !fuser.uses.can_wait(&[anchor, reader]) {
            return None;
        }
        let layer = Projection { x: op.x, norm: Some(norm), ..layer };
        nodes.push((reader, fuser.instead_of(reader, Operator::Projection(layer))));
    }
    let gone = nodes.iter().map(|(reader, _)| *reader).chain([anchor]).collect();
    Some(Rewrite { gone, nodes })
}
