//! The credentials that a trigger has in its own text: the system under test may repeat them in its response and spans.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Auth, Header, Trigger};
use crate::definition::secrets::is_secret_header;

/// Shorter credentials are too likely to be ordinary words of the trace.
const SHORTEST: usize = 8;

impl Trigger {
    /// Returns the credentials that are written out: passwords, tokens and keys of `auth`, of headers whose names say
    /// that they hold one, and of addresses. A text with an expression is none: what is secret in it is a variable.
    pub fn credentials(&self) -> Vec<String> {
        let mut found = Vec::new();
        match self {
            Self::Http(http) => {
                of_address(&http.url.value, &mut found);
                of_auth(http.auth.as_ref(), &mut found);
                of_headers(&http.headers, &mut found);
            }
            Self::Graphql(graphql) => {
                of_address(&graphql.url.value, &mut found);
                of_auth(graphql.auth.as_ref(), &mut found);
                of_headers(&graphql.headers, &mut found);
            }
            Self::Grpc(grpc) => {
                of_auth(grpc.auth.as_ref(), &mut found);
                of_headers(&grpc.metadata, &mut found);
            }
            Self::Kafka(kafka) => {
                found.extend(kafka.authentication.iter().map(|sasl| sasl.password.value.clone()));
                of_headers(&kafka.headers, &mut found);
            }
            Self::TraceId(_) | Self::Exec(_) | Self::PlaywrightEngine(_) | Self::Integration(_) => {}
        }
        found.retain(|text| text.len() >= SHORTEST && !text.contains("${"));
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn of_auth(auth: Option<&Auth>, found: &mut Vec<String>) {
    match auth {
        Some(Auth::Basic { password, .. }) => found.push(password.value.clone()),
        Some(Auth::Bearer { token }) => of_value(&token.value, found),
        Some(Auth::ApiKey { value, .. }) => found.push(value.value.clone()),
        Some(Auth::OAuth2(oauth2)) => found.push(oauth2.client_secret.value.clone()),
        None => {}
    }
}

fn of_headers(headers: &[Header], found: &mut Vec<String>) {
    for header in headers.iter().filter(|header| is_secret_header(&header.key.value.to_lowercase())) {
        if header.key.value.trim().eq_ignore_ascii_case("cookie") {
            let cookies = header.value.value.split(';').filter_map(|cookie| cookie.split_once('='));
            found.extend(cookies.map(|(_, value)| value.trim().to_owned()));
        } else {
            of_value(&header.value.value, found);
        }
    }
}

/// Adds the value of an `Authorization` header without its scheme, and the password of a login.
fn of_value(value: &str, found: &mut Vec<String>) {
    let value = value.trim();
    let (scheme, token) = value.split_once(' ').unwrap_or(("", value));
    if scheme.eq_ignore_ascii_case("basic")
        && let Some(login) =
            STANDARD.decode(token.trim()).ok().and_then(|login| String::from_utf8(login).ok())
    {
        found.extend(login.split_once(':').map(|(_, password)| password.to_owned()));
    }
    found.push(token.trim().to_owned());
}

/// Adds the password of an address.
fn of_address(url: &str, found: &mut Vec<String>) {
    let Some((_, rest)) = url.split_once("://") else { return };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let login = authority.rsplit_once('@').and_then(|(login, _)| login.split_once(':'));
    found.extend(login.map(|(_, password)| password.to_owned()));
}

#[cfg(test)]
mod tests {
    use super::super::Http;
    use super::*;

    fn check(url: &str, headers: &[(&str, &str)], auth: Option<Auth>, expected: &[&str]) {
        let header = |(key, value): &(&str, &str)| Header { key: (*key).into(), value: (*value).into() };
        let headers = headers.iter().map(header).collect();
        let http = Http { url: url.into(), headers, auth, ..Http::default() };
        assert_eq!(Trigger::Http(http).credentials(), expected);
    }

    #[test]
    fn what_is_written_out_is_a_credential() {
        let url = "http://shop.test/a";
        check(url, &[("Authorization", "Bearer abcdefgh-1")], None, &["abcdefgh-1"]);
        check(url, &[("X-Api-Key", "abcdefgh-1"), ("Accept", "text/plain")], None, &["abcdefgh-1"]);
        check(
            url,
            &[("authorization", "Basic bWU6aHVudGVyMi1odW50ZXIy")],
            None,
            &["bWU6aHVudGVyMi1odW50ZXIy", "hunter2-hunter2"],
        );
        check(url, &[("Cookie", "theme=dark; session=abcdefgh=1")], None, &["abcdefgh=1"]);
        check("http://me:abcdefgh@shop.test/x@y", &[], None, &["abcdefgh"]);
        let token = Auth::Bearer { token: "Bearer abcdefgh-2".into() };
        check(url, &[], Some(token), &["abcdefgh-2"]);
    }

    #[test]
    fn expressions_and_short_words_are_none() {
        check(
            "http://shop.test",
            &[("Authorization", "Bearer ${var:TOKEN}"), ("X-Token", "demo")],
            None,
            &[],
        );
    }
}
