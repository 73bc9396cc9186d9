//! Secrets of a run, given by `--secret` or in a variable set and sent in a header, are in no output, report, event, log or
//! database, however the system under test repeats them. Nor is a credential that the test itself has in a header, but for
//! the test's own text.

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::late_spans_load::program::Served;
use crate::program;
use crate::selecting::Desk;

const OF_FLAG: &str = "p&ss/word+4711=xyz";
const OF_SET: &str = "other&ss/word+0815=abc";
const OF_TEST: &str = "third&ss/word+1234=def";

/// The forms in which a secret is looked for.
fn forms(secret: &str) -> [String; 3] {
    let encoded = url_encoded(secret);
    [secret.to_owned(), STANDARD.encode(secret).trim_end_matches('=').to_owned(), encoded]
}

fn url_encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

/// Repeats the header in its body and its own headers, in every form.
async fn echo(headers: HeaderMap) -> ([(&'static str, String); 1], String) {
    let said = ["x-credentials", "authorization"].map(|name| headers[name].to_str().unwrap());
    let forms: Vec<String> = said.iter().flat_map(|said| said.split(' ')).flat_map(forms).collect();
    ([("x-echo", forms.join(" "))], format!("{{\"said\": \"{}\"}}", forms.join("\\n")))
}

const TEST: &str = "type: Test
spec:
  id: t
  name: Sends secrets
  skipTraceCollection: true
  trigger:
    type: http
    httpRequest:
      method: GET
      url: ${var:URL}/echo?q=${var:FLAG}
      headers:
      - { key: x-credentials, value: '${var:FLAG} ${var:SET}' }
      - { key: Authorization, value: 'Bearer OF_TEST' }
  outputs:
  - name: SAID
    selector: span[name = \"Tracetest trigger\"]
    value: attr:tracetest.response.body
  specs:
  - selector: span[name = \"Tracetest trigger\"]
    assertions:
    - attr:tracetest.response.body = \"${var:FLAG}\"
    - attr:tracetest.response.body = \"${var:SET}\"
";

#[tokio::test]
async fn a_secret_is_in_no_output_report_event_log_or_database() {
    let set = format!(
        "type: VariableSet\nspec:\n  id: set\n  name: Set\n  values:\n  - {{ key: SET, value: '{OF_SET}', type: secret }}\n"
    );
    let desk = Desk::with(&[("t.yaml", TEST.replace("OF_TEST", OF_TEST)), ("set.yaml", set)]).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("URL=http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/echo", get(echo))).await });

    let data = desk.path().join("data");
    let database = format!("sqlite://{}", data.join("q.db").display());
    let mut server = Served::start_in(
        program(),
        &[("RUST_LOG", "debug,hyper=info,h2=info,sqlx=debug")],
        &["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"]
            .into_iter()
            .chain(["--data-dir", data.to_str().unwrap(), "--database-url", &database])
            .collect::<Vec<_>>(),
    )
    .await;
    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    let secret = format!("FLAG={OF_FLAG}");
    let reports = "json=r.json,junit=r.xml,tap=r.tap,html=r.html,markdown=r.md,github";
    let given = ["--vars", "set.yaml", "--secret", &secret, "--var", &url];
    let ours = ["run", "t.yaml", "-v", "--report", reports];
    let address = server.url("");
    let named = ["--server", &address];
    let local = ["--local", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    for (what, command) in [
        ("on a server", [&ours[..], &named, &given].concat()),
        ("local", [&ours[..], &local, &given].concat()),
        ("as tracetest", [&["run", "test", "-f", "t.yaml", "-j", "t.xml"][..], &named, &given].concat()),
        ("as JSON", [&["run", "test", "-f", "t.yaml", "-o", "json"][..], &named, &given].concat()),
    ] {
        let (code, out, err) = desk.call("", &command, &[("RUST_LOG", "debug,hyper=info")]).await;
        assert_eq!(code, Some(2), "{what}: {out}{err}");
        seen.push((format!("output {what}"), (out + &err).into_bytes()));
        for name in ["r.json", "r.xml", "r.tap", "r.html", "r.md", "t.xml"] {
            if let Ok(report) = std::fs::read(desk.path().join(name)) {
                seen.push((format!("{name} {what}"), report));
            }
        }
    }
    assert!(seen[0].1.windows(8).any(|part| part == b"********"), "what is redacted is shown as such");
    for route in [
        "/tests/t/run/1",
        "/tests/t/run/1/events",
        "/tests/t/run/1/events/stream",
        "/tests/t/run/1/junit.xml",
        "/runs",
    ] {
        let answer = crate::client().get(server.url(&format!("/api{route}"))).send().await.unwrap();
        assert!(answer.status().is_success(), "{route}");
        seen.push((route.to_owned(), answer.bytes().await.unwrap().to_vec()));
    }
    seen.push(("log".to_owned(), server.log_so_far().into_bytes()));
    drop(server);
    let before = seen.len();
    for file in std::fs::read_dir(&data).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            seen.push((path.display().to_string(), std::fs::read(path).unwrap()));
        }
    }
    assert!(seen.len() > before, "the database has files");
    for (at, (what, bytes)) in seen.iter().enumerate() {
        // The text of the test is the user's, and is stored as it is.
        let secrets = if at < before { &[OF_FLAG, OF_SET, OF_TEST][..] } else { &[OF_FLAG, OF_SET] };
        for form in secrets.iter().copied().flat_map(forms) {
            let is_there = bytes.windows(form.len()).any(|part| part == form.as_bytes());
            assert!(!is_there, "`{form}` is in {what}: {}", String::from_utf8_lossy(bytes));
        }
    }
}
