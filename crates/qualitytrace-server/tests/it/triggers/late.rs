//! Timeouts of triggers: the message names the peer and the stage.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use qualitytrace_server::outbound::trigger::Reason;
use tokio::net::TcpListener;

use super::web::Web;
use super::{send, trigger};

/// Starts a peer that accepts connections and never responds.
async fn silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    address
}

/// Checks the message when a trigger of this type and block times out.
async fn check(kind: &str, block: &str, keys: &str, expected: &str) {
    let yaml = format!("type: {kind}\n{block}:\n  timeout: 300ms\n{keys}");
    let late = send(&trigger(&yaml, &[])).await.unwrap_err();
    assert_eq!(late.reason, Reason::Timeout, "{late}");
    assert!(!late.reason.is_connection() && !late.message.contains("container"), "{late}");
    assert_eq!(late.message, expected);
}

#[tokio::test]
async fn a_system_that_does_not_answer_is_named() {
    let web = Web::plain().await.address;
    let expected = format!("{web} did not answer in time; raise the trigger's `timeout`");
    check("http", "httpRequest", &format!("  url: http://{web}/hang"), &expected).await;
    check("http", "httpRequest", &format!("  url: http://{web}/to?http://{web}/hang"), &expected).await;
    check("graphql", "graphql", &format!("  url: http://{web}/hang\n  body: {{query: '{{a}}'}}"), &expected)
        .await;
    let silent = silent().await;
    let expected = format!("{silent} did not answer in time; raise the trigger's `timeout`");
    check("grpc", "grpc", &format!("  address: {silent}\n  method: a.B/C"), &expected).await;
    let expected = format!("{expected}, or check that it is a Kafka broker");
    check("kafka", "kafka", &format!("  brokerUrls: ['{silent}']\n  topic: t"), &expected).await;
}

#[tokio::test]
async fn an_answer_that_has_begun_is_not_said_to_be_missing() {
    let web = Web::plain().await.address;
    let expected = format!(
        "the answer of {web} was not complete in time: it began, but did not end; raise the trigger's `timeout`"
    );
    check("http", "httpRequest", &format!("  url: http://{web}/drip"), &expected).await;
}

#[tokio::test]
async fn a_token_server_that_does_not_answer_is_named() {
    let (web, silent) = (Web::plain().await.address, silent().await);
    let expected = format!("the token server {silent} did not answer in time; raise the trigger's `timeout`");
    let auth = format!(
        "  auth:
    type: oauth2
    oauth2: {{tokenUrl: 'http://{silent}/token', clientId: me, clientSecret: s3cret}}"
    );
    check("http", "httpRequest", &format!("  url: http://{web}/echo\n{auth}"), &expected).await;
    check("grpc", "grpc", &format!("  address: {web}\n  method: a.B/C\n{auth}"), &expected).await;
}

#[tokio::test]
async fn a_proxy_that_does_not_answer_is_named() {
    let silent = silent().await;
    let expected = format!(
        "the proxy {silent} did not answer in time; check whether the proxy reaches shop.test:80, or raise the \
         trigger's `timeout`"
    );
    check("http", "httpRequest", &format!("  url: http://shop.test/\n  proxy: {silent}"), &expected).await;
}

/// Only the trigger's own timeout applies; it is longer than usual connect timeouts.
#[tokio::test]
async fn connecting_may_take_as_long_as_the_trigger_says() {
    let silent = &silent().await;
    let check = async |kind: &str, block: &str, keys: String| {
        let yaml = format!("type: {kind}\n{block}:\n  timeout: 5500ms\n{keys}");
        let began = Instant::now();
        let late = send(&trigger(&yaml, &[])).await.unwrap_err();
        assert!(began.elapsed() >= Duration::from_millis(5500), "{kind}: {:?}", began.elapsed());
        assert_eq!(late.reason, Reason::Timeout, "{late}");
        let expected = format!(
            "the handshake with {silent} did not end in time; check that it speaks TLS, or raise the trigger's \
             `timeout`"
        );
        assert!(late.message.starts_with(&expected), "{late}");
    };
    tokio::join!(
        check("http", "httpRequest", format!("  url: https://{silent}/")),
        check("grpc", "grpc", format!("  address: https://{silent}\n  method: a.B/C")),
        check("kafka", "kafka", format!("  brokerUrls: ['{silent}']\n  topic: t\n  tls: true")),
    );
}

#[tokio::test]
async fn a_broker_that_does_not_answer_leaves_time_for_the_others() {
    let (silent, closed) = (silent().await, qualitytrace_testing::port());
    let yaml = format!(
        "type: kafka\nkafka:\n  brokerUrls: ['{silent}', '127.0.0.1:{closed}']\n  topic: t\n  tls: true\n  timeout: 2s"
    );
    let refused = send(&trigger(&yaml, &[])).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Refused, "{refused}");
}
