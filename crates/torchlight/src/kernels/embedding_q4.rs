//! `embedding_q4`: rows of a table of 4-bit numbers.

use bytemuck::{Pod, Zeroable};

use super::{Access, Bounds, Kernel, Needs, Variant, Work};

/// Invocations of a workgroup.
pub const WORKGROUP_SIZE: u32 = 64;

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "embedding_q4",
    wgsl: include_str!("embedding_q4.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// Which column of a byte's two stands in its low half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LowColumn {
    /// The even one.
    Even,
    /// The odd one.
    Odd,
}

impl LowColumn {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Even, Self::Odd];
}

/// The sizes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Ids, and rows of the result.
    pub ids: u32,
    /// Rows of the table.
    pub rows: u32,
    /// Elements of a row.
    pub columns: u32,
    /// Columns that share a scale; divides `columns`.
    pub group: u32,
}

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// Elements of the result.
    pub elements: u32,
    /// Rows of the table.
    pub rows: u32,
    /// Elements of a row.
    pub columns: u32,
    /// Columns that share a scale.
    pub group: u32,
}

/// The variant for a way of packing.
pub fn variant(low: LowColumn) -> Variant {
    let block = match low {
        LowColumn::Even => "const LOW_COLUMN: u32 = 0u;\n",
        LowColumn::Odd => "const LOW_COLUMN: u32 = 1u;\n",
    };
    Variant {
        kernel: &KERNEL,
        label: "embedding_q4",
        block: block.into(),
        workgroup_size: WORKGROUP_SIZE,
        workgroup_bytes: 0,
        needs: Needs::default(),
    }
}

/// Params of a step.
pub fn params(lookup: Lookup) -> Params {
    let Lookup { ids, rows, columns, group } = lookup;
    // Plans refuse results of more elements than 32 bits count.
    Params { elements: ids.saturating_mul(columns), rows, columns, group }
}

/// Workgroups of a step.
pub fn workgroups(lookup: Lookup) -> u64 {
    u64::from(params(lookup).elements).div_ceil(WORKGROUP_SIZE.into())
}

/// What a step must do: read the ids and their rows of numbers and scales, write the result; a product an element.
pub fn work(lookup: Lookup) -> Work {
    let [ids, columns, group] = [lookup.ids, lookup.columns, lookup.group].map(u64::from);
    Work { bytes: ids * (4 + columns / 2 + 4 * (columns / group) + 4 * columns), flops: ids * columns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_the_rows_that_are_read() {
        let lookup = Lookup { ids: 3, rows: 1000, columns: 12, group: 6 };
        // For each id: itself, 6 bytes of numbers, 2 scales, 12 elements.
        assert_eq!(work(lookup), Work { bytes: 3 * (4 + 6 + 8 + 48), flops: 36 });
    }
}
