//! Which sizes of which tensors are equal in every run, as far as the operators tell.

use crate::graph::{Ending, Graph, IntArg, Operator, Origin, Part, Projection, SymIntId, TensorId, ViewShape, Weight};
use crate::tensor::Dims;

/// A size of a tensor in any run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Size {
    /// This many.
    Known(u32),
    /// Something that only the run tells: the same number wherever the same one stands.
    Live(u32),
}

/// The sizes of each tensor.
pub(super) struct Sizes {
    of: Vec<Vec<Size>>,
    ints: Vec<Option<Size>>,
    unknown: u32,
}

impl Sizes {
    pub(super) fn of(graph: &Graph<'_>) -> Self {
        let mut sizes = Self { of: Vec::new(), ints: vec![None; graph.sym_ints as usize], unknown: 0 };
        for tensor in &graph.tensors {
            let is_live = match tensor.origin {
                Origin::Input(input) => graph.inputs[input].dynamic,
                Origin::Constant(_) | Origin::Joined(_) | Origin::State(_) => false,
                Origin::Computed => true,
            };
            let of = sizes.bounded(tensor.bound, is_live);
            sizes.of.push(of);
        }
        // Others than computed ones have a shape before the first operator.
        let mut is_set: Vec<bool> = graph.tensors.iter().map(|tensor| tensor.origin != Origin::Computed).collect();
        for node in &graph.nodes {
            for (tensor, found) in sizes.follow(graph, &node.operator) {
                let again = std::mem::replace(&mut is_set[tensor.index()], true);
                let found = found.filter(|found| !again || *found == sizes.of[tensor.index()]);
                // What two operators give two shapes has neither for sure.
                sizes.of[tensor.index()] = found.unwrap_or_else(|| sizes.bounded(graph.tensor(tensor).bound, true));
            }
        }
        sizes
    }

    /// The sizes of a tensor.
    pub(super) fn get(&self, tensor: TensorId) -> &[Size] {
        self.of.get(tensor.index()).map_or(&[], Vec::as_slice)
    }

    /// Whether two tensors have the same shape in every run.
    pub(super) fn are_equal(&self, a: TensorId, b: TensorId) -> bool {
        self.get(a) == self.get(b)
    }

    /// Whether two tensors have equally many rows of the same length in every run.
    pub(super) fn have_equal_rows(&self, a: TensorId, b: TensorId) -> bool {
        let [a, b] = [a, b].map(|tensor| self.get(tensor).split_last());
        let (Some((a_width, a)), Some((b_width, b))) = (a, b) else { return false };
        a_width == b_width && quotient(&mut a.to_vec(), b) == Some(Size::Known(1))
    }

    /// The sizes that a bound leaves: no size is 0.
    fn bounded(&mut self, bound: Dims, is_live: bool) -> Vec<Size> {
        let size = |&size: &u32| match is_live && size != 1 {
            true => self.fresh(),
            false => Size::Known(size),
        };
        bound.as_slice().iter().map(size).collect()
    }

    fn fresh(&mut self) -> Size {
        self.unknown += 1;
        Size::Live(self.unknown - 1)
    }

    /// The tensors whose shapes an operator decides, with what is known of them.
    fn follow(&mut self, graph: &Graph<'_>, operator: &Operator) -> Vec<(TensorId, Option<Vec<Size>>)> {
        let like = |tensor: TensorId| Some(self.get(tensor).to_vec());
        let broadcast = |a, b| like(a).filter(|_| self.are_equal(a, b));
        match operator {
            Operator::SdpaWithKvCache(op) => vec![(op.out, like(op.q))],
            Operator::Attend(op) => vec![(op.out, like(op.q))],
            Operator::RmsNorm(op) => {
                self.learn(op.x, self.get(op.weight).first().and_then(|size| size.known()));
                vec![(op.out, Some(self.get(op.x).to_vec()))]
            }
            Operator::Sigmoid(op) => vec![(op.out, like(op.x))],
            Operator::ApplyRotaryEmb(op) => vec![(op.q_out, like(op.q)), (op.k_out, like(op.k))],
            Operator::CopyTensor(op) => vec![(op.to, like(op.from))],
            Operator::Add(op) => vec![(op.out, broadcast(op.a, op.b))],
            Operator::Mul(op) => vec![(op.out, broadcast(op.a, op.b))],
            Operator::Embedding(op) => vec![(op.out, self.looked_up(op.ids, graph.tensor(op.out).bound))],
            Operator::EmbeddingQ4(op) => vec![(op.out, self.looked_up(op.ids, graph.tensor(op.out).bound))],
            Operator::ViewCopy(op) => match &op.shape {
                ViewShape::Same => vec![(op.out, like(op.x))],
                ViewShape::Sizes(sizes) => vec![(op.out, Some(self.viewed(op.x, sizes)))],
            },
            Operator::SliceCopy(op) => vec![(op.out, Some(self.sliced(op.x, op.dim, op.part)))],
            Operator::SymSize(op) => {
                let size = self.get(op.tensor).get(op.dim).copied();
                self.set_int(op.out, size);
                vec![]
            }
            Operator::Linear(op) => vec![(op.out, self.projected(&op.into()))],
            Operator::LinearQ4(op) => vec![(op.out, self.projected(&op.into()))],
            Operator::Projection(op) => vec![(op.out, self.projected(op))],
            Operator::RotaryUpdateCache(op) => vec![(op.q_out, None)],
            // Of the cache that it writes the shape stays.
            Operator::UpdateCache(_) => vec![],
            Operator::SelectAsSymInt(op) => {
                self.set_int(op.out, None);
                vec![]
            }
            Operator::AddSymInt(op) => {
                self.set_int(op.out, None);
                vec![]
            }
        }
    }

    /// Notes that a tensor's rows have this length in every run that is not refused.
    fn learn(&mut self, rows: TensorId, known: Option<u32>) {
        let (Some(&live @ Size::Live(_)), Some(known)) = (self.get(rows).last(), known) else { return };
        let all = self.of.iter_mut().flatten().chain(self.ints.iter_mut().flatten());
        all.filter(|size| **size == live).for_each(|size| *size = Size::Known(known));
    }

    /// The rows of x, each as long as a result.
    fn projected(&mut self, op: &Projection) -> Option<Vec<Size>> {
        let columns = self.get(op.weight.rows()).get(1).and_then(|size| size.known());
        let columns = match op.weight {
            Weight::F32(_) => columns,
            Weight::Q4(_) => columns.and_then(|bytes| bytes.checked_mul(2)),
        };
        self.learn(op.x, columns);
        let rows = *self.get(op.weight.rows()).first()?;
        let width = match (op.ending, rows) {
            (Ending::Plain | Ending::Add(_), rows) => rows,
            (Ending::SwiGlu, Size::Known(rows)) => Size::Known(rows / 2),
            (Ending::SwiGlu, Size::Live(_)) => return None,
        };
        let mut sizes = self.get(op.x).to_vec();
        *sizes.last_mut()? = width;
        Some(sizes)
    }

    fn looked_up(&self, ids: TensorId, out: Dims) -> Option<Vec<Size>> {
        let width = Size::Known(*out.as_slice().last()?);
        Some(self.get(ids).iter().copied().chain([width]).collect())
    }

    /// The sizes of a view, of which one may be what the others leave.
    fn viewed(&mut self, x: TensorId, sizes: &[IntArg]) -> Vec<Size> {
        let mut left = self.get(x).to_vec();
        let mut viewed = Vec::with_capacity(sizes.len());
        let mut free = None;
        for (dim, &size) in sizes.iter().enumerate() {
            let size = match size {
                IntArg::Known(-1) => {
                    free = Some(dim);
                    Size::Known(1)
                }
                IntArg::Known(size) => u32::try_from(size).map_or_else(|_| self.fresh(), Size::Known),
                IntArg::Live(sym) => {
                    let known = self.ints.get(sym.index()).copied().flatten();
                    known.unwrap_or_else(|| self.fresh())
                }
            };
            viewed.push(size);
        }
        if let Some(dim) = free {
            viewed[dim] = quotient(&mut left, &viewed).unwrap_or_else(|| self.fresh());
        }
        viewed
    }

    fn sliced(&mut self, x: TensorId, dim: usize, part: Part) -> Vec<Size> {
        let mut sizes = self.get(x).to_vec();
        if dim >= sizes.len() {
            return sizes;
        }
        match part {
            Part::One(_) => drop(sizes.remove(dim)),
            Part::Range { .. } => sizes[dim] = self.fresh(),
        }
        sizes
    }

    fn set_int(&mut self, sym: SymIntId, size: Option<Size>) {
        if let Some(int) = self.ints.get_mut(sym.index()) {
            *int = size;
        }
    }
}

impl Size {
    pub(super) const fn known(self) -> Option<u32> {
        match self {
            Self::Known(size) => Some(size),
            Self::Live(_) => None,
        }
    }
}

/// What is left of the product of some sizes when that of others is taken out, where it is one size.
fn quotient(product: &mut Vec<Size>, others: &[Size]) -> Option<Size> {
    let known = |sizes: &[Size]| {
        sizes.iter().filter_map(|size| size.known()).try_fold(1u64, |all, size| all.checked_mul(size.into()))
    };
    let (above, below) = (known(product)?, known(others)?);
    for live in others.iter().filter(|size| size.known().is_none()) {
        let place = product.iter().position(|size| size == live)?;
        product.remove(place);
    }
    let mut live = product.iter().filter(|size| size.known().is_none());
    match (live.next(), live.next()) {
        (None, _) if above.checked_rem(below) == Some(0) => u32::try_from(above / below).ok().map(Size::Known),
        (Some(&live), None) if above == below => Some(live),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphBuilder;
    use crate::tensor::DType;

    #[test]
    fn live_sizes_are_followed_through_views_and_layers() {
        let weight = vec![0; 4 * 8 * 6];
        let mut graph = GraphBuilder::new("sizes");
        let x = graph.input(DType::F32, &[1, 9, 6]).unwrap();
        let weight = graph.constant(DType::F32, &[8, 6], &weight).unwrap();
        let product = graph.linear(x, weight, None).unwrap();
        let tokens = graph.sym_size(x, 1);
        let heads = [IntArg::Known(1), tokens, IntArg::Known(2), IntArg::Known(4)];
        let heads = graph.view_copy(product, &heads, &[1, 9, 2, 4]).unwrap();
        let sum = graph.add(product, product, 1.0).unwrap();
        let rest =
            graph.view_copy(heads, &[IntArg::Known(1), IntArg::Known(-1), IntArg::Known(8)], &[1, 9, 8]).unwrap();
        let other = graph.input(DType::F32, &[1, 9, 8]).unwrap();
        let broadcast = graph.add(other, product, 1.0).unwrap();
        let graph = graph.finish().unwrap();
        let sizes = Sizes::of(&graph);
        let &[Size::Known(1), tokens @ Size::Live(_), Size::Known(6)] = sizes.get(x) else {
            panic!("{:?}", sizes.get(x))
        };
        assert_eq!(sizes.get(product), [Size::Known(1), tokens, Size::Known(8)]);
        assert_eq!(sizes.get(heads), [Size::Known(1), tokens, Size::Known(2), Size::Known(4)]);
        assert!(sizes.are_equal(sum, product) && sizes.are_equal(rest, product));
        assert!(!sizes.are_equal(other, product), "two inputs");
        assert!(!sizes.are_equal(broadcast, product) && !sizes.are_equal(broadcast, other));
    }

    #[test]
    fn what_is_static_is_known() {
        let mut graph = GraphBuilder::new("sizes");
        let x = graph.static_input(DType::F32, &[3, 5]).unwrap();
        let y = graph.input(DType::F32, &[1, 5]).unwrap();
        let graph = graph.finish().unwrap();
        let sizes = Sizes::of(&graph);
        assert_eq!(sizes.get(x), [Size::Known(3), Size::Known(5)]);
        assert!(matches!(sizes.get(y), [Size::Known(1), Size::Live(_)]), "a bound of 1 leaves nothing open");
    }

    #[test]
    fn a_size_is_what_others_leave() {
        let (a, b) = (Size::Live(0), Size::Live(1));
        let known = |sizes: &[u32]| sizes.iter().copied().map(Size::Known).collect::<Vec<_>>();
        let left = |product: &[Size], others: &[Size]| quotient(&mut product.to_vec(), others);
        assert_eq!(left(&known(&[2, 3, 4]), &known(&[6])), Some(Size::Known(4)));
        assert_eq!(left(&known(&[2, 3]), &known(&[4])), None);
        assert_eq!(left(&known(&[2, 3]), &known(&[0])), None);
        assert_eq!(left(&[a, Size::Known(6)], &known(&[2, 3])), Some(a));
        assert_eq!(left(&[a, Size::Known(6)], &[a, Size::Known(2)]), Some(Size::Known(3)));
        assert_eq!(left(&[a, b], &[]), None);
        assert_eq!(left(&[a], &[b]), None);
        assert_eq!(left(&[Size::Known(1), a], &[a]), Some(Size::Known(1)));
    }
}
