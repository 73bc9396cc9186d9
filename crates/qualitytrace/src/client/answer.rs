//! Answers of a server, read within bounds: it may be another server than it seems to be, and its answer may never end.

use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Response;
use serde::de::DeserializeOwned;

/// How long a server may send nothing within an answer.
const IDLE_TIMEOUT: Duration = Duration::from_mins(3);

/// How much of an answer is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    /// Bytes, after decompression.
    bytes: usize,
    /// Values of JSON: a byte of text may become a hundred in memory.
    values: usize,
}

/// The bound of error messages and of answers about one thing without a trace.
pub(super) const MESSAGE: Bound = Bound { bytes: 4 << 20, values: 1 << 18 };
/// The bound of lists, definitions and files.
pub(super) const DOCUMENT: Bound = Bound { bytes: 64 << 20, values: 1 << 21 };
/// The bound of traces, and of runs with their traces: as many spans as a server keeps of one.
pub(super) const TRACE: Bound = Bound { bytes: 256 << 20, values: 1 << 23 };
/// The bound of one event of a run.
pub(super) const EVENT: Bound = Bound { bytes: 64 << 20, values: 1 << 21 };

/// Why an answer was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    /// It is longer than anything that is asked for.
    #[error("the answer of {server} is larger than {} MiB, and was not read to its end; is it a server of Qualitytrace?", bytes >> 20)]
    Oversized { server: String, bytes: usize },
    /// An event, or all events of a run.
    #[error("{what} of {server} is larger than {} MiB, and was not read to its end; is it a server of Qualitytrace?", bytes >> 20)]
    OversizedEvents { what: &'static str, server: String, bytes: usize },
    /// It would take too much memory.
    #[error(
        "the server's answer has more than {0} values, and was not decoded; is it a server of Qualitytrace?"
    )]
    ManyValues(usize),
}

/// Reads a body.
pub(super) async fn bytes(mut response: Response, bound: Bound) -> anyhow::Result<Vec<u8>> {
    let too_large = |response: &Response| {
        let url = response.url();
        let server = format!("{}{}", url.origin().ascii_serialization(), url.path());
        AnswerError::Oversized { server, bytes: bound.bytes }
    };
    let announced = response.content_length().unwrap_or(0);
    if usize::try_from(announced).map_or(true, |announced| announced > bound.bytes) {
        return Err(too_large(&response).into());
    }
    let mut body = Vec::new();
    loop {
        let Ok(chunk) = tokio::time::timeout(IDLE_TIMEOUT, response.chunk()).await else {
            bail!("the server sends no more of its answer");
        };
        let Some(chunk) = chunk.context("the connection broke during the answer of the server")? else {
            return Ok(body);
        };
        if chunk.len() > bound.bytes - body.len() {
            return Err(too_large(&response).into());
        }
        body.extend_from_slice(&chunk);
    }
}

/// Reads a body as text; what is not UTF-8 is replaced.
pub(super) async fn text(response: Response, bound: Bound) -> anyhow::Result<String> {
    let body = bytes(response, bound).await?;
    Ok(String::from_utf8(body).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Reads a body as JSON. `what` it should be is named in the error.
pub(super) async fn json<T: DeserializeOwned>(
    response: Response,
    bound: Bound,
    what: &str,
) -> anyhow::Result<T> {
    decoded(&bytes(response, bound).await?, bound, what)
}

/// Decodes a list or a definition.
pub(crate) fn document<T: DeserializeOwned>(body: &str) -> anyhow::Result<T> {
    decoded(body.as_bytes(), DOCUMENT, "JSON")
}

/// Decodes JSON, if it has no more values than the bound allows.
pub(super) fn decoded<T: DeserializeOwned>(body: &[u8], bound: Bound, what: &str) -> anyhow::Result<T> {
    measured(body, bound)?;
    serde_json::from_slice(body).with_context(|| format!("the server's answer is not {what}"))
}

/// Fails if a JSON text has more values than the bound allows.
pub(super) fn measured(body: &[u8], bound: Bound) -> Result<(), AnswerError> {
    if values(body) > bound.values { Err(AnswerError::ManyValues(bound.values)) } else { Ok(()) }
}

/// How many values a JSON text has, at most one too few for each of its lists and objects.
fn values(body: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (1, false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'{' | b'[' | b',' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn values_are_counted_outside_of_texts() {
        for (text, expected) in
            [("1", 1), ("[1,2,3]", 4), (r#"{"a,[{":"\"{[,","b":[]}"#, 4), (r#""\\","x,""#, 2), ("", 1)]
        {
            assert_eq!(values(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn many_small_values_are_not_decoded() {
        let bound = Bound { bytes: 100, values: 10 };
        assert!(decoded::<Value>(b"[{},{},{},{}]", bound, "a list").is_ok());
        let error = decoded::<Value>(b"[{},{},{},{},{},{},{}]", bound, "a list").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the server's answer has more than 10 values, and was not decoded; is it a server of Qualitytrace?"
        );
    }
}
