//! gRPC triggers: all kinds of calls, and every way in which they fail.

use std::net::SocketAddr;

use base64::Engine as _;
use qualitytrace_core::run::{GrpcReply, Reply};
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::outbound::trigger::{Reason, TriggerError};

use super::certificates::{Authority, quoted};
use super::peer::{self, Reflection};
use super::{SPAN, TRACE, send, send_within, trigger};

/// Builds a call without a protocol text.
fn reflected(address: &str, method: &str, request: &str) -> String {
    format!("type: grpc\ngrpc:\n  address: {address}\n  method: {method}\n  request: '{request}'")
}

/// Builds a call with a protocol text.
fn described(address: SocketAddr, method: &str, request: &str) -> String {
    let text = |source: &str| serde_json::to_string(source).unwrap();
    format!(
        "{}\n  protobufFile: {}\n  imports:\n    shared/money.proto: {}",
        reflected(&address.to_string(), method, request),
        text(peer::PROTO),
        text(peer::MONEY)
    )
}

async fn answer(yaml: &str) -> GrpcReply {
    match send(&trigger(yaml, &[("who", "Ada")])).await {
        Ok(Reply::Grpc(reply)) => *reply,
        other => panic!("{other:?}"),
    }
}

async fn failure(yaml: &str) -> TriggerError {
    send(&trigger(yaml, &[])).await.unwrap_err()
}

#[tokio::test]
async fn a_described_call_is_answered_with_defaults_in_json() {
    let peer = peer::serve(Reflection::None).await;
    let request = r#"{"text": "${env:who}", "at": "1970-01-01T00:00:05Z", "price": {"cents": "37"}}"#;
    let yaml = described(peer, "peer.Echo.Say", request);
    let reply =
        answer(&format!("{yaml}\n  metadata:\n  - key: X-User\n    value: ${{env:who}}\n  - {{}}")).await;
    assert_eq!(
        reply.body,
        format!(
            r#"{{
  "text": "hello Ada",
  "total": "42",
  "seen": [
    "traceparent: 00-{TRACE}-{SPAN}-01",
    "x-user: Ada",
    "grpc-timeout: 30000000u"
  ],
  "odd": false
}}"#
        )
    );
    assert_eq!((reply.code, reply.status.as_str(), reply.messages), (0, "OK", None));
    assert!(reply.metadata.contains(&("x-peer".to_owned(), "yes".to_owned())), "{:?}", reply.metadata);
}

#[tokio::test]
async fn a_server_that_describes_itself_needs_no_text() {
    for reflection in [Reflection::Both, Reflection::OnlyOld] {
        let peer = peer::serve(reflection).await.to_string();
        let reply =
            answer(&reflected(&peer, "peer.Echo/Say", r#"{"text": "you", "price": {"cents": 3}}"#)).await;
        assert!(reply.body.contains("\"text\": \"hello you\",\n  \"total\": \"3\""), "{}", reply.body);
    }
}

#[tokio::test]
async fn a_compiled_protocol_is_as_good_as_its_text() {
    let peer = peer::serve(Reflection::None).await.to_string();
    let set = base64::engine::general_purpose::STANDARD.encode(peer::descriptors());
    let yaml = format!("{}\n  descriptorSet: {set}", reflected(&peer, "/peer.Echo/Say", ""));
    assert!(answer(&yaml).await.body.contains("hello "));
}

#[tokio::test]
async fn streams_bring_all_their_messages() {
    let peer = peer::serve(Reflection::Both).await.to_string();
    let reply = answer(&reflected(&peer, "peer.Echo/Count", r#"{"count": 3}"#)).await;
    let messages = reply.messages.unwrap();
    assert_eq!(messages.len(), 3);
    assert_eq!(Some(&reply.body), messages.last());
    assert!(reply.body.contains(r#""total": "3""#), "{}", reply.body);

    let words = r#"{"text": "a"} {"text": "b"}{"text": "c"}"#;
    let reply = answer(&reflected(&peer, "peer.Echo/Gather", words)).await;
    assert!(reply.body.contains(r#""text": "a b c""#), "{}", reply.body);
    assert_eq!(reply.messages, None);

    let reply = answer(&reflected(&peer, "peer.Echo/Chat", words)).await;
    assert_eq!(reply.messages.unwrap().len(), 3);
    assert!(reply.body.contains(r#""text": "c""#), "{}", reply.body);
}

#[tokio::test]
async fn a_stream_that_ends_badly_keeps_what_came() {
    let peer = peer::serve(Reflection::Both).await.to_string();
    let reply = answer(&reflected(&peer, "peer.Echo/Count", r#"{"count": 2, "text": "fail"}"#)).await;
    assert_eq!((reply.code, reply.status.as_str()), (15, "DATA_LOSS"));
    assert_eq!(reply.messages.unwrap().len(), 2);
}

#[tokio::test]
async fn a_bad_status_is_an_answer() {
    let peer = peer::serve(Reflection::Both).await.to_string();
    let reply = answer(&reflected(&peer, "peer.Echo/Say", r#"{"text": "missing"}"#)).await;
    assert_eq!((reply.code, reply.status.as_str()), (5, "NOT_FOUND"));
    assert_eq!(reply.message, "there is no such text");
    assert_eq!(reply.body, "");
    assert_eq!(
        reply.details,
        [
            r#"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"text","description":"unknown"}]}"#
        ]
    );
}

#[tokio::test]
async fn credentials_are_sent() {
    let peer = peer::serve(Reflection::Both).await.to_string();
    let yaml = reflected(&peer, "peer.Echo/Say", "");
    let auth = "  auth:\n    type: bearer\n    bearer:\n      token: Bearer secret";
    assert!(answer(&format!("{yaml}\n{auth}")).await.body.contains("authorization: Bearer secret"));
}

#[tokio::test]
async fn tls_is_used_where_the_address_or_the_test_says_so() {
    let port = peer::serve_tls().await.port();
    let request = r#"{"text": "you"}"#;
    let by_address = reflected(&format!("https://localhost:{port}"), "peer.Echo/Say", request);
    assert!(answer(&by_address).await.body.contains("hello you"));
    let by_key =
        format!("{}\n  tls: true", reflected(&format!("localhost:{port}"), "peer.Echo/Say", request));
    assert!(answer(&by_key).await.body.contains("hello you"));

    let failure = failure(&format!("{by_address}\n  sslVerification: true")).await;
    assert_eq!(failure.reason, Reason::Tls);
    let start = format!("the TLS handshake with localhost:{port} failed: invalid peer certificate: ");
    assert!(failure.message.starts_with(&start), "{failure}");
}

#[tokio::test]
async fn certificates_are_checked_on_both_sides() {
    let (servers, clients) = (Authority::new(), Authority::new());
    let port = peer::serve_mutual(&servers, &clients).await.port();
    let call = reflected(&format!("localhost:{port}"), "peer.Echo/Say", r#"{"text": "you"}"#);
    let tls = |authority: &Authority, of: &Authority| {
        let me = of.sign("me");
        let (ca, certificate, key) = (quoted(&authority.pem), quoted(&me.certificate), quoted(&me.key));
        format!("{call}\n  tls:\n    ca: {ca}\n    certificate: {certificate}\n    key: {key}")
    };
    assert!(answer(&tls(&servers, &clients)).await.body.contains("hello you"));
    let stranger = failure(&tls(&clients, &clients)).await;
    assert_eq!(stranger.reason, Reason::Tls, "{stranger}");
    let unwanted = failure(&tls(&servers, &servers)).await;
    assert_ne!(unwanted.reason, Reason::Timeout, "{unwanted}");
    let anonymous = failure(&format!("{call}\n  tls: true")).await;
    assert_ne!(anonymous.reason, Reason::Timeout, "{anonymous}");
}

#[tokio::test]
async fn an_abandoned_call_is_cancelled() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let call = trigger(&reflected(&listener.local_addr().unwrap().to_string(), "peer.Echo/Say", ""), &[]);
    let waiting = tokio::spawn(async move { send(&call).await });
    let (mut stream, _) = listener.accept().await.unwrap();
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut [0; 1]).await.unwrap();
    waiting.abort();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut Vec::new()).await;
}

#[tokio::test]
async fn mistakes_in_a_test_are_reported_before_the_call() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], qualitytrace_testing::port()));
    let check = async |yaml: String, expected: &str| {
        let failure = failure(&yaml).await;
        assert_eq!((failure.reason, failure.message.as_str()), (Reason::Invalid, expected));
    };
    check(
        described(nowhere, "peer.Echo.Sya", ""),
        "the service `peer.Echo` has no method `Sya`; did you mean `Say`?",
    )
    .await;
    check(
        described(nowhere, "peer.Ecco.Say", ""),
        "the protocol has no service `peer.Ecco`; did you mean `peer.Echo`?",
    )
    .await;
    check(
        described(nowhere, "Say", ""),
        "`Say` names no method; write the trigger's `method` as `package.Service/Method`",
    )
    .await;
    check(
        described(nowhere, "peer.Echo.Say", "{"),
        "the trigger's `request` is not JSON: EOF while parsing an object at line 1 column 1",
    )
    .await;
    check(
        described(nowhere, "peer.Echo.Say", "{} {}"),
        "the method takes one message, but the trigger's `request` holds 2; keep one of them",
    )
    .await;
    check(
        format!("{}\n  protobufFile: 'syntax = 3'", reflected("localhost:1", "peer.Echo.Say", "")),
        "the protocol of the trigger cannot be compiled: protobufFile:1:10: expected a string, but found '3'",
    )
    .await;
    check(
        format!("{}\n  protobufFile: 'import \"a.proto\";'", reflected("localhost:1", "peer.Echo.Say", "")),
        "the protocol of the trigger cannot be compiled: protobufFile:1:1: import 'a.proto' not found; put the \
         imported text under the trigger's `imports`, by the name under which it is imported",
    )
    .await;
    let call = |keys: &str| format!("{}\n  {keys}", reflected("localhost:1", "peer.Echo.Say", ""));
    check(
        call("descriptorSet: peer.pb"),
        "the trigger's `descriptorSet` is neither base64 nor the path of a file: `peer.pb`; write a path as `./NAME`, \
         for the command line to read it",
    )
    .await;
    let set = failure(&call("descriptorSet: aGVsbG8=")).await;
    assert!(set.message.starts_with("the trigger's `descriptorSet` is no `FileDescriptorSet`: "), "{set}");
    check(
        reflected("localhost", "peer.Echo.Say", ""),
        "`localhost` has no port; write the trigger's `address` as host:port",
    )
    .await;
}

#[tokio::test]
async fn a_request_that_does_not_fit_names_the_field() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], qualitytrace_testing::port()));
    let check = async |request: &str, expected: &str| {
        let failure = failure(&described(nowhere, "peer.Echo.Say", request)).await;
        let expected = format!("the trigger's `request` is no `peer.Ask`: {expected}");
        assert_eq!((failure.reason, failure.message), (Reason::Invalid, expected));
    };
    check(r#"{"txet": "a"}"#, "`peer.Ask` has no field `txet`; did you mean `text`?").await;
    check(r#"{"xyz": 1}"#, "`peer.Ask` has no field `xyz`; it has `text`, `count`, `at`, `price`").await;
    check(
        r#"{"price": {"cnets": 1}}"#,
        "`peer.shared.Money` has no field `price.cnets`; did you mean `cents`?",
    )
    .await;
    check(
        r#"{"text": "a", "count": "many"}"#,
        "the field `count` does not take `\"many\"`: invalid digit found in string",
    )
    .await;
    check(
        r#"{"price": {"cents": true}}"#,
        "the field `price.cents` does not take `true`: invalid type: boolean `true`, expected a 64-bit signed integer or decimal string",
    )
    .await;
    check("[]", "invalid type: sequence, expected a map").await;
}

#[tokio::test]
async fn a_deadline_that_ran_out_elsewhere_is_an_answer() {
    let peer = peer::serve(Reflection::Both).await.to_string();
    let reply = answer(&reflected(&peer, "peer.Echo/Say", r#"{"text": "expired"}"#)).await;
    assert_eq!((reply.code, reply.status.as_str()), (4, "DEADLINE_EXCEEDED"));
    assert_eq!(reply.message, "the shop was too slow");
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    let port = qualitytrace_testing::port();
    let refused = failure(&reflected(&format!("localhost:{port}"), "peer.Echo/Say", "")).await;
    assert_eq!((refused.reason, refused.targets_localhost), (Reason::Refused, true));
    let start = format!(
        "nothing listens on localhost:{port}; start the system under test or correct the trigger's address"
    );
    assert!(refused.message.starts_with(&start), "{refused}");

    let unknown = failure(&reflected("no-such-host.invalid:1", "peer.Echo/Say", "")).await;
    assert_eq!(unknown.reason, Reason::Dns, "{unknown}");

    let silent = peer::serve(Reflection::None).await.to_string();
    let silent = failure(&reflected(&silent, "peer.Echo/Say", "")).await;
    assert!(
        silent.message.ends_with("it has no server reflection; give the trigger a `protobufFile`"),
        "{silent}"
    );

    let peer = peer::serve(Reflection::Both).await.to_string();
    let unknown = failure(&reflected(&peer, "peer.Ecco/Say", "")).await;
    assert_eq!(unknown.message, "the protocol has no service `peer.Ecco`; did you mean `peer.Echo`?");
    let message = failure(&reflected(&peer, "peer.Ask/Say", "")).await;
    assert_eq!(message.message, "the protocol has no service `peer.Ask`; it has `peer.Echo`");

    let secure = peer::serve_tls().await.port();
    let plain = failure(&reflected(&format!("localhost:{secure}"), "peer.Echo/Say", "")).await;
    assert!(plain.message.ends_with("; if it speaks TLS, write the trigger's `tls: true`"), "{plain}");
}

#[tokio::test]
async fn a_call_without_end_is_given_up() {
    let peer = peer::serve(Reflection::Both).await.to_string();
    let yaml = reflected(&peer, "peer.Echo/Say", r#"{"text": "hang"}"#);
    let late = failure(&format!("{yaml}\n  timeout: 300ms")).await;
    assert_eq!(late.reason, Reason::Timeout);
    assert!(late.message.starts_with(&format!("{peer} did not answer in time")), "{late}");
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_taken() {
    let peer = peer::serve(Reflection::None).await;
    let call = trigger(&described(peer, "peer.Echo/Say", r#"{"text": "much"}"#), &[]);
    let limits = Limits { reply_bytes: 1 << 16, ..Limits::default() };
    let failure = send_within(&call, &limits).await.unwrap_err();
    assert_eq!(failure.reason, Reason::TooLarge);
}

#[tokio::test]
async fn the_wrong_protocol_is_noticed() {
    let peer = peer::serve(Reflection::None).await;
    let wrong = "syntax = \\\"proto3\\\"; package peer; message Ask {} message Told { int32 text = 1; } \
                 service Echo { rpc Say(Ask) returns (Told); }";
    let yaml = format!("{}\n  protobufFile: \"{wrong}\"", reflected(&peer.to_string(), "peer.Echo/Say", ""));
    let failure = failure(&yaml).await;
    assert_eq!(failure.reason, Reason::Invalid);
    assert!(failure.message.starts_with("the answer is no `peer.Told`: "), "{failure}");
}
