//! How long a run waits for a store: as long as its polling profile says.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::Bench;
use super::stand_in::{Answer, StandIn};

fn zipkin(url: &str) -> Value {
    json!({ "name": "Z", "type": "zipkin", "zipkin": { "url": url } })
}

/// Runs until the timeout of a second: the run ends soon after it, and tells this.
async fn check(bench: &Bench, told: &str) {
    let began = Instant::now();
    let run = bench.run(&json!([])).await;
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(run["state"], "TRACE_FAILED", "{run}");
    let error = run["lastErrorState"].as_str().unwrap_or_default();
    assert!(error.contains(told), "{error}");
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_given_up_at_the_timeout() {
    let bench = Bench::start().await;
    bench.give_up_after("1s").await;
    let silent = StandIn::start(&bench.caused, |_, _| Answer::never()).await;
    bench.store(&zipkin(&silent.url)).await;
    // More than may ask at one time: none waits for the turn that another holds.
    futures_util::future::join_all((0..12).map(|_| check(&bench, "Zipkin did not answer"))).await;
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_pause_that_a_store_wants_ends_at_the_timeout() {
    let bench = Bench::start().await;
    bench.give_up_after("1s").await;
    let busy = StandIn::start(&bench.caused, |_, _| {
        let headers = vec![("retry-after", "60".to_owned())];
        Answer { headers, ..Answer::status(429) }
    })
    .await;
    bench.store(&zipkin(&busy.url)).await;
    check(&bench, "is busy").await;
    // The next run does not ask at all.
    let asked = busy.asked().len();
    check(&bench, "is busy").await;
    assert_eq!(busy.asked().len(), asked);
    bench.server.shutdown().await;
}

/// Listens before a server. The first connection is accepted and leads nowhere, like one whose other end is gone.
async fn first_is_dead(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let _dead = listener.accept().await.unwrap();
        loop {
            let (mut from, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut to = TcpStream::connect(to).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_grpc_connection_that_leads_nowhere_is_not_used_again() {
    let bench = Bench::start().await;
    bench.give_up_after("1s").await;
    let jaeger = StandIn::start(&bench.caused, |_, _| {
        let headers = vec![("content-type", "application/grpc".to_owned()), ("grpc-status", "5".to_owned())];
        Answer { headers, ..Answer::status(200) }
    })
    .await;
    let address = first_is_dead(jaeger.url.trim_start_matches("http://").parse().unwrap()).await;
    let client = json!({ "endpoint": address.to_string(), "tls": { "insecure": true } });
    bench.store(&json!({ "name": "J", "type": "jaeger", "jaeger": client })).await;
    check(&bench, "Jaeger did not answer").await;
    check(&bench, "Jaeger does not have trace").await;
    bench.server.shutdown().await;
}
