//! Answers that never end, or that are small on the wire and large in memory: a command says so and ends, within its
//! memory.

use std::process::{Output, Stdio};

use qualitytrace_testing::{DEADLINE, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use crate::program;
use crate::suites::{holds, test};

/// What the program may take, in KiB of address space; an answer without a bound takes all of it.
const ADDRESS_SPACE: u32 = 3 << 20;

/// Serves each connection by this function, which gets the path of the request.
async fn server<F>(answer: impl Fn(TcpStream, String) -> F + Send + Sync + 'static) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 1 << 16];
            let read = stream.read(&mut head).await.unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            tokio::spawn(answer(stream, path));
        }
    });
    url
}

/// Sends a head and then a part again and again, until the other side has gone.
async fn endless(mut stream: TcpStream, head: &str, begin: &str, part: &str) {
    let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n{begin}");
    let _ = stream.write_all(head.as_bytes()).await;
    let part = part.repeat((1 << 16) / part.len() + 1);
    while stream.write_all(part.as_bytes()).await.is_ok() {}
}

async fn answer(mut stream: TcpStream, body: &str) {
    let head = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

/// Runs a command with bounded memory.
async fn run(line: &str, url: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.yaml"), test("a", "/a", "")).unwrap();
    let bounded = format!("ulimit -v {ADDRESS_SPACE}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &bounded]).arg(program()).args(line.split_whitespace()).args(["-s", url]);
    command.current_dir(folder.path()).env("HOME", folder.path()).stdin(Stdio::null()).kill_on_drop(true);
    within(DEADLINE, format!("`{line}` ends"), command.output()).await.unwrap()
}

async fn check(line: &str, url: &str, expected: &str) {
    let output = run(line, url).await;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some(), "{line}: {said}");
    holds(&said, &[expected]);
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_read_to_its_end() {
    let url = server(|stream, _| endless(stream, "200 OK", "[", "{},")).await;
    for line in ["list test", "version", "trace list", "run t.yaml"] {
        check(line, &url, "and was not read to its end; is it a server of Qualitytrace?").await;
    }
    // An error without an end is an error all the same.
    let url = server(|stream, _| endless(stream, "400 Bad Request", "", "x")).await;
    check("trace list", &url, "the server answers 400 Bad Request").await;
    let url = server(|stream, _| endless(stream, "401 Unauthorized", "", "x")).await;
    check("list test", &url, "refuses access").await;
}

#[tokio::test]
async fn an_announced_size_and_many_small_values_are_refused() {
    let url = server(|stream, _| endless(stream, "200 OK\r\ncontent-length: 99999999999", "[", "{},")).await;
    check("list test", &url, "is larger than 64 MiB").await;
    let url = server(|stream, _| async {
        let body = format!("{{\"items\":[{}{{}}]}}", "{},".repeat(10_000_000));
        answer(stream, &body).await;
    })
    .await;
    check("list test", &url, "has more than 2097152 values, and was not decoded").await;
    check("trace show 0af7651916cd43dd8448eb211c80319c", &url, "has more than 8388608 values").await;
}

#[tokio::test]
async fn events_have_a_bound_each_and_together() {
    for (begin, part, expected) in [
        ("data: ", "x", "an event of http://"),
        ("", "data: {\"seq\":1,\"at\":1,\"what\":\"resolving\"}\n\n", "what is told about a run of http://"),
    ] {
        let url = server(move |stream, path| async move {
            match path.as_str() {
                path if path.contains("/stream") => endless(stream, "200 OK", begin, part).await,
                path if path.ends_with("/run") => answer(stream, r#"{"id":1,"traceId":"t"}"#).await,
                _ => answer(stream, r#"{"type":"Test","spec":{"id":"a","requiredGates":[]}}"#).await,
            }
        })
        .await;
        check("run t.yaml", &url, expected).await;
    }
}
