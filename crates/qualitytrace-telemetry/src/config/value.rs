//! Parsers of single values: durations, sizes, headers, and macros inside texts.

use std::{path::Path, time::Duration};

use super::{Header, Level, Sampler};

/// Ten years: a longer duration is a mistake, and clocks cannot add it.
const MAX_DURATION: Duration = Duration::from_hours(10 * 365 * 24);

/// Parses `1s`, `1m30s`, `250ms`, `1d`; a bare number counts milliseconds.
pub fn duration(text: &str) -> Option<Duration> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut rest = text.as_str();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..letters] {
            "" | "ms" => 0.001,
            "us" | "µs" => 0.000_001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        rest = &rest[letters..];
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
    }
    (!total.is_zero() && total <= MAX_DURATION).then_some(total)
}

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

/// Parses a size: `64MiB`, `1GB`, `4096`.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "k" | "kib" => 1 << 10,
        "mb" => 1_000_000,
        "m" | "mib" => 1 << 20,
        "gb" => 1_000_000_000,
        "g" | "gib" => 1 << 30,
        "tb" => 1_000_000_000_000,
        "t" | "tib" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit).filter(|size| *size > 0)
}

/// `true` or `false`, in any case.
pub fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

pub(crate) fn level(text: &str) -> Option<Level> {
    Some(match text.to_ascii_lowercase().as_str() {
        "trace" => Level::Trace,
        "debug" => Level::Debug,
        "info" => Level::Info,
        "warn" | "warning" => Level::Warn,
        "error" => Level::Error,
        "disable" | "disabled" | "none" => Level::Disable,
        _ => return None,
    })
}

/// The severities of OpenTelemetry (`info`, `info2`, `fatal`), and `none`.
pub(crate) fn log_level(text: &str) -> Option<Level> {
    let text = text.to_ascii_lowercase();
    let plain = text.strip_suffix(['2', '3', '4']).unwrap_or(&text);
    if plain == "fatal" { Some(Level::Error) } else { level(plain) }
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

/// Replaces `%{env:NAME}%` and `%{file:path}%`; the error says what is missing.
pub(crate) fn macros(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    base: Option<&Path>,
) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("%{") {
        out.push_str(&rest[..start]);
        let Some(end) = rest[start..].find("}%") else {
            return Err("a `%{` has no `}%`".to_owned());
        };
        let inner = &rest[start + 2..start + end];
        rest = &rest[start + end + 2..];
        match inner.split_once(':') {
            Some(("env", name)) => {
                out.push_str(&variable(name).ok_or_else(|| format!("the variable `{name}` is not set"))?);
            }
            Some(("file", path)) => {
                let path = base.map_or_else(|| path.into(), |base| base.join(path));
                let content = std::fs::read_to_string(&path)
                    .map_err(|error| format!("the file `{}` cannot be read: {error}", path.display()))?;
                out.push_str(content.trim_end_matches(['\r', '\n']));
            }
            Some(_) | None => return Err(format!("`%{{{inner}}}%` is neither `env:NAME` nor `file:path`")),
        }
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let check = |text: &str, ms: Option<u64>| {
            assert_eq!(super::duration(text), ms.map(Duration::from_millis), "{text}");
        };
        check("1s", Some(1_000));
        check("30 s", Some(30_000));
        check("1h30m", Some(5_400_000));
        check("250ms", Some(250));
        check("250", Some(250));
        check("1d", Some(86_400_000));
        check("0s", None);
        check("1x", None);
        check("", None);
        check("s", None);
        check("9999d", None);
        check("99999999999999999999d", None);
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(super::bytes("64MiB"), Some(64 << 20));
        assert_eq!(super::bytes("1 GB"), Some(1_000_000_000));
        assert_eq!(super::bytes("many"), None);
        assert_eq!(super::bytes("99999999999GiB"), None);
    }

    #[test]
    fn macros_say_what_is_missing() {
        let env = |name: &str| (name == "TOKEN").then(|| "t".to_owned());
        assert_eq!(super::macros("Bearer %{env:TOKEN}%", &env, None), Ok("Bearer t".to_owned()));
        assert!(super::macros("%{env:NONE}%", &env, None).is_err());
        assert!(super::macros("%{env:TOKEN", &env, None).is_err());
    }
}
