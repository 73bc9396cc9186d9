//! Decoders of what others send: each measures what it decodes, or says where that is done.

use super::{Broken, tree::Tree};

/// Where answers, files and imported texts are decoded.
const WITHIN: [&str; 4] = [
    "crates/qualitytrace-core/src/import",
    "crates/qualitytrace-server/src/outbound/data_store",
    "crates/qualitytrace-server/src/receive/trace_files",
    "crates/qualitytrace-server/src/outbound/trigger",
];

/// Calls that decode JSON or protobuf, however much memory that takes.
const DECODERS: [&str; 8] = [
    "serde_json::from_slice",
    "serde_json::from_str",
    "serde_json::from_reader",
    "Deserializer::from_slice",
    "Deserializer::from_str",
    "Deserializer::from_reader",
    "json::decode(",
    "::decode(",
];

/// Calls that look like these, and make less of a text than it was.
const HARMLESS: [&str; 1] = ["const_hex::decode("];

/// The beginning of a comment that says where a message is measured, a few lines before it is decoded.
const MEASURED: &str = "// Measured:";
/// How many lines before.
const NEAR: usize = 4;

/// Decoders that do not measure.
pub(super) fn unmeasured(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        if !WITHIN.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        // Tests decode what they wrote themselves.
        let lines: Vec<&str> =
            file.text.lines().take_while(|line| line.trim() != "#[cfg(test)]").map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let decodes = !line.starts_with("//") && DECODERS.iter().any(|call| line.contains(call));
            let is_harmless = HARMLESS.iter().any(|call| line.contains(call));
            let near = &lines[at.saturating_sub(NEAR)..at];
            if decodes && !is_harmless && !near.iter().any(|line| line.starts_with(MEASURED)) {
                broken.push(Broken::new(
                    format!("{}:{}", file.path, at + 1),
                    "decodes what others send without a measure: use `decode`, `otlp::json::decode_within` or \
                     `otlp::weight::decode_traces`, or say before it where it is measured (`// Measured: ..`)",
                ));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, lines: &[usize]) {
        let places: Vec<_> =
            unmeasured(&Tree::of(&[(path, text)])).into_iter().map(|broken| broken.place).collect();
        let expected: Vec<_> = lines.iter().map(|line| format!("{path}:{line}")).collect();
        assert_eq!(places, expected, "{text}");
    }

    #[test]
    fn decoders_without_a_measure_are_found() {
        let text = "let page: Page = serde_json::from_slice(&answer.body)?;\n\
                    let spans = ExportTraceServiceRequest::decode(message)?;\n\
                    let page: Page = decode::json(&answer.body, lease)?;\n\
                    let id = const_hex::decode(text)?;\n\
                    #[cfg(test)]\nlet page = serde_json::from_slice(b\"[]\")?;\n";
        check("crates/qualitytrace-server/src/outbound/data_store/new.rs", text, &[1, 2]);
        check("crates/qualitytrace-server/src/outbound/trigger/new/deep.rs", text, &[1, 2]);
        check("crates/qualitytrace-server/src/receive/trace_files.rs", text, &[1, 2]);
        check("crates/qualitytrace-server/src/storage/store/new.rs", text, &[]);
    }

    #[test]
    fn a_decoder_may_say_where_it_is_measured() {
        let path = "crates/qualitytrace-server/src/outbound/data_store/new.rs";
        check(path, "// Measured: by the caller.\nlet page = serde_json::from_slice(body)?;\n", &[]);
        check(path, "// Often.\nlet page = serde_json::from_slice(body)?;\n", &[2]);
        let far = format!("// Measured: once.\n{}serde_json::from_str(text)", "x();\n".repeat(NEAR));
        check(path, &far, &[NEAR + 2]);
    }
}
