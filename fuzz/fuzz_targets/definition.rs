//! Fuzzes definition files with any text: no panic, spans inside the text, and a round trip through writing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{Change, Format, Spec, check, edit, read, to_json, to_yaml, with_id};
use qualitytrace_fuzz::on_a_small_stack;

fuzz_target!(|text: &str| {
    on_a_small_stack(|| {
        for format in [Format::Yaml, Format::Json] {
            let reading = read(text, format);
            let found = reading.documents.iter().flat_map(|document| check(&document.resource));
            for diagnostic in reading.diagnostics.iter().cloned().chain(found) {
                assert!(text.get(diagnostic.span.clone()).is_some(), "{diagnostic:?}");
            }
            // A file with diagnostics may lose something in writing; one without must not.
            for document in reading.documents.iter().filter(|_| reading.diagnostics.is_empty()) {
                let json = to_json(&document.resource);
                for (written, format) in [(json.to_string(), Format::Json), (to_yaml(&json), Format::Yaml)] {
                    let again = read(&written, format);
                    assert!(again.documents.len() == 1, "{written}");
                    assert!(again.documents[0].resource == document.resource, "{written}");
                }
            }
            let _ = with_id(text, format, 0, "id");
            // Each result is read again and compared with what was meant.
            let spec = Spec { selector: "span[]".into(), ..Spec::default() };
            for change in [
                Change::AddSpec { at: None, spec: spec.clone() },
                Change::ChangeSpec { at: 0, spec },
                Change::RemoveSpec { at: 0 },
                Change::MoveSpec { at: 0, to: 1 },
                Change::RemoveOutput { at: 0 },
                Change::Rename { name: "a: b".to_owned() },
            ] {
                let _ = edit(text, format, 0, &[change], &Budget::default());
            }
        }
    });
});
