//! The gate of outbound connections: `trigger.deny` and `trigger.verifyCertificates`.

use std::net::SocketAddr;

use bytes::{BufMut as _, BytesMut};
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::base::limits::deny::Deny;
use qualitytrace_server::outbound::trigger::{Reason, TriggerError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::certificates::Authority;
use super::proxy::Proxy;
use super::web::Web;
use super::{send_within, trigger};

fn denying(rules: &[&str]) -> Limits {
    let rules = rules.iter().map(|rule| rule.parse().unwrap());
    Limits { deny: Deny::new(rules), ..Limits::default() }
}

async fn failure(yaml: &str, limits: &Limits) -> TriggerError {
    send_within(&trigger(yaml, &[]), limits).await.unwrap_err()
}

/// Starts a listener whose task ends at the first connection; it never responds.
async fn trap(host: &str) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind((host, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, tokio::spawn(async move { drop(listener.accept().await) }))
}

#[tokio::test]
async fn a_proxy_that_is_listed_is_not_connected_to() {
    let web = Web::plain().await;
    let proxy = Proxy::to(web.address).await;
    let port = proxy.address.port();
    let limits = denying(&["127.0.0.1", "::1"]);
    for written in [
        format!("127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}"),
        format!("2130706433:{port}"),
        format!("0x7f.1:{port}"),
        format!("http://[::ffff:127.0.0.1]:{port}"),
        format!("localhost:{port}"),
    ] {
        for url in ["http://shop.test/echo", "https://shop.test/echo"] {
            let yaml = format!("type: http\nhttpRequest:\n  url: {url}\n  proxy: '{written}'");
            let refused = failure(&yaml, &limits).await;
            assert_eq!(refused.reason, Reason::Denied, "{written}: {refused}");
            assert!(refused.message.contains("trigger.deny"), "{refused}");
        }
    }
    assert_eq!(proxy.seen(), [""; 0]);
}

#[tokio::test]
async fn a_token_server_that_is_listed_is_not_connected_to() {
    let (forbidden, trapped) = trap("127.0.0.1").await;
    let limits = denying(&["::ffff:127.0.0.1"]);
    for host in ["127.0.0.1", "2130706433", "localhost", "[::ffff:127.0.0.1]"] {
        let auth = format!(
            "auth:\n    type: oauth2\n    oauth2:\n      tokenUrl: http://{host}:{}/token\n      clientId: a\n      clientSecret: b",
            forbidden.port()
        );
        let http = format!("type: http\nhttpRequest:\n  url: http://127.0.0.2:9/\n  {auth}");
        let grpc = format!("type: grpc\ngrpc:\n  address: 127.0.0.2:9\n  method: a.B.C\n  {auth}");
        for yaml in [http, grpc] {
            let refused = failure(&yaml, &limits).await;
            assert_eq!(refused.reason, Reason::Denied, "{yaml}: {refused}");
        }
    }
    assert!(!trapped.is_finished());
}

/// The length of a null string.
const NULL: i16 = -1;

/// Encodes a metadata response of version 4 that names the leader of the only partition of a topic.
fn metadata(host: &str, port: u16, topic: &str, body: &mut BytesMut) {
    let text = |body: &mut BytesMut, text: &str| {
        body.put_i16(i16::try_from(text.len()).unwrap());
        body.extend_from_slice(text.as_bytes());
    };
    // No throttling; one broker, without a rack.
    body.put_i32(0);
    body.put_i32(1);
    body.put_i32(7);
    text(body, host);
    body.put_i32(i32::from(port));
    body.put_i16(NULL);
    // The cluster has no id, and the broker is its controller.
    body.put_i16(NULL);
    body.put_i32(7);
    // One topic, which is not internal.
    body.put_i32(1);
    body.put_i16(0);
    text(body, topic);
    body.put_i8(0);
    // One partition, led by the broker; no replicas.
    body.put_i32(1);
    body.put_i16(0);
    body.put_i32(0);
    body.put_i32(7);
    body.put_i32(0);
    body.put_i32(0);
}

#[tokio::test]
async fn a_broker_that_another_broker_names_is_not_connected_to() {
    let (forbidden, trapped) = trap("127.0.0.1").await;
    let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let broker = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let length = stream.read_i32().await.unwrap();
        let mut request = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut request).await.unwrap();
        let mut body = BytesMut::new();
        // The correlation id of the request.
        body.extend_from_slice(&request[4..8]);
        metadata("127.0.0.1", forbidden.port(), "orders", &mut body);
        let mut frame = BytesMut::new();
        frame.put_i32(i32::try_from(body.len()).unwrap());
        frame.extend_from_slice(&body);
        stream.write_all(&frame).await.unwrap();
        // Keeps the connection open until the client has read the response.
        let _ = stream.read_u8().await;
    });
    let yaml = format!("type: kafka\nkafka:\n  brokerUrls: ['{broker}']\n  topic: orders\n  timeout: 20s");
    let refused = failure(&yaml, &denying(&["127.0.0.1"])).await;
    assert_eq!(refused.reason, Reason::Denied, "{refused}");
    assert!(!trapped.is_finished());
}

#[tokio::test]
async fn one_setting_demands_certificates_everywhere() {
    let authority = Authority::new();
    let web = Web::tls(authority.server(None, &[b"h2", b"http/1.1"])).await;
    let port = web.address.port();
    let demanding = Limits { verify_certificates: true, ..Limits::default() };
    let http = format!("type: http\nhttpRequest:\n  url: https://localhost:{port}/echo");
    assert!(send_within(&trigger(&http, &[]), &Limits::default()).await.is_ok());
    let token = format!(
        "type: http\nhttpRequest:\n  url: http://127.0.0.1:9/\n  auth:\n    type: oauth2\n    oauth2:\n      \
         tokenUrl: https://localhost:{port}/token\n      clientId: a\n      clientSecret: b"
    );
    let graphql = format!(
        "type: graphql\ngraphql:\n  url: https://localhost:{port}/echo\n  body:\n    query: '{{ a }}'"
    );
    let grpc = format!("type: grpc\ngrpc:\n  address: localhost:{port}\n  method: a.B.C\n  tls: true");
    let kafka = format!(
        "type: kafka\nkafka:\n  brokerUrls: ['localhost:{port}']\n  topic: t\n  timeout: 20s\n  tls: {{ca: ''}}"
    );
    for yaml in [http, token, graphql, grpc, kafka] {
        let refused = failure(&yaml, &demanding).await;
        assert_eq!(refused.reason, Reason::Tls, "{yaml}: {refused}");
        assert!(refused.message.contains("UnknownIssuer"), "{refused}");
    }
}
