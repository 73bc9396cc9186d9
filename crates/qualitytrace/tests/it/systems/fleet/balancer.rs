//! A load balancer that sends each request to the next of two processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// The processes, and how many requests there were.
#[derive(Clone)]
struct Balancer {
    ports: [u16; 2],
    requests: Arc<AtomicUsize>,
    client: reqwest::Client,
}

/// Starts a balancer in front of these processes, and returns its port.
pub(super) async fn start(ports: [u16; 2]) -> u16 {
    let balancer = Balancer { ports, requests: Arc::default(), client: crate::client() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = Router::new().fallback(forward).with_state(balancer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

async fn forward(State(balancer): State<Balancer>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    // Health checks are not counted: the caller's requests alternate.
    let is_counted = parts.uri.path() != "/healthz";
    let number = balancer.requests.fetch_add(usize::from(is_counted), Ordering::SeqCst);
    let url = format!("http://127.0.0.1:{}{}", balancer.ports[number % 2], parts.uri);
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    match balancer.client.request(parts.method, url).headers(parts.headers).body(body).send().await {
        Ok(answer) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = answer.status();
            *response.headers_mut() = answer.headers().clone();
            *response.body_mut() = answer.bytes().await.unwrap_or_default().into();
            response
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
