//! Lookups in quantised tables as dispatches.

use super::builder::{Builder, Draft, Operand};
use super::launch::{Described, Launch, write};
use crate::graph::{EmbeddingQ4, Live, NibbleOrder, TensorId};
use crate::kernels::embedding_q4::{self, Lookup, LowColumn};

/// Where a lookup in a table of 4-bit numbers finds its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbeddingLaunch {
    /// The table's bytes: its rows, half its columns.
    pub table: TensorId,
    /// Which rows.
    pub ids: TensorId,
    /// Columns that share a scale.
    pub group: u32,
}

impl EmbeddingLaunch {
    fn lookup(&self, live: &Live) -> Lookup {
        let table = live.dims(self.table);
        let size = |dim: usize| table.as_slice().get(dim).copied().unwrap_or(1);
        let ids = live.dims(self.ids).elements() as u32;
        Lookup { ids, rows: size(0), columns: 2 * size(1), group: self.group }
    }

    /// Writes the params of a run and returns the number of workgroups.
    pub(super) fn resolve(&self, live: &Live, slot: &mut [u8]) -> u64 {
        let lookup = self.lookup(live);
        write(slot, &embedding_q4::params(lookup));
        embedding_q4::workgroups(lookup)
    }

    pub(super) fn describe(&self, live: &Live) -> Described {
        let lookup = self.lookup(live);
        let Lookup { ids, rows, columns, group } = lookup;
        let shape = format!("s{ids} k{columns} of {rows} g{group}");
        Described { shape, context_len: None, work: embedding_q4::work(lookup) }
    }
}

impl Builder<'_, '_> {
    pub(super) fn embedding_q4(&self, op: &EmbeddingQ4) -> Draft {
        let low = match op.order {
            NibbleOrder::EvenLow => LowColumn::Even,
            NibbleOrder::OddLow => LowColumn::Odd,
        };
        let table = op.table;
        Draft {
            variant: embedding_q4::variant(low),
            operands: [table.weight, table.scales, op.ids, op.out].map(Operand::Tensor).to_vec(),
            alternative: None,
            launch: Launch::EmbeddingQ4(EmbeddingLaunch { table: table.weight, ids: op.ids, group: table.group }),
            max_workgroups: None,
        }
    }
}
