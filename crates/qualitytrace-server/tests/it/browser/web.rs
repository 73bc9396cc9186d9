//! The web around a server: a foreign web site, and a wire on which requests to the server can be seen.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Query;
use axum::response::Html;
use axum::routing::{any, get};
use http::StatusCode;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_SECURITY_POLICY, LOCATION};
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

#[derive(Deserialize)]
struct Redirect {
    status: u16,
    to: String,
}

#[derive(Deserialize)]
struct Report {
    to: String,
}

/// Starts a web site of another origin, with `more` routes, and returns its port. Its pages are empty; it redirects, and it has
/// a page whose browser must send a report to another server.
pub(super) async fn foreign_site(more: Router) -> u16 {
    let redirect = async |Query(Redirect { status, to }): Query<Redirect>| {
        let status = StatusCode::from_u16(status).unwrap();
        (status, [(LOCATION, to), (ACCESS_CONTROL_ALLOW_ORIGIN, "*".to_owned())])
    };
    let reports = async |Query(Report { to }): Query<Report>| {
        let policy = format!("img-src 'none'; report-uri {to}");
        ([(CONTENT_SECURITY_POLICY, policy)], Html("<!doctype html><img src='/any'>"))
    };
    let site = Router::new()
        .route("/", get(async || Html("<!doctype html><title>another site</title>")))
        .route("/redirect", any(redirect))
        .route("/reports", get(reports))
        .merge(more);
    let listener = TcpListener::bind(ANY).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, site).await.unwrap() });
    port
}

/// A port that leads to a server, and the ways that were seen in requests to it.
pub(super) struct Wire {
    pub(super) port: u16,
    seen: Arc<Mutex<BTreeSet<String>>>,
}

impl Wire {
    pub(super) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let noted = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server, Arc::clone(&noted)));
            }
        });
        Self { port, seen }
    }

    /// Forgets the ways that were seen.
    pub(super) fn forget(&self) {
        self.seen.lock().unwrap().clear();
    }

    /// The ways that have not been seen since the last [`Wire::forget`].
    pub(super) fn missing<'a>(&self, ways: &[&'a str]) -> Vec<&'a str> {
        let seen = self.seen.lock().unwrap();
        ways.iter().filter(|way| !seen.contains(**way)).copied().collect()
    }
}

/// Carries one connection, and notes the parameter `way` of each request.
async fn carry(client: TcpStream, server: SocketAddr, seen: Arc<Mutex<BTreeSet<String>>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(server).await.unwrap().into_split();
    let down = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let (mut all, mut buffer) = (Vec::new(), vec![0; 16 * 1024]);
    while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
        all.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&all);
        let ways = text.split("way=").skip(1).filter_map(|rest| rest.split_once([' ', '&']));
        seen.lock().unwrap().extend(ways.map(|(way, _)| way.to_owned()));
        if to_server.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    // The server learns that the client is gone.
    drop(to_server);
    let _ = down.await;
}
