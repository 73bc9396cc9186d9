//! Attacks on a server with tokens and denied addresses.

use std::time::Duration;

use super::cases::{LONGEST, attack, expect};
use super::http::{self, Answer};
use super::{Attack, FULL, READ, Target};
use crate::try_eventually_blocking;

/// All attacks.
pub(super) const ALL: [Attack; 3] = [
    attack("a read token that changes", 30, true, |to| {
        for (method, path) in CHANGES {
            expect(&send(to, READ, method, path, "{}")?, &[403])
                .map_err(|why| format!("{method} {path}: {why}"))?;
        }
        expect(&send(to, READ, "GET", "/api/tests", "")?, &[200])
    }),
    attack("denied addresses", 60, true, |to| {
        for (at, trigger) in DENIED_TRIGGERS.iter().enumerate() {
            let said = failure(to, &format!("denied-{at}"), trigger)?;
            if !said.contains("trigger.deny") {
                return Err(format!("{trigger}: {said:.200}"));
            }
        }
        Ok("every one is denied".to_owned())
    }),
    // The last one: an address that sends wrong tokens is blocked for a while.
    attack("100 wrong tokens", 30, true, |to| {
        for at in 0..100 {
            let answer = send(to, &format!("wrong-token-number-{at:04}"), "GET", "/api/tests", "")?;
            expect(&answer, &[401, 429])?;
            if answer.status == 429 {
                return expect(&send(to, FULL, "GET", "/api/tests", "")?, &[200]);
            }
        }
        Err("wrong tokens are not throttled".to_owned())
    }),
];

/// Requests that change something, with ids that look like words of the API.
const CHANGES: [(&str, &str); 14] = [
    ("POST", "/api/tests"),
    ("PUT", "/api/tests"),
    ("PUT", "/api/tests/dry-run"),
    ("DELETE", "/api/tests/dry-run"),
    ("POST", "/api/tests/import"),
    ("POST", "/api/tests/a/run"),
    ("POST", "/api/tests/a/run/1/rerun"),
    ("POST", "/api/tests/a/run/1/stop"),
    ("DELETE", "/api/tests/a/run/1"),
    ("PUT", "/api/datastores/dry-run"),
    ("PUT", "/api/configs/current"),
    ("POST", "/api/config/connection"),
    ("POST", "/api/testsuites/a/run"),
    ("PUT", "/api/wizard"),
];

/// Triggers that try to reach a denied address.
const DENIED_TRIGGERS: [&str; 6] = [
    r#"{"type":"http","httpRequest":{"url":"http://127.0.0.1:9/"}}"#,
    r#"{"type":"http","httpRequest":{"url":"http://2130706433:9/"}}"#,
    r#"{"type":"http","httpRequest":{"url":"http://[::ffff:127.0.0.1]:9/"}}"#,
    r#"{"type":"http","httpRequest":{"url":"http://203.0.113.1/","proxy":"http://2130706433:9"}}"#,
    r#"{"type":"http","httpRequest":{"url":"http://203.0.113.1/","auth":{"type":"oauth2","oauth2":{"tokenUrl":"http://127.0.0.1:9/token","clientId":"a","clientSecret":"b"}}}}"#,
    r#"{"type":"kafka","kafka":{"brokerUrls":["127.0.0.1:9"],"topic":"a","messageValue":"b"}}"#,
];

fn send(to: &Target, token: &str, method: &str, path: &str, body: &str) -> Result<Answer, String> {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", &*authorization), ("content-type", "application/json")];
    http::send(to.guarded, method, path, &headers, body.as_bytes(), LONGEST)
        .map_err(|error| error.to_string())
}

/// The failure of a run with this trigger.
fn failure(to: &Target, id: &str, trigger: &str) -> Result<String, String> {
    let definition = format!(
        r#"{{"type":"Test","spec":{{"id":"{id}","name":"{id}","trigger":{trigger},"skipTraceCollection":true}}}}"#
    );
    expect(&send(to, FULL, "PUT", "/api/tests", &definition)?, &[200, 201])?;
    expect(&send(to, FULL, "POST", &format!("/api/tests/{id}/run"), "{}")?, &[200])?;
    let (path, what) = (format!("/api/tests/{id}/run/1"), format!("the run ends: {trigger}"));
    try_eventually_blocking(Duration::from_secs(20), what, || {
        let run = send(to, FULL, "GET", &path, "")?;
        let has_ended = run.text.contains("_FAILED\"") || run.text.contains("\"FINISHED\"");
        if has_ended { Ok(run.text) } else { Err(run.text) }
    })
}
