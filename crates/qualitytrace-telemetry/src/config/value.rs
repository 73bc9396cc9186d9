//! Parsers of single values: intervals, samplers, headers.

use std::time::Duration;

pub(crate) use qualitytrace_config::value::{boolean, bytes, duration, shown_bytes, shown_duration};

use super::{Header, Sampler};

/// The shortest interval at which metrics are collected.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// The shortest pause; shorter ones only cost processor time.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// Parses an interval.
pub(crate) fn interval(text: &str) -> Option<Duration> {
    duration(text).filter(|duration| *duration >= MIN_INTERVAL)
}

/// Parses a pause.
pub(crate) fn pause(text: &str) -> Option<Duration> {
    duration(text).filter(|duration| *duration >= MIN_PAUSE)
}

/// Parses a percentage into a parent-based sampler.
pub(crate) fn percent(text: &str) -> Option<Sampler> {
    let percent: f64 = text.trim().trim_end_matches('%').trim_end().parse().ok()?;
    (0.0..=100.0).contains(&percent).then(|| Sampler::parent_based(ratio(percent / 100.0)))
}

/// The sampler of a share between 0 and 1.
pub(crate) fn ratio(share: f64) -> Sampler {
    if share >= 1.0 {
        Sampler::AlwaysOn
    } else if share <= 0.0 {
        Sampler::AlwaysOff
    } else {
        Sampler::Ratio(share)
    }
}

/// Headers that frame a message. The transport sets them; other values would cut every request short or make it
/// unreadable.
const FRAMING: [&str; 13] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Checks a header; the error says what is wrong, and never contains the value.
pub(crate) fn header(name: &str, value: &str) -> Result<Header, String> {
    let wrong = |what: &str| format!("its {what} has characters that no header may have");
    let name = http::HeaderName::try_from(name.trim()).map_err(|_| wrong("name"))?;
    if FRAMING.contains(&name.as_str()) || name.as_str().starts_with("grpc-") {
        return Err(format!(
            "`{name}` says how the message is to be read, which the transport does; leave it out"
        ));
    }
    let value = http::HeaderValue::try_from(value.trim()).map_err(|_| wrong("value"))?;
    let value = value.to_str().map_err(|_| wrong("value"))?.to_owned();
    Ok(Header { name: name.as_str().to_owned(), value })
}

/// Parses `Name: value`.
pub(crate) fn header_line(line: &str) -> Result<Header, String> {
    let (name, value) = line.split_once(':').ok_or("write it as `Name: value`")?;
    header(name, value)
}

/// Parses `name=value` with a percent-encoded value.
pub(crate) fn header_pair(pair: &str) -> Result<Header, String> {
    let (name, value) = pair.split_once('=').ok_or("write it as `name=value`")?;
    header(name, &percent_decode(value.trim()).ok_or("its value is not percent-encoded")?)
}

/// Decodes percent-encoding; `None` where an escape is incomplete or the result is not UTF-8.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let is_escape =
        |rest: &str| rest.get(..2).is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    percent_encoding::percent_decode_str(text).decode_utf8().ok().map(Into::into)
}
