//! The page for browsers, as it is served: with it built in, and without.

use std::net::SocketAddr;

use http::header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, IF_NONE_MATCH, ORIGIN};
use qualitytrace_server::config::{Config, Safety};
use qualitytrace_server::http::access::Access;
use qualitytrace_server::http::web::{File, Page};
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::DEADLINE;
use serde_json::{Value, json};

const TOKEN: &str = "full-token-0123456789abcdef";
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

const INDEX: &[u8] = br#"<base href="{base}" /><meta property="csp-nonce" nonce="{nonce}" /><script src="./assets/a-1.js"></script>"#;

const FILES: [File; 2] = [
    File {
        path: "assets/a-1.js",
        kind: "text/javascript; charset=utf-8",
        etag: "W/\"1\"",
        immutable: true,
        plain: b"plain plain plain",
        gzip: Some(b"as gzip"),
        brotli: Some(b"as br"),
    },
    File {
        path: "index.html",
        kind: "text/html; charset=utf-8",
        etag: "W/\"2\"",
        immutable: false,
        plain: INDEX,
        gzip: None,
        brotli: None,
    },
];

/// A server below a prefix that asks for a token.
async fn server(page: Page) -> (Server, String) {
    let tokens = vec![format!("full:{TOKEN}").parse().unwrap()];
    let server = Server::start(Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        path_prefix: "/below".to_owned(),
        safety: Safety { access: Access { tokens, otlp: false }, ..Safety::default() },
        page,
        ..Config::default()
    });
    let server = server.await.unwrap();
    let base = format!("http://{}", server.addresses().http);
    (server, base)
}

struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    text: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

async fn get(url: &str, headers: &[(http::HeaderName, &str)]) -> Answer {
    // It does not decompress: the encodings are what is looked at.
    let client = reqwest::Client::builder().no_gzip().timeout(DEADLINE).build().unwrap();
    let request = client.get(url);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, *value));
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Answer { status, headers, text: String::from_utf8_lossy(&answer.bytes().await.unwrap()).into_owned() }
}

/// The value of an attribute in the document.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let from = text.find(begin).unwrap_or_else(|| panic!("no {begin} in {text}")) + begin.len();
    let rest = &text[from..];
    &rest[..rest.find(end).unwrap()]
}

/// What the server says about its page.
async fn told(base: &str) -> Value {
    let answer = crate::client().get(format!("{base}/api/info")).bearer_auth(TOKEN).send().await.unwrap();
    answer.json::<Value>().await.unwrap()["page"].take()
}

#[tokio::test]
async fn a_program_without_a_page_says_why_and_serves_the_api() {
    let (server, base) = server(Page { files: &[], absent: Some("Node <20.19> is needed") }).await;
    assert_eq!(told(&base).await, json!({ "built": false, "reason": "Node <20.19> is needed" }));
    let home = crate::client().get(&base).bearer_auth(TOKEN).header(ACCEPT, BROWSER);
    let text = home.send().await.unwrap().text().await.unwrap();
    assert!(
        text.contains("not built in: Node &lt;20.19&gt; is needed") && text.contains("api/docs"),
        "{text}"
    );
    assert_eq!(get(&format!("{base}/tests"), &[(ACCEPT, BROWSER)]).await.status, 401);
    server.shutdown().await;
}

#[tokio::test]
async fn browsers_get_the_page_at_every_address_and_programs_get_the_api() {
    let (server, base) = server(Page { files: &FILES, absent: None }).await;
    assert_eq!(told(&base).await, json!({ "built": true, "reason": null }));
    for (path, status, root) in [
        ("/", 200, "./"),
        ("/below", 200, "./below/"),
        ("/below/", 200, "./"),
        ("/below/tests?query=x", 200, "./"),
        ("/below/test/a/run/1/trace", 200, "../../../../"),
        ("/test/a/run/1/trace", 200, "../../../../"),
        ("/below/nothing/here", 404, "../"),
    ] {
        // Nobody has signed in: the document holds nothing.
        let page = get(&format!("{base}{path}"), &[(ACCEPT, BROWSER)]).await;
        assert_eq!(page.status, status, "{path}");
        assert_eq!(between(&page.text, "<base href=\"", "\""), root, "{path}");
        let nonce = between(&page.text, "nonce=\"", "\"");
        let policy = page.header("content-security-policy");
        assert!(policy.contains(&format!("'nonce-{nonce}'")) && nonce.len() == 32, "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("default-src 'none'"), "{policy}");
        assert!(!page.text.contains('{'), "a placeholder is left: {}", page.text);
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        assert_eq!(page.headers[CACHE_CONTROL], "no-store");
    }
    // The columns of a trace are on their way while the scripts are read, below the prefix too.
    for (path, link) in [
        (
            "/below/test/a/run/1/trace",
            "<../../../../api/tests/a/run/1/trace/columns>; rel=preload; as=fetch; crossorigin",
        ),
        ("/trace/5b8a", "<../api/traces/5b8a/columns>; rel=preload; as=fetch; crossorigin"),
        ("/below/tests", ""),
    ] {
        assert_eq!(get(&format!("{base}{path}"), &[(ACCEPT, BROWSER)]).await.header("link"), link, "{path}");
    }
    // What belongs to programs is never the page, whatever a browser accepts.
    for path in ["/api/nothing", "/below/api/tests", "/assets/none.js", "/below/assets/none.js", "/metrics"] {
        let answer = get(&format!("{base}{path}"), &[(ACCEPT, BROWSER)]).await;
        assert_eq!((answer.status, answer.text.contains("<base")), (401, false), "{path}");
    }
    assert_eq!(get(&format!("{base}/tests"), &[(ACCEPT, "application/json")]).await.status, 401);
    assert_eq!(get(&format!("{base}/healthz"), &[(ACCEPT, BROWSER)]).await.text, r#"{"status":"ok"}"#);
    let foreign = [(ACCEPT, BROWSER), (ORIGIN, "http://evil.example")];
    assert_eq!(get(&format!("{base}/tests"), &foreign).await.status, 403);
    server.shutdown().await;
}

#[tokio::test]
async fn files_of_the_page_never_change_and_come_compressed() {
    let (server, base) = server(Page { files: &FILES, absent: None }).await;
    let url = format!("{base}/below/assets/a-1.js");
    for (coding, expected) in [("", "plain plain plain"), ("gzip, br", "as br"), ("gzip, br;q=0", "as gzip")]
    {
        let file = get(&url, &[(ACCEPT_ENCODING, coding)]).await;
        assert_eq!((file.status, file.text.as_str()), (200, expected));
        assert_eq!(file.header(CONTENT_ENCODING.as_str()), expected.strip_prefix("as ").unwrap_or_default());
        assert_eq!(file.headers[CACHE_CONTROL], "public, max-age=31536000, immutable");
        assert_eq!(file.header("vary"), "accept-encoding");
    }
    assert_eq!(get(&url, &[(IF_NONE_MATCH, "W/\"0\", W/\"1\"")]).await.status, 304);
    let head = crate::client().head(&url).send().await.unwrap();
    assert_eq!((head.status().as_u16(), head.bytes().await.unwrap().len()), (200, 0));
    server.shutdown().await;
}
