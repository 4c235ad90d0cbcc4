//! How many workgroups a dispatch has, folded into the two dimensions that WebGPU limits.

/// The workgroups of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Workgroups along x.
    pub x: u32,
    /// Workgroups along y: rows of x workgroups each. The last row may be longer than what is left to do.
    pub y: u32,
}

impl Grid {
    /// Folds `workgroups` into rows of at most `limit`, or `None` where even that is too many.
    ///
    /// A kernel finds its flat index as `group.y * groups.x + group.x`, and returns where that is too large: the last
    /// row is not always full.
    pub fn fold(workgroups: u64, limit: u32) -> Option<Self> {
        let x = workgroups.clamp(1, u64::from(limit));
        let y = workgroups.div_ceil(x).max(1);
        (y <= u64::from(limit)).then_some(Self { x: x as u32, y: y as u32 })
    }

    /// Workgroups in all, those that return at once included.
    pub fn workgroups(self) -> u64 {
        u64::from(self.x) * u64::from(self.y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_fold_at_the_limit() {
        let grid = |x, y| Some(Grid { x, y });
        assert_eq!(Grid::fold(1, 65535), grid(1, 1));
        assert_eq!(Grid::fold(65535, 65535), grid(65535, 1));
        assert_eq!(Grid::fold(65536, 65535), grid(65535, 2));
        assert_eq!(Grid::fold(65535 * 65535, 65535), grid(65535, 65535));
        assert_eq!(Grid::fold(65535 * 65535 + 1, 65535), None);
    }
}
