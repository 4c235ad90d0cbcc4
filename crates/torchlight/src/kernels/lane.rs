//! How many elements a kernel moves at once.

/// The width of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Four elements: rows have a multiple of four.
    Four,
    /// One element.
    One,
}

impl Lane {
    /// Both.
    pub(super) const ALL: [Self; 2] = [Self::Four, Self::One];

    /// The widest lane that divides rows of `width` elements.
    pub const fn dividing(width: u32) -> Self {
        if width.is_multiple_of(4) { Self::Four } else { Self::One }
    }

    /// Elements of a lane.
    pub const fn elements(self) -> u32 {
        match self {
            Self::Four => 4,
            Self::One => 1,
        }
    }
}
