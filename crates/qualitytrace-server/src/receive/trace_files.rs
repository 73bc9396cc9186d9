//! Trace files: OTLP, Jaeger and Zipkin in JSON, read into OTLP messages.
//!
//! The readers are pure and know neither the ingest nor data stores, which both use them. A span that cannot be read is
//! left out and named with its location; the rest of the file is read.

pub(crate) mod collected;
pub(crate) mod ids;
pub mod jaeger;
pub(crate) mod numbers;
pub mod zipkin;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use qualitytrace_core::id::TraceId;
use serde::de::{DeserializeOwned, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::base::decode::{Allowance, DecodeError, Room, json_weight};
use crate::receive::otlp::json;

/// Refused spans that are named; further ones are counted.
const MAX_PROBLEMS: usize = 100;

/// What JSON inside of the texts of a span may take at least.
const MIN_INNER: u64 = 64 << 10;

/// The format of a trace file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OTLP JSON.
    Otlp,
    /// The JSON of Jaeger's query API and UI.
    Jaeger,
    /// Zipkin JSON v2.
    Zipkin,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Otlp, Self::Jaeger, Self::Zipkin];

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Otlp => "otlp",
            Self::Jaeger => "jaeger",
            Self::Zipkin => "zipkin",
        }
    }
}

/// What was read of a file.
#[derive(Debug, Default)]
pub struct TraceFile {
    /// The format of its first document.
    pub format: Option<Format>,
    /// Its spans, each with a valid trace id.
    pub request: ExportTraceServiceRequest,
    /// The spans that could not be read.
    pub refused: RefusedSpans,
}

/// Spans that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedSpans {
    /// Their number.
    pub count: u64,
    /// The first of them.
    pub problems: Vec<Problem>,
}

/// Why a span, or a line with spans, could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its location: the path in the document, after the line if each line is a document.
    pub location: String,
    /// One sentence.
    pub reason: String,
}

impl RefusedSpans {
    /// Counts a span that could not be read. `location` is asked for only if it is named.
    fn note(&mut self, location: impl FnOnce() -> String, reason: impl Into<String>) {
        self.count += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { location: location(), reason: reason.into() });
        }
    }

    /// Adds the spans of a line that could not be read.
    fn add(&mut self, line: Option<usize>, other: Self) {
        self.count += other.count;
        let room = MAX_PROBLEMS - self.problems.len();
        self.problems.extend(other.problems.into_iter().take(room).map(|problem| match line {
            Some(line) => Problem { location: format!("line {line}: {}", problem.location), ..problem },
            None => problem,
        }));
    }
}

/// Why nothing of a file could be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceFileError {
    /// It is not JSON, or not the JSON of its format.
    #[error("the file cannot be read: {0}")]
    Broken(String),
    /// It is JSON in no known format.
    #[error(
        "the file is in no known format: it has neither `resourceSpans` (OTLP) nor `data` (Jaeger), nor is it a list of \
         spans (Zipkin); name its format with `?format=otlp`, `jaeger` or `zipkin`"
    )]
    Unknown,
    /// It has no spans.
    #[error("the file has no spans")]
    Empty,
    /// It takes more memory than there ever is.
    #[error("the file takes more memory than the {limit} bytes that there are for it; send it in parts")]
    TooLarge {
        /// The memory that there is.
        limit: u64,
    },
    /// Others have the memory.
    #[error("others have the memory that the file takes; try again later")]
    Busy,
}

impl From<DecodeError> for TraceFileError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Malformed(cause) => Self::Broken(cause),
            DecodeError::TooLarge { limit } => Self::TooLarge { limit },
            DecodeError::Busy => Self::Busy,
        }
    }
}

/// Reads a file of the user's own, which may take any amount of memory.
pub fn read(file: &[u8], format: Option<Format>) -> Result<TraceFile, TraceFileError> {
    read_within(file, format, &mut Allowance::new(u64::MAX))
}

/// Reads a file: one document, or one on each line. Without a format, each document's layout decides. What is read takes
/// room.
pub(crate) fn read_within(
    file: &[u8],
    format: Option<Format>,
    room: &mut impl Room,
) -> Result<TraceFile, TraceFileError> {
    let file = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
    let mut all = TraceFile::default();
    if is_lines(file) {
        for (at, line) in lines(file) {
            match document(line, format, room) {
                Ok(found) => all.add(Some(at), found),
                Err(error @ (TraceFileError::TooLarge { .. } | TraceFileError::Busy)) => return Err(error),
                Err(error) => all.refused.note(|| format!("line {at}"), error.to_string()),
            }
        }
    } else {
        all.add(None, document(file, format, room)?);
    }
    if all.request.resource_spans.is_empty() && all.refused.count == 0 {
        return Err(TraceFileError::Empty);
    }
    Ok(all)
}

impl TraceFile {
    fn add(&mut self, line: Option<usize>, found: Self) {
        self.format = self.format.or(found.format);
        self.request.resource_spans.extend(found.request.resource_spans);
        self.refused.add(line, found.refused);
    }

    /// The size of its spans as an encoded export request.
    pub(crate) fn encoded_len(&self) -> u64 {
        self.request.encoded_len() as u64
    }

    /// Returns its spans as an encoded export request.
    pub fn into_message(self) -> Bytes {
        self.request.encode_to_vec().into()
    }

    /// Returns its traces in the order in which they first appear, each with the number of its spans.
    pub fn traces(&self) -> Vec<(TraceId, u64)> {
        let mut indexes = std::collections::HashMap::new();
        let mut traces: Vec<(TraceId, u64)> = Vec::new();
        let of_resources = self.request.resource_spans.iter();
        for span in of_resources.flat_map(|of| &of.scope_spans).flat_map(|of| &of.spans) {
            let Some(trace) = TraceId::from_slice(&span.trace_id) else { continue };
            let at = *indexes.entry(trace).or_insert_with(|| {
                traces.push((trace, 0));
                traces.len() - 1
            });
            traces[at].1 += 1;
        }
        traces
    }
}

/// Reads one document.
fn document(text: &[u8], format: Option<Format>, room: &mut impl Room) -> Result<TraceFile, TraceFileError> {
    let format = match format {
        Some(format) => format,
        None => detect(text)?.ok_or(TraceFileError::Unknown)?,
    };
    let (request, refused) = match format {
        Format::Otlp => otlp(text, room)?,
        Format::Jaeger => jaeger::read(text, room)?,
        Format::Zipkin => zipkin::read(text, room)?,
    };
    Ok(TraceFile { format: Some(format), request, refused })
}

/// Reads OTLP JSON. Spans without a valid trace id are left out.
fn otlp(text: &[u8], room: &mut impl Room) -> Result<(ExportTraceServiceRequest, RefusedSpans), DecodeError> {
    let mut request: ExportTraceServiceRequest = json::decode_within(text, room)?;
    let mut refused = RefusedSpans::default();
    for (resource, of_resource) in request.resource_spans.iter_mut().enumerate() {
        for (scope, of_scope) in of_resource.scope_spans.iter_mut().enumerate() {
            let mut at = 0;
            of_scope.spans.retain(|span| {
                let is_valid = TraceId::from_slice(&span.trace_id).is_some();
                if !is_valid {
                    let location = || format!("resourceSpans[{resource}].scopeSpans[{scope}].spans[{at}]");
                    refused.note(location, "`traceId` is not 32 hexadecimal digits that are not all zero");
                }
                at += 1;
                is_valid
            });
        }
        of_resource.scope_spans.retain(|of_scope| !of_scope.spans.is_empty());
    }
    request.resource_spans.retain(|of_resource| !of_resource.scope_spans.is_empty());
    Ok((request, refused))
}

/// Whether each line is a document: the first two begin like one, and one of them is.
fn is_lines(file: &[u8]) -> bool {
    let first: Vec<&[u8]> = lines(file).map(|(_, line)| line).take(2).collect();
    // Measured: nothing is kept of it.
    let is_document = |line: &&[u8]| serde_json::from_slice::<IgnoredAny>(line).is_ok();
    first.len() == 2 && first.iter().all(|line| line.starts_with(b"{")) && first.iter().any(is_document)
}

/// The lines of a file that are not blank, with their numbers from 1.
fn lines(file: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let all = file.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    (1..).zip(all).filter(|(_, line)| !line.is_empty())
}

/// Finds the format of a document by its layout.
fn detect(text: &[u8]) -> Result<Option<Format>, TraceFileError> {
    let start = text.trim_ascii_start();
    if start.starts_with(b"[") {
        let inner = start[1..].trim_ascii_start();
        let inner = inner.strip_prefix(b"[").map_or(inner, <[u8]>::trim_ascii_start);
        // A list that begins with anything but a span is refused by its reader, with the location.
        return Ok((inner.starts_with(b"{") || inner.starts_with(b"]")).then_some(Format::Zipkin));
    }
    // Measured: only the names of the first level are read.
    let mut document = serde_json::Deserializer::from_slice(text);
    match document.deserialize_map(Keys) {
        Ok(format) => Ok(Some(format)),
        Err(error) if error.is_data() => Ok(None),
        Err(error) => Err(TraceFileError::Broken(error.to_string())),
    }
}

/// Looks for the first key that only one format has.
struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Format;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a document with spans")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Format, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            map.next_value::<IgnoredAny>()?;
            found = found.or(match key.as_str() {
                "resourceSpans" | "resource_spans" => Some(Format::Otlp),
                "data" | "processes" => Some(Format::Jaeger),
                _ => None,
            });
        }
        found.ok_or_else(|| serde::de::Error::custom("no key of a known format"))
    }
}

/// Reads a list item by item, and holds no more than one of them: the others are read even if one is not what it should
/// be.
struct Each<F>(F);

impl<'de, F: FnMut(&'de RawValue) -> Result<(), DecodeError>> Each<F> {
    /// Reads the text of a list. An error of the function ends it.
    fn of(self, list: &'de [u8]) -> Result<(), DecodeError> {
        let mut ended = None;
        let mut read = self.0;
        let stop = |item| read(item).map_err(|error| ended = Some(error));
        // Measured: each item is a reference to the text.
        let mut list = serde_json::Deserializer::from_slice(list);
        let done = list.deserialize_seq(EachVisitor(stop)).and_then(|()| list.end());
        match ended {
            Some(error) => Err(error),
            None => Ok(done?),
        }
    }
}

struct EachVisitor<F>(F);

impl<'de, F: FnMut(&'de RawValue) -> Result<(), ()>> Visitor<'de> for EachVisitor<F> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            (self.0)(item).map_err(|()| serde::de::Error::custom("it was ended"))?;
        }
        Ok(())
    }
}

/// Reads an item of a list and converts it. What it takes is given back; what it became is counted by the caller. The
/// inner error says why the item is none.
fn item<T: DeserializeOwned, C>(
    item: &RawValue,
    room: &mut impl Room,
    convert: impl FnOnce(T, &mut Allowance) -> Result<C, String>,
) -> Result<Result<C, String>, DecodeError> {
    let before = room.taken();
    let weight = json_weight(item.get().as_bytes());
    room.take(weight)?;
    // Texts inside of it may be JSON themselves.
    let mut inner = Allowance::new(weight.max(MIN_INNER));
    room.take(weight.max(MIN_INNER))?;
    // Measured: above.
    let read = serde_json::from_str(item.get()).map_err(|error| without_place(&error));
    let converted = read.and_then(|sent| convert(sent, &mut inner));
    room.shrink_to(before);
    Ok(converted)
}

/// The text of an error, without its place: it is that in the item.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map(|(text, _)| text.to_owned()).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn otlp_line(trace: &str) -> String {
        format!(
            r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"{trace}","spanId":"00000000000000aa","name":"a"}}]}}]}}]}}"#
        )
    }

    fn check(file: &str, expected: Result<(Format, usize, &[&str]), &str>) {
        let found = read(file.as_bytes(), None);
        match (found, expected) {
            (Ok(found), Ok((format, traces, problems))) => {
                assert_eq!((found.format, found.traces().len()), (Some(format), traces), "{file}");
                let told: Vec<String> = found
                    .refused
                    .problems
                    .iter()
                    .map(|problem| format!("{}: {}", problem.location, problem.reason))
                    .collect();
                assert_eq!(told.len(), problems.len(), "{told:?}");
                for (told, expected) in told.iter().zip(problems) {
                    assert!(told.contains(expected), "{told}");
                }
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn the_layout_tells_the_format_and_a_broken_part_its_place() {
        let (a, b) = (otlp_line(&"1".repeat(32)), otlp_line(&"2".repeat(32)));
        check(&a, Ok((Format::Otlp, 1, &[])));
        check(&a.replace(',', ",\n "), Ok((Format::Otlp, 1, &[])));
        check(&format!("\u{feff}{a}\n\n{b}\n"), Ok((Format::Otlp, 2, &[])));
        check(&format!("{a}\n{{\"resourceSpans\": [}}\n{b}"), Ok((Format::Otlp, 2, &["line 2: "])));
        check(&format!("{{\n{a}\n{b}"), Ok((Format::Otlp, 2, &["line 1: "])));
        check(&format!("{a}\n{{\"resourceLogs\": []}}"), Ok((Format::Otlp, 1, &["line 2: "])));
        let bad = otlp_line("12");
        check(
            &format!("{a}\n{bad}"),
            Ok((Format::Otlp, 1, &["line 2: resourceSpans[0].scopeSpans[0].spans[0]: `traceId`"])),
        );
        let jaeger = r#"{"data":[{"traceID":"1","spans":[{"spanID":"2","startTime":1},{"spanID":"x","startTime":1}],"processes":{}}]}"#;
        check(jaeger, Ok((Format::Jaeger, 1, &["data[0].spans[1]: `spanID`"])));
        let zipkin = r#"[{"traceId":"1","id":"2","timestamp":1},{"traceId":"1"}]"#;
        check(zipkin, Ok((Format::Zipkin, 1, &["[1]: missing field `id`"])));
        check(&format!("[{zipkin},[]]"), Ok((Format::Zipkin, 1, &["[0][1]: missing field `id`"])));
        check(&zipkin.replace('{', "\n{"), Ok((Format::Zipkin, 1, &["[1]: missing field `id`"])));
        check("[", Err("no known format"));
        check("[]", Err("no spans"));
        check("{\"data\":[]}", Err("no spans"));
        check("{\"x\":1}", Err("no known format"));
        check("{\"data\": nonsense}", Err("line 1 column"));
        check("", Err("EOF"));
        check("5", Err("no known format"));
    }

    #[test]
    fn what_nests_without_end_is_refused() {
        for text in [
            "[".repeat(100_000),
            "{\"data\":".repeat(50_000),
            format!("[{{\"traceId\":{}", "[".repeat(50_000)),
        ] {
            for format in Format::ALL.map(Some).into_iter().chain([None]) {
                assert!(read(text.as_bytes(), format).is_err());
            }
        }
    }
}
