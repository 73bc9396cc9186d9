//! Attacks that are small enough for a server built without optimisation.

use std::net::SocketAddr;
use std::time::Duration;

use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::base::limits::deny::Deny;
use qualitytrace_server::config::{Config, Safety};
use qualitytrace_server::http::access::Access;
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::adversary::{DENIED, FULL, READ, Target, attacks};

async fn start(limits: Limits, safety: Safety) -> Server {
    let config = Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        database_url: "sqlite::memory:".to_owned(),
        limits,
        safety,
        ..Config::default()
    };
    Server::start(config).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn small_attacks_are_answered_and_the_server_stays() {
    let limits = Limits { progress_timeout: Duration::from_secs(2), ..Limits::default() };
    let server = start(limits.clone(), Safety::default()).await;
    let tokens =
        [format!("full:{FULL}"), format!("read:{READ}")].map(|token| token.parse().unwrap()).to_vec();
    let safety = Safety { access: Access { tokens, otlp: true }, ..Safety::default() };
    let deny = Deny::new([DENIED.parse().unwrap()]);
    let guarded = start(Limits { deny, ..limits }, safety).await;
    let (address, guarded_address) = (server.addresses().http, guarded.addresses().http);
    let target = Target { address, guarded: guarded_address, program: None };
    let reports = tokio::task::spawn_blocking(move || {
        attacks().filter(|attack| attack.is_small).map(|attack| attack.carry_out(&target)).collect::<Vec<_>>()
    });
    let reports = reports.await.unwrap();
    assert!(!reports.is_empty());
    for report in reports {
        assert!(report.outcome.is_ok(), "{}: {:?}", report.attack.name, report.outcome);
    }
    server.shutdown().await;
    guarded.shutdown().await;
}
