//! HTTP triggers: all features, and every way in which they fail.

use std::sync::atomic::Ordering;

use qualitytrace_core::run::Reply;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::base::limits::deny::Deny;
use qualitytrace_server::outbound::trigger::{Context, Reason, TriggerError, Triggers};
use qualitytrace_testing::{DEADLINE, eventually};
use serde_json::Value;

use super::certificates::{Authority, quoted};
use super::proxy::Proxy;
use super::web::Web;
use super::{SPAN, TRACE, context, send, send_within, trigger};

const TLS: &[&[u8]] = &[b"h2", b"http/1.1"];

fn yaml(url: &str, keys: &str) -> String {
    format!("type: http\nhttpRequest:\n  url: {url}\n{keys}")
}

/// Returns the request that the server received.
async fn echo(url: &str, keys: &str) -> Value {
    match send(&trigger(&yaml(url, keys), &[("who", "Ada")])).await {
        Ok(Reply::Http { status: 200, body, .. }) => serde_json::from_str(&body).unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn failure(url: &str, keys: &str) -> TriggerError {
    send(&trigger(&yaml(url, keys), &[])).await.unwrap_err()
}

/// Returns the values of a header, in order.
fn header(asked: &Value, name: &str) -> Vec<String> {
    let start = format!("{name}: ");
    let lines = asked["headers"].as_array().unwrap().iter();
    lines.filter_map(|line| line.as_str().unwrap().strip_prefix(&start)).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn every_method_is_sent() {
    let url = format!("http://{}/echo", Web::plain().await.address);
    for method in ["GET", "post", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "PURGE", "LINK"] {
        assert_eq!(echo(&url, &format!("  method: {method}")).await["method"], method.to_uppercase());
    }
    let head = send(&trigger(&yaml(&url, "  method: HEAD"), &[])).await;
    assert!(matches!(head, Ok(Reply::Http { status: 200, .. })), "{head:?}");
}

#[tokio::test]
async fn repeated_headers_are_kept_in_order() {
    let url = format!("http://{}/echo", Web::plain().await.address);
    let keys = "  headers:\n  - {key: X-A, value: one}\n  - {key: x-a, value: '${env:who}'}\n  - {key: Host, value: shop.test}";
    let asked = echo(&url, keys).await;
    assert_eq!(header(&asked, "x-a"), ["one", "Ada"]);
    assert_eq!(header(&asked, "host"), ["shop.test"]);
}

#[tokio::test]
async fn a_form_is_encoded() {
    let url = format!("http://{}/echo", Web::plain().await.address);
    let keys = "  method: POST\n  form:\n  - {key: name, value: '${env:who} & co'}\n  - {key: tag, value: a}\n  - {key: tag, value: ü}";
    let asked = echo(&url, keys).await;
    assert_eq!(asked["body"], "name=Ada+%26+co&tag=a&tag=%C3%BC");
    assert_eq!(header(&asked, "content-type"), ["application/x-www-form-urlencoded"]);
}

#[tokio::test]
async fn a_multipart_body_has_fields_and_files() {
    let url = format!("http://{}/echo", Web::plain().await.address);
    let keys = "  method: POST
  multipart:
  - {name: who, value: '${env:who}'}
  - {name: photo, file: 'data:;base64,/wA=', filename: p.png, contentType: image/png}";
    let asked = echo(&url, keys).await;
    let kind = header(&asked, "content-type").remove(0);
    let mark = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let body =
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, asked["base64"].as_str().unwrap());
    let expected = [
        format!("--{mark}\r\nContent-Disposition: form-data; name=\"who\"\r\n\r\nAda\r\n--{mark}\r\n").as_bytes(),
        b"Content-Disposition: form-data; name=\"photo\"; filename=\"p.png\"\r\nContent-Type: image/png\r\n\r\n",
        &[255, 0],
        format!("\r\n--{mark}--\r\n").as_bytes(),
    ]
    .concat();
    assert_eq!(String::from_utf8_lossy(&body.unwrap()), String::from_utf8_lossy(&expected));
}

#[tokio::test]
async fn a_binary_body_arrives_byte_by_byte() {
    let url = format!("http://{}/echo", Web::plain().await.address);
    let asked = echo(&url, "  method: PUT\n  bodyFile: 'data:application/octet-stream;base64,AP8Q'").await;
    assert_eq!((&asked["base64"], &asked["body"]), (&Value::from("AP8Q"), &Value::Null));

    let unread = failure(&url, "  bodyFile: ./photo.png").await;
    assert_eq!(unread.reason, Reason::Invalid);
    assert!(
        unread.message.starts_with("the file `./photo.png` of the trigger's `bodyFile` did not come along"),
        "{unread}"
    );
}

#[tokio::test]
async fn credentials_are_sent_as_the_test_says() {
    let url = format!("http://{}/echo", Web::plain().await.address);
    let auth = async |keys: &str| {
        let asked = echo(&url, &format!("  auth:\n    {}", keys.replace('\n', "\n    "))).await;
        (header(&asked, "authorization"), header(&asked, "x-key"), asked["path"].as_str().unwrap().to_owned())
    };
    let none = Vec::<String>::new;
    assert_eq!(
        auth("type: basic\nbasic: {username: '${env:who}', password: 'a:b'}").await,
        (vec!["Basic QWRhOmE6Yg==".to_owned()], none(), "/echo".to_owned())
    );
    assert_eq!(
        auth("type: bearer\nbearer: {token: 'Bearer ${env:who}'}").await,
        (vec!["Bearer Ada".to_owned()], none(), "/echo".to_owned())
    );
    assert_eq!(
        auth("type: apiKey\napiKey: {key: X-Key, value: '${env:who}', in: header}").await,
        (none(), vec!["Ada".to_owned()], "/echo".to_owned())
    );
    assert_eq!(
        auth("type: apiKey\napiKey: {key: key, value: 'a b', in: query}").await,
        (none(), none(), "/echo?key=a+b".to_owned())
    );
}

fn oauth2(web: &Web, secret: &str, place: &str) -> String {
    format!(
        "  auth:
    type: oauth2
    oauth2:
      tokenUrl: http://{}/token
      clientId: me
      clientSecret: {secret}
      scopes: [read, write]
      audience: shop
      in: {place}",
        web.address
    )
}

#[tokio::test]
async fn a_token_is_fetched_once_and_again_when_it_is_not_taken() {
    let web = Web::plain().await;
    let triggers = Triggers::new(Limits::default());
    let send = async |path: &str, place: &str| {
        let url = format!("http://{}{path}", web.address);
        let request = trigger(&yaml(&url, &oauth2(&web, "s3cret", place)), &[]);
        match triggers.send(&request, &context()).await.unwrap() {
            Reply::Http { status, body, .. } => (status, body),
            other => panic!("{other:?}"),
        }
    };
    let (_, body) = send("/echo", "header").await;
    let asked = serde_json::from_str(&body).unwrap();
    assert_eq!(header(&asked, "authorization"), ["Bearer token-1"]);
    send("/echo", "body").await;
    assert_eq!(web.tokens.load(Ordering::SeqCst), 1);
    assert_eq!(send("/guarded", "header").await.0, 401);
    assert_eq!(send("/guarded", "body").await.0, 200);
    assert_eq!(web.tokens.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_token_that_is_not_given_is_explained() {
    let web = Web::plain().await;
    let url = format!("http://{}/echo", web.address);
    let refused = failure(&url, &oauth2(&web, "wrong", "header")).await;
    assert_eq!(refused.reason, Reason::Credentials);
    assert_eq!(
        refused.message,
        format!(
            "the token server {} does not accept the credentials: invalid_client who is this?; correct them in the trigger",
            web.address
        )
    );
    let closed = qualitytrace_testing::port();
    let keys =
        oauth2(&web, "s3cret", "body").replace(&web.address.to_string(), &format!("127.0.0.1:{closed}"));
    let refused = failure(&url, &keys).await;
    assert_eq!(refused.reason, Reason::Refused);
    assert!(
        refused.message.starts_with(&format!(
            "nothing listens on 127.0.0.1:{closed}; start the token server or correct the trigger's `tokenUrl`"
        )),
        "{refused}"
    );
    let no_token = oauth2(&web, "s3cret", "body").replace("/token", "/echo");
    let odd = failure(&url, &no_token).await;
    assert_eq!(odd.reason, Reason::Protocol);
    assert!(odd.message.contains("it is no token: missing field `access_token`"), "{odd}");
}

#[tokio::test]
async fn the_trace_is_named_in_every_dialect() {
    let url = format!("http://{}/echo", Web::plain().await.address);
    let context = Context { baggage: "user=7".to_owned(), ..context() };
    let mine = "  headers: [{key: traceparent, value: mine}, {key: B3, value: mine}]";
    let reply = Triggers::new(Limits::default()).send(&trigger(&yaml(&url, mine), &[]), &context).await;
    let Ok(Reply::Http { body, .. }) = reply else { panic!("{reply:?}") };
    let asked = serde_json::from_str(&body).unwrap();
    for (name, value) in [
        ("traceparent", format!("00-{TRACE}-{SPAN}-01")),
        ("tracestate", "tracetest=true".to_owned()),
        ("baggage", "user=7".to_owned()),
        ("b3", format!("{TRACE}-{SPAN}-1")),
        ("x-b3-traceid", TRACE.to_owned()),
        ("x-b3-spanid", SPAN.to_owned()),
        ("x-b3-sampled", "1".to_owned()),
        ("uber-trace-id", format!("{TRACE}:{SPAN}:0:1")),
        ("x-amzn-trace-id", format!("Root=1-{}-{};Parent={SPAN};Sampled=1", &TRACE[..8], &TRACE[8..])),
        ("ot-tracer-traceid", TRACE[16..].to_owned()),
        ("ot-tracer-spanid", SPAN.to_owned()),
        ("ot-tracer-sampled", "true".to_owned()),
    ] {
        assert_eq!(header(&asked, name), [value], "{name}");
    }
}

#[tokio::test]
async fn redirects_are_followed_as_far_as_the_test_says() {
    let base = format!("http://{}", Web::plain().await.address);
    let asked = echo(&format!("{base}/redirect/9"), "  method: PUT\n  body: x").await;
    assert_eq!((&asked["method"], &asked["body"]), (&Value::from("PUT"), &Value::from("x")));
    assert_eq!(header(&asked, "traceparent"), [format!("00-{TRACE}-{SPAN}-01")]);
    assert_eq!(echo(&format!("{base}/found"), "  method: POST\n  body: x").await["method"], "GET");
    assert_eq!(echo(&format!("{base}/redirect/1"), "  redirects: 2").await["method"], "GET");

    let too_many = failure(&format!("{base}/redirect/2"), "  redirects: 2").await;
    assert_eq!(too_many.reason, Reason::Protocol);
    assert!(too_many.message.ends_with("raise the trigger's `redirects`"), "{too_many}");

    let stays = send(&trigger(&yaml(&format!("{base}/redirect/1"), "  redirects: none"), &[])).await;
    let Ok(Reply::Http { status: 307, headers, .. }) = stays else { panic!("{stays:?}") };
    assert!(headers.contains(&("Location".to_owned(), "/redirect/0".to_owned())), "{headers:?}");
}

#[tokio::test]
async fn credentials_do_not_go_along_to_another_host() {
    let (here, there) = (Web::plain().await, Web::plain().await);
    let auth = "  headers: [{key: X-Mine, value: mine}, {key: Cookie, value: a=b}]
  auth:
    type: apiKey
    apiKey: {key: X-Key, value: secret}";
    let asked = async |to: &Web| {
        let url = format!("http://{}/to?http://{}/echo", here.address, to.address);
        let asked = echo(&url, auth).await;
        ["x-key", "cookie", "x-mine"].map(|name| header(&asked, name).concat())
    };
    assert_eq!(asked(&here).await, ["secret", "a=b", "mine"]);
    assert_eq!(asked(&there).await, ["", "", "mine"]);

    let odd = failure(&format!("http://{}/to?ftp://files.test/a", here.address), "").await;
    assert_eq!(
        odd.message,
        format!(
            "{} leads to `ftp://files.test/a`, which is not HTTP; write `redirects: none` to take the redirect for \
             the answer",
            here.address
        )
    );
}

#[tokio::test]
async fn the_version_is_agreed_on_or_insisted_on() {
    let plain = format!("http://{}/echo", Web::plain().await.address);
    let authority = Authority::new();
    let tls = Web::tls(authority.server(None, TLS)).await;
    let tls = format!("https://localhost:{}/echo", tls.address.port());
    for (url, keys, version) in [
        (&plain, "", "HTTP/1.1"),
        (&plain, "  httpVersion: 2", "HTTP/2.0"),
        (&tls, "", "HTTP/2.0"),
        (&tls, "  httpVersion: 1.1", "HTTP/1.1"),
        (&tls, "  httpVersion: 2", "HTTP/2.0"),
    ] {
        assert_eq!(echo(url, keys).await["version"], version, "{url} {keys}");
    }
    let old = Web::tls(authority.server(None, &[b"http/1.1"])).await;
    let old = failure(&format!("https://localhost:{}/echo", old.address.port()), "  httpVersion: 2").await;
    assert_eq!(old.reason, Reason::Tls);
    assert!(
        old.message.contains("NoApplicationProtocol")
            && old.message.ends_with("; if it does not speak HTTP/2, remove the trigger's `httpVersion`"),
        "{old}"
    );
}

#[tokio::test]
async fn certificates_are_checked_against_the_authority_of_the_test() {
    let (ours, other) = (Authority::new(), Authority::new());
    let web = Web::tls(ours.server(None, TLS)).await;
    let url = format!("https://localhost:{}/echo", web.address.port());
    assert_eq!(echo(&url, "").await["method"], "GET");
    assert_eq!(echo(&url, &format!("  tls: {{ca: {}}}", quoted(&ours.pem))).await["method"], "GET");

    let place = format!("the TLS handshake with localhost:{} failed: ", web.address.port());
    let check = async |keys: &str, cause: &str| {
        let failure = failure(&url, keys).await;
        assert_eq!((failure.reason, failure.message), (Reason::Tls, format!("{place}{cause}")));
    };
    let unknown = "invalid peer certificate: UnknownIssuer; name its authority in the trigger's `tls.ca`, or set \
                   `sslVerification: false`";
    check("  sslVerification: true", unknown).await;
    let failure = failure(&url, &format!("  tls: {{ca: {}}}", quoted(&other.pem))).await;
    assert_eq!(failure.reason, Reason::Tls, "{failure}");

    let unread = super::http::failure(&url, "  tls: {ca: ./ca.pem}").await;
    assert_eq!(
        unread.message,
        "the trigger's `tls.ca`: the authorities cannot be used: there is no certificate among them; it takes the \
         text of a PEM file"
    );
}

#[tokio::test]
async fn a_client_shows_its_certificate_where_it_is_asked_for() {
    let (servers, clients) = (Authority::new(), Authority::new());
    let web = Web::tls(servers.server(Some(&clients), TLS)).await;
    let url = format!("https://localhost:{}/echo", web.address.port());
    let tls = |authority: &Authority| {
        let me = authority.sign("me");
        let (ca, certificate, key) = (quoted(&servers.pem), quoted(&me.certificate), quoted(&me.key));
        format!("  tls:\n    ca: {ca}\n    certificate: {certificate}\n    key: {key}")
    };
    assert_eq!(echo(&url, &tls(&clients)).await["method"], "GET");

    let without = failure(&url, "").await;
    assert_eq!(without.reason, Reason::Tls, "{without}");
    assert!(without.message.contains("give the trigger `tls.certificate` and `tls.key`"), "{without}");
    let stranger = failure(&url, &tls(&servers)).await;
    assert_eq!(stranger.reason, Reason::Tls, "{stranger}");
    assert!(stranger.message.contains("it does not accept the trigger's `tls.certificate`"), "{stranger}");
}

#[tokio::test]
async fn a_proxy_is_used_where_the_test_names_one() {
    let web = Web::plain().await;
    let proxy = Proxy::to(web.address).await;
    let through = format!("  proxy: http://me:pw@{}", proxy.address);
    assert_eq!(echo("http://shop.test/echo", &through).await["path"], "/echo");

    let authority = Authority::new();
    let secure = Web::tls(authority.server(None, TLS)).await;
    let tunnel = Proxy::to(secure.address).await;
    let keys = format!("  proxy: {}\n  tls: {{ca: {}}}", tunnel.address, quoted(&authority.pem));
    assert_eq!(echo("https://localhost/echo", &keys).await["path"], "/echo");

    assert_eq!(proxy.seen(), ["GET http://shop.test/echo HTTP/1.1 (basic bwu6chc=)"]);
    assert_eq!(tunnel.seen(), ["CONNECT localhost:443 HTTP/1.1"]);
}

#[tokio::test]
async fn a_denied_address_is_not_asked_through_a_proxy_either() {
    let web = Web::plain().await;
    let proxy = Proxy::to(web.address).await;
    let deny = ["127.0.0.0/8", "::1", "*.internal"].map(|rule| rule.parse().unwrap());
    let limits = Limits { deny: Deny::new(deny), ..Limits::default() };
    let keys = format!("  proxy: {}", proxy.address);
    for host in ["127.0.0.1", "localhost", "metadata.internal"] {
        let request = trigger(&yaml(&format!("http://{host}/echo"), &keys), &[]);
        let refused = send_within(&request, &limits).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Denied, "{refused}");
    }
    assert_eq!(proxy.seen(), [""; 0]);
}

#[tokio::test]
async fn a_proxy_that_does_not_work_is_named() {
    let closed = qualitytrace_testing::port();
    let refused = failure("http://shop.test/echo", &format!("  proxy: 127.0.0.1:{closed}")).await;
    assert_eq!(refused.reason, Reason::Refused);
    assert!(
        refused.message.starts_with(&format!(
            "nothing listens on 127.0.0.1:{closed}; start the proxy or correct the trigger's proxy"
        )),
        "{refused}"
    );
    let web = Web::plain().await;
    let proxy = Proxy::to(web.address).await;
    let denied = failure("https://forbidden.test/echo", &format!("  proxy: {}", proxy.address)).await;
    assert_eq!(denied.reason, Reason::Unreachable, "{denied}");
    assert!(denied.message.ends_with(&format!("(through the proxy {})", proxy.address)), "{denied}");
}

#[tokio::test]
async fn an_unreachable_system_is_named() {
    let closed = qualitytrace_testing::port();
    let refused = failure(&format!("http://localhost:{closed}"), "").await;
    assert_eq!((refused.reason, refused.targets_localhost), (Reason::Refused, true));
    assert!(
        refused.message.starts_with(&format!(
            "nothing listens on localhost:{closed}; start the system under test or correct the trigger's url"
        )),
        "{refused}"
    );
    let unknown = failure("http://no-such-host.invalid/", "").await;
    assert_eq!(unknown.reason, Reason::Dns);
    assert!(
        unknown.message.starts_with("the host `no-such-host.invalid` is unknown; check the name"),
        "{unknown}"
    );
    let plain = Web::plain().await.address.port();
    let not_tls = failure(&format!("https://localhost:{plain}/echo"), "").await;
    assert_eq!(not_tls.reason, Reason::Tls);
    assert!(not_tls.message.ends_with("it does not seem to use TLS: connect without it"), "{not_tls}");
}

#[tokio::test]
async fn an_answer_in_another_protocol_is_noticed() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 16];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut asked).await;
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail.test ESMTP ready\r\n").await;
        }
    });
    let url = format!("http://{address}/");
    let odd = failure(&url, "").await;
    assert_eq!(
        odd.message,
        format!(
            "{address} answers in another protocol: invalid HTTP version parsed; if it speaks TLS, write `https://` in \
             the trigger's url"
        )
    );
    assert_eq!(odd.reason, Reason::Protocol);
    let odd = failure(&url, "  httpVersion: 2").await;
    assert!(
        odd.message.ends_with("if it does not speak HTTP/2, remove the trigger's `httpVersion`"),
        "{odd}"
    );
}

#[tokio::test]
async fn an_answer_without_end_is_cut_and_said_to_be() {
    let url = format!("http://{}/huge", Web::plain().await.address);
    let limits = Limits { reply_bytes: 100_000, ..Limits::default() };
    let reply = send_within(&trigger(&yaml(&url, ""), &[]), &limits).await;
    let Ok(Reply::Http { body, truncated: true, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!(body.len(), 100_000);
}

#[tokio::test]
async fn an_abandoned_request_is_cancelled() {
    let web = Web::plain().await;
    let request = trigger(&yaml(&format!("http://{}/hang", web.address), ""), &[]);
    let waiting = tokio::spawn(async move { send(&request).await });
    let until = async |count: usize| {
        eventually(DEADLINE, format!("{count} requests are hanging"), async || {
            web.hanging.load(Ordering::SeqCst) == count
        })
        .await;
    };
    until(1).await;
    waiting.abort();
    until(0).await;
}
