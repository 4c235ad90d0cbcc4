//! `rms_norm`: rows divided by the root of their mean square, times a weight.

use bytemuck::{Pod, Zeroable};

use super::{Access, Bounds, Kernel, Needs, Variant, Work};

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "rms_norm",
    wgsl: include_str!("rms_norm.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// The params slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Params {
    /// Rows to normalise.
    pub rows: u32,
    /// Lanes of a row, and of the weight.
    pub row_lanes: u32,
    /// Elements of a row.
    pub width: u32,
    /// Added to the mean square.
    pub eps: f32,
}

/// How a row is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    /// Whether a lane is four elements, not one: every row has a multiple of four.
    lanes_of_four: bool,
    /// Invocations of a workgroup, which is a row.
    workgroup_size: u32,
}

impl Cut {
    /// Every cut.
    pub const ALL: [Self; 4] = [Self::new(1), Self::new(1025), Self::new(4), Self::new(4096)];

    /// The cut of rows of `width` elements in every run: few invocations where there is little to add up.
    pub const fn new(width: u32) -> Self {
        let lanes_of_four = width.is_multiple_of(4);
        let lanes = if lanes_of_four { width / 4 } else { width };
        Self { lanes_of_four, workgroup_size: if lanes > 128 { 256 } else { 64 } }
    }

    /// The cut of rows whose width is known only when they are there.
    pub const ANY: Self = Self::new(1);

    const fn lanes(self, width: u32) -> u32 {
        if self.lanes_of_four { width / 4 } else { width }
    }
}

/// The variant of a cut.
pub fn variant(cut: Cut) -> Variant {
    let lanes = match cut.lanes_of_four {
        true => ("vec4<f32>", "dot(x, x)"),
        false => ("f32", "x * x"),
    };
    let block = format!(
        "alias Lanes = {};\nconst WORKGROUP_SIZE: u32 = {}u;\nfn squares(x: Lanes) -> f32 {{ return {}; }}\n",
        lanes.0, cut.workgroup_size, lanes.1
    );
    Variant {
        kernel: &KERNEL,
        label: KERNEL.stem,
        block: block.into(),
        workgroup_size: cut.workgroup_size,
        workgroup_bytes: cut.workgroup_size * 4,
        needs: Needs::default(),
    }
}

/// Rows of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// How many.
    pub rows: u32,
    /// Elements of each.
    pub width: u32,
}

/// Params of a step.
pub fn params(rows: Rows, cut: Cut, eps: f32) -> Params {
    Params { rows: rows.rows, row_lanes: cut.lanes(rows.width), width: rows.width, eps }
}

/// Workgroups of a step: one a row.
pub fn workgroups(rows: Rows) -> u64 {
    rows.rows.into()
}

/// What a step must do: read rows and weight, write rows; square and add each element, multiply it twice; a division, a
/// sum and a root a row.
pub fn work(rows: Rows) -> Work {
    let (count, width) = (u64::from(rows.rows), u64::from(rows.width));
    Work { bytes: 4 * (2 * count * width + width), flops: count * (4 * width + 3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_reads_the_weight_once() {
        // Three rows of eight: 24 read, 24 written, 8 of the weight; 32 + 3 operations a row.
        assert_eq!(work(Rows { rows: 3, width: 8 }), Work { bytes: 4 * 56, flops: 105 });
    }

    #[test]
    fn long_rows_take_more_invocations() {
        let sizes = |width| (Cut::new(width).lanes_of_four, Cut::new(width).workgroup_size);
        assert_eq!([64, 512, 516, 576].map(sizes), [(true, 64), (true, 64), (true, 256), (true, 256)]);
        assert_eq!([1, 127, 129, 577].map(sizes), [(false, 64), (false, 64), (false, 256), (false, 256)]);
    }
}
