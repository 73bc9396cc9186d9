//! Messages of the protocol over standard input and output: a header with the length, and JSON.
//!
//! Lengths are bounded before a body is read, and a message that is no JSON is answered as such; neither ends the
//! server. Messages are handled in their order, so that an answer always is about the text that was sent before.

use std::io::{BufRead, BufReader, Read as _, Write as _};

use anyhow::Context;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::{Service as _, ServiceExt as _};
use tower_lsp_server::LspService;
use tower_lsp_server::jsonrpc::{Request, Response};

use super::backend::Backend;
use super::recent::Recent;

/// The largest body that is read.
const MAX_BODY: usize = 16 << 20;
/// The longest line of a header.
const MAX_HEADER: u64 = 4096;
/// Messages that wait to be handled or written.
const WAITING: usize = 64;

/// The codes of JSON-RPC for a body that is no JSON, and for one that is no request.
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;

/// What the reader of standard input found.
#[derive(Debug)]
enum Incoming {
    Message(Value),
    /// A message that cannot be used, with the code and the reason.
    Broken(i64, String),
}

/// Serves until the editor sends `exit` or closes its end. Returns whether `shutdown` came before.
pub(super) async fn serve(recent: Recent) -> anyhow::Result<bool> {
    let (sender, mut incoming) = mpsc::channel(WAITING);
    // Standard input cannot be waited for otherwise; the thread ends with the process.
    std::thread::spawn(move || read_all(&mut BufReader::new(std::io::stdin().lock()), &sender));
    let (out, written) = mpsc::channel(WAITING);
    let writer = std::thread::spawn(move || write_all(written));
    let (mut service, socket) = LspService::new(|client| Backend::new(client, recent));
    let (mut requests, _responses) = socket.split();
    let forward = {
        let out = out.clone();
        tokio::spawn(async move {
            while let Some(request) = requests.next().await {
                if out.send(json!(request)).await.is_err() {
                    break;
                }
            }
        })
    };
    let mut is_orderly = false;
    while let Some(message) = incoming.recv().await {
        let message = match message {
            Incoming::Message(message) => message,
            Incoming::Broken(code, why) => {
                let error =
                    json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": why } });
                out.send(error).await.context("standard output is closed")?;
                continue;
            }
        };
        // What is no request is an answer, and the server asks nothing.
        let Some(method) = message["method"].as_str().map(ToOwned::to_owned) else { continue };
        let request: Request = match serde_json::from_value(message.clone()) {
            Ok(request) => request,
            Err(error) => {
                let error = json!({ "code": INVALID_REQUEST, "message": error.to_string() });
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
                out.send(answer).await.context("standard output is closed")?;
                continue;
            }
        };
        if method == "exit" {
            break;
        }
        let Ok(ready) = service.ready().await else { break };
        let answer = ready.call(request).await;
        if method == "shutdown" {
            is_orderly = answer.as_ref().is_ok_and(|answer| answer.as_ref().is_some_and(Response::is_ok));
        }
        if let Ok(Some(answer)) = answer {
            out.send(json!(answer)).await.context("standard output is closed")?;
        }
    }
    forward.abort();
    // Aborted tasks drop their senders, so that the writer ends.
    let _ = forward.await;
    drop((out, service));
    tokio::task::spawn_blocking(move || writer.join()).await?.ok();
    Ok(is_orderly)
}

/// Reads messages until the end of the input.
fn read_all(input: &mut impl BufRead, sender: &mpsc::Sender<Incoming>) {
    loop {
        let Ok(Some(incoming)) = read_message(input) else { return };
        if sender.blocking_send(incoming).is_err() {
            return;
        }
    }
}

/// Reads a message; `None` at the end of the input.
fn read_message(input: &mut impl BufRead) -> std::io::Result<Option<Incoming>> {
    let mut length: Option<usize> = None;
    loop {
        let mut line = Vec::new();
        let read = (&mut *input).take(MAX_HEADER).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() && length.is_some() {
            break;
        }
        // Anything else, such as another header or the rest of a broken message, is passed over.
        if let Some((name, value)) = line.split_once(':')
            && name.trim().eq_ignore_ascii_case("content-length")
        {
            match value.trim().parse() {
                Ok(number) => length = Some(number),
                Err(_) => {
                    let why = format!("`{}` is no length of a message", value.trim());
                    return Ok(Some(Incoming::Broken(PARSE_ERROR, why)));
                }
            }
        }
    }
    let length = length.unwrap_or_default();
    let mut body = (&mut *input).take(length as u64);
    if length > MAX_BODY {
        std::io::copy(&mut body, &mut std::io::sink())?;
        let why = format!("the message has {length} bytes; at most {MAX_BODY} are read");
        return Ok(Some(Incoming::Broken(INVALID_REQUEST, why)));
    }
    let mut bytes = Vec::new();
    body.read_to_end(&mut bytes)?;
    Ok(Some(match serde_json::from_slice(&bytes) {
        Ok(message @ Value::Object(_)) => Incoming::Message(message),
        Ok(_) => Incoming::Broken(INVALID_REQUEST, "the message is no object".to_owned()),
        Err(error) => Incoming::Broken(PARSE_ERROR, format!("the message is no JSON: {error}")),
    }))
}

/// Writes messages until all senders are gone.
fn write_all(mut messages: mpsc::Receiver<Value>) {
    let mut output = std::io::stdout().lock();
    while let Some(message) = messages.blocking_recv() {
        let body = message.to_string();
        let header = format!("Content-Length: {}\r\n\r\n", body.len());
        let written = output
            .write_all(header.as_bytes())
            .and_then(|()| output.write_all(body.as_bytes()))
            .and_then(|()| output.flush());
        if written.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages(input: &[u8]) -> Vec<String> {
        let mut input = input;
        let mut found = Vec::new();
        while let Ok(Some(incoming)) = read_message(&mut input) {
            found.push(match incoming {
                Incoming::Message(message) => message.to_string(),
                Incoming::Broken(code, _) => code.to_string(),
            });
        }
        found
    }

    #[test]
    fn a_broken_message_does_not_hide_the_next() {
        let good = "Content-Length: 7\r\nContent-Type: x\r\n\r\n{\"a\":1}";
        assert_eq!(messages(good.repeat(2).as_bytes()), ["{\"a\":1}", "{\"a\":1}"]);
        for (broken, code) in [
            ("Content-Length: x\r\n", "-32700"),
            ("Content-Length: 3\r\n\r\n{a}", "-32700"),
            ("Content-Length: 1\r\n\r\n1", "-32600"),
        ] {
            assert_eq!(messages(format!("{broken}{good}").as_bytes()), [code, "{\"a\":1}"], "{broken}");
        }
        let nothing: [&str; 0] = [];
        assert_eq!(messages(b"no header at all"), nothing);
        assert_eq!(messages(b"Content-Length: 99999999999\r\n\r\nshort"), ["-32600"]);
    }

    proptest! {
        #[test]
        fn any_input_ends(input in proptest::collection::vec(any::<u8>(), 0..300)) {
            messages(&input);
        }
    }
}
