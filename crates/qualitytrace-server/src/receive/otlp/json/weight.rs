//! The weight of a request in JSON: a bound of the memory that it takes when it is decoded, known before that.
//!
//! `{}` is a valid span: three bytes become some hundreds. What an object becomes depends on where it is, and in OTLP
//! the number of brackets around it tells: resources, scopes and items are in the lists at two, four and six. Ordinary
//! requests weigh about four times their size.

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::Link;

/// A list grows to twice its length.
const GROWTH: u64 = 2;
/// The largest of resources, scopes, spans, log records and metrics.
const ITEM: u64 = GROWTH * size_of::<Span>() as u64;
/// The largest of attributes, events and links.
const PART: u64 = GROWTH * size_of::<Link>() as u64;
/// An object inside of an attribute's value. The decoder reads all of a value before it converts it.
const INNER: u64 = 640;
/// An object inside of a metric, which is read in the same way: the largest are data points.
const IN_METRIC: u64 = 1_024;
/// Another member of a list: a number, or a text without its letters.
const MEMBER: u64 = 64;
/// A member of what is inside of a value or a metric.
const INNER_MEMBER: u64 = 128;
/// An object or a list, a member of it, and the name of a member, each as a [`serde_json::Value`].
const VALUES: (u64, u64, u64) = (512, 144, 256);

/// The memory that a request takes when it is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::receive::otlp) struct Weight {
    /// That of the messages.
    pub(in crate::receive::otlp) decoded: u64,
    /// That of a tree of JSON values.
    pub(in crate::receive::otlp) as_values: u64,
}

impl Weight {
    /// Weighs a text; if it is not JSON, its decoder stops earlier.
    pub(in crate::receive::otlp) fn of(body: &[u8], is_metrics: bool) -> Self {
        let inner = if is_metrics { IN_METRIC } else { INNER };
        let mut weight = Self::default();
        // The brackets that are open, and those around the value or metric that this is in.
        let (mut depth, mut inside) = (0_usize, None);
        // One bit for each open bracket, the last one first; deeper nesting than these is refused by the decoder.
        let mut lists = 0_u128;
        let mut before = 0;
        let mut bytes = body.iter();
        while let Some(&byte) = bytes.next() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => continue,
                b'"' => skip_text(&mut bytes),
                b'{' | b'[' => {
                    let is_field = before == b':';
                    weight.decoded += match (byte, is_field) {
                        (b'{', _) if inside.is_some() => inner,
                        // A part of the message around it.
                        (_, true) => 0,
                        (b'{', false) if matches!(depth, 0 | 2 | 4 | 6) => ITEM,
                        (b'{', false) => PART,
                        // A list in a list can stand for a message of any type.
                        (_, false) => inner,
                    };
                    let begins = match (byte, is_field) {
                        // The resource and the scope are objects, all others in a field are values.
                        (b'{', true) => !matches!(depth, 3 | 5),
                        (b'{', false) => is_metrics && depth == 6,
                        (_, is_field) => !is_field,
                    };
                    if begins && inside.is_none() {
                        inside = Some(depth);
                    }
                    depth += 1;
                    lists = lists << 1 | u128::from(byte == b'[');
                    weight.as_values += VALUES.0;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    lists >>= 1;
                    inside = inside.filter(|outer| *outer < depth);
                }
                b',' => {
                    weight.decoded += match inside {
                        Some(_) => INNER_MEMBER,
                        None if lists & 1 == 1 => MEMBER,
                        // A field of a message.
                        None => 0,
                    };
                    weight.as_values += VALUES.1;
                }
                b':' => weight.as_values += VALUES.2,
                _ => {}
            }
            before = byte;
        }
        weight
    }
}

/// Skips the rest of a text, its last quote included.
fn skip_text(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, decoded: u64) {
        assert_eq!(Weight::of(body.as_bytes(), false).decoded, decoded, "{body}");
    }

    /// A request with these members of `spans`.
    fn spans(spans: &str) -> String {
        format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{spans}]}}]}}]}}"#)
    }

    #[test]
    fn an_object_weighs_what_it_becomes_in_its_place() {
        let empty = 3 * ITEM;
        check(&spans(""), empty);
        check(&spans("{}, {}"), empty + 2 * ITEM + MEMBER);
        let attribute = r#"{"attributes": [{"key": "a", "value": {"stringValue": "b"}}]}"#;
        check(&spans(attribute), empty + ITEM + PART);
        let list = r#"{"attributes": [{"value": {"arrayValue": {"values": [{}, {}]}}}]}"#;
        check(&spans(list), empty + ITEM + PART + 3 * INNER + INNER_MEMBER);
        let resource = r#"{"resourceSpans": [{"resource": {"attributes": [{"value": {"x": [0, 0]}}]}}]}"#;
        check(resource, 2 * ITEM + PART + INNER_MEMBER);
    }

    #[test]
    fn brackets_in_texts_weigh_nothing() {
        check(&spans(r#"{"name": "{[,\"{[,:"}"#), 4 * ITEM);
        check("\"{{{", 0);
    }

    #[test]
    fn a_list_in_the_place_of_a_message_weighs_as_much() {
        check(&spans("[], []"), 3 * ITEM + 2 * INNER + MEMBER);
        const { assert!(INNER >= ITEM && INNER >= PART) };
    }

    #[test]
    fn everything_in_a_metric_weighs_as_much_as_a_data_point() {
        use opentelemetry_proto::tonic::metrics::v1::{ExponentialHistogramDataPoint, HistogramDataPoint};

        let body =
            r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":[{},{}]}}]}]}]}"#;
        let weight = Weight::of(body.as_bytes(), true);
        assert_eq!(weight.decoded, 4 * ITEM + 3 * IN_METRIC + INNER_MEMBER);
        let largest = size_of::<HistogramDataPoint>().max(size_of::<ExponentialHistogramDataPoint>()) as u64;
        assert!(IN_METRIC >= GROWTH * largest);
    }
}
