//! Kafka triggers against a real broker, and every way in which they fail.

use std::collections::BTreeMap;

use qualitytrace_core::run::Reply;
use qualitytrace_server::outbound::trigger::{Reason, TriggerError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::certificates::quoted;
use super::cluster::{Cluster, cluster};
use super::{SPAN, TRACE, send, trigger};

fn yaml(broker: &str, topic: &str, keys: &str) -> String {
    format!("type: kafka\nkafka:\n  brokerUrls: ['{broker}']\n  topic: {topic}\n  timeout: 20s\n{keys}")
}

async fn sent(broker: &str, topic: &str, keys: &str) -> (i32, i64) {
    match send(&trigger(&yaml(broker, topic, keys), &[("who", "Ada")])).await {
        Ok(Reply::Kafka { partition, offset }) => (partition, offset),
        other => panic!("{other:?}"),
    }
}

async fn failure(broker: &str, topic: &str, keys: &str) -> TriggerError {
    send(&trigger(&yaml(broker, topic, keys), &[])).await.unwrap_err()
}

#[tokio::test]
async fn a_message_arrives_with_key_value_and_headers() {
    let Some(cluster) = cluster().await else { return };
    let topic = cluster.topic(1).await;
    let keys = "  messageKey: '${env:who}'
  messageValue: '{\"to\": \"${env:who}\"}'
  headers:
  - {key: source, value: '${env:who}'}
  - {key: traceparent, value: mine}";
    assert_eq!(sent(&cluster.plain, &topic, keys).await, (0, 0));
    let named = yaml(&cluster.plain, "${env:topic}", "  messageValue: ''");
    let again = send(&trigger(&named, &[("topic", &topic)])).await;
    assert_eq!(again, Ok(Reply::Kafka { partition: 0, offset: 1 }));

    let records = cluster.read(&topic, 0).await;
    let first = &records[0].record;
    assert_eq!(first.key.as_deref(), Some(&b"Ada"[..]));
    assert_eq!(first.value.as_deref(), Some(&br#"{"to": "Ada"}"#[..]));
    let headers: BTreeMap<&str, String> = first
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8(value.clone()).unwrap()))
        .collect();
    assert_eq!(headers["source"], "Ada");
    assert_eq!(headers["traceparent"], format!("00-{TRACE}-{SPAN}-01"));
    assert_eq!(headers["tracestate"], "tracetest=true");
    assert_eq!(headers["b3"], format!("{TRACE}-{SPAN}-1"));
    assert_eq!(records[1].record.key.as_deref(), Some(&b""[..]));
}

#[tokio::test]
async fn a_key_always_goes_to_the_same_partition() {
    let Some(cluster) = cluster().await else { return };
    let topic = cluster.topic(8).await;
    let mut seen = BTreeMap::new();
    for key in ["a", "b", "c", "d", "a", "b", "c", "d"] {
        let (partition, offset) = sent(&cluster.plain, &topic, &format!("  messageKey: {key}")).await;
        let before = seen.insert(key, (partition, offset));
        assert!(before.is_none_or(|before| before.0 == partition && before.1 < offset), "{key}");
    }
    assert!(seen.values().any(|place| place.0 != seen["a"].0), "{seen:?}");
}

fn login(kind: &str, password: &str) -> String {
    format!("  authentication:\n    type: {kind}\n    {kind}: {{username: me, password: {password}}}")
}

#[tokio::test]
async fn credentials_are_shown_in_every_way() {
    let Some(cluster) = cluster().await else { return };
    let topic = cluster.topic(1).await;
    for (offset, kind) in ["plain", "scramSha256"].into_iter().enumerate() {
        let offset = i64::try_from(offset).unwrap();
        assert_eq!(sent(&cluster.sasl, &topic, &login(kind, "s3cret")).await, (0, offset), "{kind}");
    }
    let check = async |keys: &str, expected: &str| {
        let failure = failure(&cluster.sasl, &topic, keys).await;
        assert_eq!(failure.reason, Reason::Credentials, "{failure}");
        assert_eq!(failure.message, format!("{} does not accept the credentials: {expected}", cluster.sasl));
    };
    let help = "correct them in the trigger";
    check(&login("plain", "wrong"), &format!("Authentication failed: Invalid username or password; {help}"))
        .await;
    check(
        &login("scramSha256", "wrong"),
        &format!("Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256; {help}"),
    )
    .await;
    let trusted = format!("\n  tls: {{ca: {}}}", quoted(&cluster.ca));
    for (offset, kind) in ["plain", "scramSha512"].into_iter().enumerate() {
        let (offset, keys) = (i64::try_from(offset + 2).unwrap(), login(kind, "s3cret") + &trusted);
        assert_eq!(sent(&cluster.secure, &topic, &keys).await, (0, offset), "{kind} over TLS");
    }
    let wrong = failure(&cluster.secure, &topic, &(login("scramSha512", "wrong") + &trusted)).await;
    assert_eq!(wrong.reason, Reason::Credentials, "{wrong}");
    let unknown = failure(&cluster.sasl, &topic, &login("scramSha512", "s3cret")).await;
    assert!(unknown.message.contains("it knows "), "{unknown}");
    let without = failure(&cluster.sasl, &topic, "").await;
    assert_eq!(without.reason, Reason::Cut);
    assert!(
        without.message.ends_with("wants TLS or credentials, give the trigger `tls` or `authentication`"),
        "{without}"
    );
}

#[tokio::test]
async fn tls_is_used_where_the_test_says_so() {
    let Some(cluster) = cluster().await else { return };
    let topic = cluster.topic(1).await;
    assert_eq!(sent(&cluster.tls, &topic, "  tls: true").await, (0, 0));
    let ca = quoted(&cluster.ca);
    assert_eq!(sent(&cluster.tls, &topic, &format!("  tls: {{ca: {ca}}}")).await, (0, 1));
    let Cluster { client, mutual, .. } = cluster;
    let (certificate, key) = (quoted(&client.certificate), quoted(&client.key));
    let keys = format!("  tls:\n    ca: {ca}\n    certificate: {certificate}\n    key: {key}");
    assert_eq!(sent(mutual, &topic, &keys).await, (0, 2));

    let stranger = failure(&cluster.tls, &topic, "  sslVerification: true").await;
    assert_eq!(stranger.reason, Reason::Tls, "{stranger}");
    assert!(
        stranger.message.contains("UnknownIssuer; name its authority in the trigger's `tls.ca`"),
        "{stranger}"
    );
    let anonymous = failure(mutual, &topic, "  tls: true").await;
    assert_eq!(anonymous.reason, Reason::Tls, "{anonymous}");
    let plain = failure(&cluster.plain, &topic, "  tls: true").await;
    assert_ne!(plain.reason, Reason::Timeout, "{plain}");
}

#[tokio::test]
async fn a_topic_that_is_not_there_is_named() {
    let Some(cluster) = cluster().await else { return };
    let missing = failure(&cluster.plain, "nowhere", "").await;
    assert_eq!(missing.reason, Reason::Missing);
    assert_eq!(
        missing.message,
        format!(
            "{} does not have what the trigger names: there is no topic `nowhere`, and it makes none by itself; create \
             it or correct the `topic`",
            cluster.plain
        )
    );
    let bad = failure(&cluster.plain, "'a b'", "").await;
    assert_eq!(bad.reason, Reason::Invalid, "{bad}");
}

#[tokio::test]
async fn an_address_that_a_broker_names_is_told_from_the_users_own() {
    let Some(cluster) = cluster().await else { return };
    let topic = cluster.topic(1).await;
    let failure = failure(&cluster.stale, &topic, "").await;
    assert_eq!(failure.reason, Reason::Refused);
    let Cluster { stale, stale_target, .. } = cluster;
    assert!(failure.message.starts_with(&format!("nothing listens on {stale_target}")), "{failure}");
    let end = format!("the broker at {stale} names this address: check its `advertised.listeners`");
    assert!(failure.message.contains(&end), "{failure}");
}

#[tokio::test]
async fn the_first_broker_that_answers_is_enough() {
    let Some(cluster) = cluster().await else { return };
    let topic = cluster.topic(1).await;
    let closed = qualitytrace_testing::port();
    let brokers = format!("127.0.0.1:{closed}', '{}", cluster.plain);
    assert_eq!(sent(&brokers, &topic, "").await, (0, 0));
}

#[tokio::test]
async fn an_address_without_a_broker_is_named() {
    let closed = qualitytrace_testing::port();
    let refused = failure(&format!("localhost:{closed}"), "t", "").await;
    assert_eq!((refused.reason, refused.targets_localhost), (Reason::Refused, true));
    assert!(refused.message.contains("correct the trigger's `brokerUrls`"), "{refused}");
    let unknown = failure("no-such-host.invalid:9092", "t", "").await;
    assert_eq!(unknown.reason, Reason::Dns, "{unknown}");

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 64]).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let web = failure(&address, "t", "").await;
    assert_eq!(web.reason, Reason::Protocol);
    assert!(web.message.contains("it does not seem to be a Kafka broker"), "{web}");

    let none = send(&trigger("type: kafka\nkafka: {topic: t}", &[])).await.unwrap_err();
    assert_eq!(none.reason, Reason::Invalid);
}

#[tokio::test]
async fn a_broker_that_says_nothing_is_given_up_and_hung_up_on() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Reads until the client disconnects.
    let silent = async move || {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
        (listener, all.len())
    };
    let first = tokio::spawn(silent());
    let late = send(&trigger(&yaml(&address, "t", "").replace("20s", "200ms"), &[])).await.unwrap_err();
    assert_eq!(late.reason, Reason::Timeout);
    let (listener, read) = first.await.unwrap();
    assert!(read > 0);

    let message = trigger(&yaml(&address, "t", ""), &[]);
    let waiting = tokio::spawn(async move { send(&message).await });
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut byte = [0; 1];
    stream.read_exact(&mut byte).await.unwrap();
    waiting.abort();
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn a_broker_that_announces_more_than_it_sends_is_odd() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let broker = listener.local_addr().unwrap().to_string();
    let answering = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let read = stream.read(&mut request).await.unwrap();
        // Behind the length, the key and the version of a request is its number, which is repeated.
        assert!(read >= 12);
        let announced = i32::MAX.to_be_bytes();
        // No time to wait, and more brokers than fit into any memory.
        let answer = [&request[8..12], &[0; 4], &announced].concat();
        let length = u32::try_from(answer.len()).unwrap().to_be_bytes();
        stream.write_all(&[&length[..], &answer].concat()).await.unwrap();
        let _ = stream.read(&mut request).await;
    });
    let failure = failure(&broker, "orders", "  messageValue: a").await;
    assert_eq!(failure.reason, Reason::Protocol, "{failure:?}");
    assert!(failure.message.contains("a list without end"), "{failure:?}");
    answering.await.unwrap();
}
