//! Data stores that answer with more than they send, and that name files of the server's machine.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use super::cases::{LONGEST, attack, expect};
use super::{Attack, Outcome, Target};

/// The path of the connection test.
const CONNECTION: &str = "/api/config/connection";
/// Empty objects in an answer: 24 MB of them.
const MANY: usize = 8_000_000;

/// All attacks.
pub(super) const ALL: [Attack; 5] = [
    attack("a store of empty services", 60, false, |to| {
        let body = format!(r#"{{"services":[{}]}}"#, empty(MANY));
        refused(to, body, |url| format!(r#"{{"name":"S","type":"jaeger","jaeger":{{"endpoint":"{url}"}}}}"#))
    }),
    attack("a store of empty documents", 60, false, |to| {
        let body = format!(r#"{{"hits":{{"hits":[{}]}}}}"#, empty(MANY));
        refused(to, body, |url| {
            format!(
                r#"{{"name":"S","type":"opensearch","opensearch":{{"addresses":["{url}"],"index":"traces"}}}}"#
            )
        })
    }),
    attack("a store of a few empty documents", 20, true, |to| {
        let body = format!(r#"{{"hits":{{"hits":[{}]}}}}"#, empty(500_000));
        refused(to, body, |url| {
            format!(
                r#"{{"name":"S","type":"opensearch","opensearch":{{"addresses":["{url}"],"index":"traces"}}}}"#
            )
        })
    }),
    attack("files of the system as certificates", 20, true, |to| {
        for file in ["/proc/self/pagemap", "/proc/self/environ", "/dev/zero", "/etc/passwd"] {
            let client =
                format!(r#"{{"url":"https://127.0.0.1:9","tls":{{"settings":{{"cAFile":"{file}"}}}}}}"#);
            let store = format!(r#"{{"name":"Z","type":"zipkin","zipkin":{client}}}"#);
            let answer = to.post(CONNECTION, &store, LONGEST)?;
            if !answer.text.contains("dataStores.files") {
                return Err(format!("{file}: {:.200}", answer.text));
            }
        }
        Ok("none is read".to_owned())
    }),
    attack("a body of empty objects", 30, false, |to| {
        let body = format!(r#"{{"name":"S","type":"otlp","x":[{}]}}"#, empty(MANY));
        expect(&to.post(CONNECTION, &body, LONGEST)?, &[413])
    }),
];

fn empty(count: usize) -> String {
    format!("{}{{}}", "{},".repeat(count - 1))
}

/// Tests the connection to a store that answers every request with this body, and expects that it fails.
fn refused(to: &Target, body: String, store: fn(&str) -> String) -> Outcome {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    // It ends with the process: the server may ask as often as it wants to.
    thread::spawn(move || {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let answer = to.post(CONNECTION, &store(&format!("http://{address}")), LONGEST)?;
    expect(&answer, &[200])?;
    if answer.text.contains("limits.apiBytes") {
        return Ok("it is refused".to_owned());
    }
    Err(format!("{:.400}", answer.text))
}
