//! Constants that are found by a key, in a program or in a `.ptd` file.

use std::collections::BTreeMap;

use crate::Error;
use crate::bounds::checked_index;
use crate::budget::Budget;
use crate::error::{Within, quoted};

/// Content by key, each key once.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedData<'a>(BTreeMap<&'a str, &'a [u8]>);

impl<'a> NamedData<'a> {
    /// Resolves pairs of key and segment index.
    pub(crate) fn resolve<W>(
        entries: Option<planus::Vector<'a, W>>,
        segments: &[&'a [u8]],
        budget: &mut Budget,
        read: impl Fn(W) -> Result<(Option<&'a str>, u32), planus::Error>,
    ) -> Result<Self, Error>
    where
        W: planus::VectorRead<'a>,
    {
        let pairs = budget.list(entries, |budget, index, entry| {
            let (key, segment) = read(entry)?;
            let what = || format!("named data {index}");
            let Some(key) = budget.text(key)? else {
                return Err(Error::malformed(what(), "has no key"));
            };
            let segment = checked_index(segment, segments.len(), "segment").within(what)?;
            Ok((key, segments[segment as usize]))
        })?;
        let mut by_key = BTreeMap::new();
        for (key, content) in pairs {
            if by_key.insert(key, content).is_some() {
                return Err(Error::malformed(format!("named data {}", quoted(key)), "the key is there twice"));
            }
        }
        Ok(Self(by_key))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a [u8]> {
        self.0.get(key).copied()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = (&'a str, usize)> {
        self.0.iter().map(|(&key, content)| (key, content.len()))
    }
}
