//! What the JSON shapes of resources share: keys that are left out, texts, and objects with the user's own keys.

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::text::Text;

/// Whether a value is the default one and left out.
pub(super) fn is_blank<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An object with keys of the user's own, in their order.
#[derive(Debug, Default, PartialEq, JsonSchema)]
#[schemars(with = "std::collections::BTreeMap<String, String>", inline)]
pub(super) struct Pairs<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Pairs<'a> {
    pub(super) fn of(pairs: &'a [(String, Text)]) -> Self {
        Self(pairs.iter().map(|(name, value)| (name.as_str(), value.value.as_str())).collect())
    }

    pub(super) fn sorted(mut self) -> Self {
        self.0.sort_by_key(|(name, _)| *name);
        self
    }
}

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

pub(super) fn texts(texts: &[Text]) -> Vec<&str> {
    texts.iter().map(|text| text.value.as_str()).collect()
}
