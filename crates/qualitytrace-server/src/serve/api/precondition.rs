//! Versions in headers: `ETag` of what was read, and `If-Match` of what a client expects to replace.

use axum::response::Response;
use http::header::{ETAG, IF_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use qualitytrace_core::definition::Kind;

use super::error::ApiError;
use crate::storage::store::Expected;

/// Reads `If-Match`: versions in quotes, or `*` for any that is stored.
pub(super) fn expected(headers: &HeaderMap) -> Result<Expected, ApiError> {
    let mut versions = Vec::new();
    let mut is_given = false;
    for value in headers.get_all(IF_MATCH) {
        is_given = true;
        let text = value.to_str().map_err(|_| wrong())?;
        if text.trim() == "*" {
            return Ok(Expected::Stored);
        }
        for tag in text.split(',') {
            // Proxies that compress an answer make its tag a weak one.
            let tag = tag.trim().trim_start_matches("W/").trim_matches('"');
            versions.push(tag.parse().map_err(|_| wrong())?);
        }
    }
    Ok(if is_given { Expected::OneOf(versions) } else { Expected::Anything })
}

fn wrong() -> ApiError {
    ApiError::bad_request(
        "`If-Match` takes the `ETag` of an earlier answer: a version in quotes, like `\"3\"`",
    )
}

/// Adds the version of a resource to a response, as its `ETag`.
pub(super) fn with_version(mut response: Response, version: u64) -> Response {
    if let Ok(tag) = HeaderValue::try_from(format!("\"{version}\"")) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// The error for a resource that has another version than the client expects.
pub(super) fn conflict(kind: Kind, id: &str, stored: u64, expected: &Expected) -> ApiError {
    let expects = match expected {
        Expected::Anything | Expected::Stored => "a stored one".to_owned(),
        Expected::OneOf(versions) => {
            let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
            format!("version {}", versions.join(" or "))
        }
    };
    let message = match stored {
        0 => format!("{} `{id}` is not stored, and the request expects {expects}", kind.as_str()),
        stored => format!(
            "{} `{id}` has version {stored}, and the request expects {expects}: it was changed meanwhile; read it \
             again and repeat the change",
            kind.as_str()
        ),
    };
    ApiError { status: StatusCode::CONFLICT, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[&str], found: &Result<Expected, StatusCode>) {
        let headers = values.iter().map(|value| (IF_MATCH, value.parse().unwrap())).collect();
        assert_eq!(expected(&headers).map_err(|error| error.status), *found, "{values:?}");
    }

    #[test]
    fn expected_versions_are_read() {
        check(&[], &Ok(Expected::Anything));
        check(&["*"], &Ok(Expected::Stored));
        check(&["\"3\""], &Ok(Expected::OneOf(vec![3])));
        check(&["W/\"3\", 4", "\"5\""], &Ok(Expected::OneOf(vec![3, 4, 5])));
        check(&["\"abc\""], &Err(StatusCode::BAD_REQUEST));
        check(&[""], &Err(StatusCode::BAD_REQUEST));
        check(&["\"-1\""], &Err(StatusCode::BAD_REQUEST));
    }
}
