//! The rule against recorded credentials.

use super::{Fault, Subject};

/// The namespaces of recorded headers.
const PLACES: [(&str, &str); 2] =
    [("http.request.header.", "request"), ("http.response.header.", "response")];
/// The headers that carry credentials.
const HEADERS: [&str; 2] = ["authorization", "x-api-key"];

/// Finds recorded credentials; `None` for a span that is not about HTTP and has none.
pub(super) fn keys(subject: &Subject) -> Option<Vec<Fault>> {
    let faults: Vec<Fault> = subject.attributes.iter().filter_map(|(name, text)| leak(name, text)).collect();
    (subject.family == "http" || !faults.is_empty()).then_some(faults)
}

fn leak(name: &str, text: &str) -> Option<Fault> {
    // Old instrumentation wrote dashes as underscores.
    let folded = name.to_ascii_lowercase();
    let (header, place) =
        PLACES.iter().find_map(|(prefix, place)| Some((folded.strip_prefix(prefix)?, place)))?;
    let header = header.replace('_', "-");
    if text.is_empty() || !HEADERS.contains(&header.as_str()) {
        return None;
    }
    Some(Fault {
        // The value itself stays out of the report: reports are shared.
        description: format!("The {place} header \"{header}\" was recorded with its value."),
        suggestions: vec![format!("Do not record \"{name}\", or remove it in the collector.")],
        value: header,
        ..Fault::default()
    })
}
