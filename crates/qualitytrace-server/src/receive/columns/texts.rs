//! A table of texts in which each is kept once.

use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of an entry besides its text.
const ENTRY_BYTES: u64 = 80;

/// The index of a text in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TextId(u32);

/// Texts by index.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    list: Vec<Arc<str>>,
    known: HashMap<Arc<str>, TextId>,
    bytes: u64,
}

impl Texts {
    /// Returns the index of this text, which is added if it is new.
    pub(crate) fn intern(&mut self, text: &str) -> TextId {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let id = TextId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        let text: Arc<str> = text.into();
        self.bytes += text.len() as u64 + ENTRY_BYTES;
        self.list.push(Arc::clone(&text));
        self.known.insert(text, id);
        id
    }

    pub(crate) fn get(&self, id: TextId) -> &str {
        self.list.get(id.0 as usize).map_or("", |text| text)
    }

    /// Returns the bytes that it takes in memory, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
