//! New items of lists: what is written, not how.

use crate::definition::{Output, Spec};

/// A new item of a list.
pub(super) enum NewItem<'a> {
    Text(&'a str),
    Fields(Vec<Field<'a>>),
}

/// A field of a new item.
pub(super) enum Field<'a> {
    Text(&'static str, &'a str),
    Texts(&'static str, Vec<&'a str>),
}

impl<'a> NewItem<'a> {
    /// A spec; what it leaves out is not written.
    pub(super) fn of_spec(spec: &'a Spec) -> Self {
        let mut fields = Vec::new();
        if !spec.selector.is_empty() {
            fields.push(Field::Text("selector", &spec.selector.value));
        }
        fields.extend(spec.name.as_deref().map(|name| Field::Text("name", name)));
        fields.extend(spec.within.as_ref().map(|within| Field::Text("within", &within.text)));
        if !spec.assertions.is_empty() {
            let texts = spec.assertions.iter().map(|assertion| assertion.value.as_str()).collect();
            fields.push(Field::Texts("assertions", texts));
        }
        Self::Fields(fields)
    }

    /// An output.
    pub(super) fn of_output(output: &'a Output) -> Self {
        Self::Fields(vec![
            Field::Text("name", &output.name.value),
            Field::Text("selector", &output.selector.value),
            Field::Text("value", &output.value.value),
        ])
    }
}
