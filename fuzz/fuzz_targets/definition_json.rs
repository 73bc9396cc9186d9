//! Fuzzes the JSON of a definition, as in the API, with any text: no panic, spans inside the text, and a round trip
//! through writing, redacted or not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qualitytrace_core::definition::{Format, Kind, check, read, secrets, to_json};
use qualitytrace_fuzz::on_a_small_stack;

fuzz_target!(|text: &str| {
    on_a_small_stack(|| {
        let reading = read(text, Format::Json);
        let found = reading.documents.iter().flat_map(|document| check(&document.resource));
        for diagnostic in reading.diagnostics.iter().cloned().chain(found) {
            assert!(text.get(diagnostic.span.clone()).is_some(), "{diagnostic:?}");
        }
        for document in reading.documents.iter().filter(|_| reading.diagnostics.is_empty()) {
            let written = to_json(&document.resource).to_string();
            let again = read(&written, Format::Json);
            assert!(again.documents.len() == 1, "{written}");
            assert!(again.documents[0].resource == document.resource, "{written}");
        }
        for kind in [Kind::Test, Kind::VariableSet, Kind::DataStore] {
            let _ = secrets::masked(text, Format::Json, kind);
        }
    });
});
