//! Bounds what a flatbuffer may decode to, because a few bytes of it can be referred to from everywhere.

use planus::{Vector, VectorRead};

use crate::Error;

/// Decoded bytes allowed per byte of flatbuffer. The densest honest content, a list of nulls that share nothing, decodes to
/// about four times its size.
const FACTOR: usize = 8;

/// What is left of the bytes that one flatbuffer may decode to.
pub(crate) struct Budget {
    limit_bytes: usize,
    left_bytes: usize,
}

impl Budget {
    pub(crate) fn for_flatbuffer(flatbuffer: &[u8]) -> Self {
        let limit_bytes = flatbuffer.len().saturating_mul(FACTOR);
        Self { limit_bytes, left_bytes: limit_bytes }
    }

    /// Spends bytes before they are allocated or walked over.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Error> {
        match self.left_bytes.checked_sub(bytes) {
            Some(left) => {
                self.left_bytes = left;
                Ok(())
            }
            None => Err(Error::Oversized { limit_bytes: self.limit_bytes, factor: FACTOR }),
        }
    }

    /// Decodes a vector, element by element; an absent one is empty.
    pub(crate) fn list<'a, W, T>(
        &mut self,
        wire: Option<Vector<'a, W>>,
        mut decode: impl FnMut(&mut Self, usize, W) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error>
    where
        W: VectorRead<'a>,
    {
        let Some(wire) = wire else {
            return Ok(Vec::new());
        };
        self.charge(wire.len().saturating_mul(size_of::<T>()))?;
        let mut list = Vec::with_capacity(wire.len());
        for (index, item) in wire.iter().enumerate() {
            list.push(decode(self, index, item)?);
        }
        Ok(list)
    }

    /// Charges for a string: it is borrowed, but checking it as UTF-8 has walked over it.
    pub(crate) fn text<'a>(&mut self, text: Option<&'a str>) -> Result<Option<&'a str>, Error> {
        self.charge(text.map_or(0, str::len))?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_once() {
        let mut budget = Budget::for_flatbuffer(&[0; 10]);
        assert_eq!(budget.charge(79), Ok(()));
        assert_eq!(budget.charge(1), Ok(()));
        let error = budget.charge(1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "decodes to more than 80 bytes, 8 times its own size: parts of it are used many times over"
        );
        assert_eq!(Budget::for_flatbuffer(&[0; 10]).charge(usize::MAX), Err(error));
    }
}
