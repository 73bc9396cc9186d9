//! A stand-in for a data store: answers with a function, and remembers what it was asked.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};

use super::{Caused, serve};

/// A request to the store.
#[derive(Debug, Clone)]
pub(super) struct StoreRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl StoreRequest {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// An answer of the store.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    #[expect(clippy::needless_pass_by_value, reason = "callers make it on the spot")]
    pub(super) fn json(body: impl ToString) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status: 200, headers, body: body.to_string().into_bytes() }
    }

    pub(super) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// No answer: the client waits.
    pub(super) fn never() -> Self {
        Self::status(0)
    }
}

/// What the store answers, given the context of the last request to the system under test.
type Handler = dyn Fn(&StoreRequest, Option<&(String, String)>) -> Answer + Send + Sync;

struct Store {
    caused: Caused,
    asked: Mutex<Vec<StoreRequest>>,
    handler: Box<Handler>,
}

/// A running stand-in.
pub(super) struct StandIn {
    pub(super) url: String,
    store: Arc<Store>,
}

impl StandIn {
    /// Starts a stand-in for the store of traces that a system under test caused.
    pub(super) async fn start(
        caused: &Caused,
        handler: impl Fn(&StoreRequest, Option<&(String, String)>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let (caused, handler) = (Arc::clone(caused), Box::new(handler));
        let store = Arc::new(Store { caused, asked: Mutex::default(), handler });
        let router = Router::new().fallback(ask).with_state(Arc::clone(&store));
        Self { url: format!("http://{}", serve(router).await), store }
    }

    /// What it was asked so far.
    pub(super) fn asked(&self) -> Vec<StoreRequest> {
        self.store.asked.lock().unwrap().clone()
    }
}

async fn ask(State(store): State<Arc<Store>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let asked = StoreRequest {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let caused = store.caused.lock().unwrap().clone();
    let answer = (store.handler)(&asked, caused.as_ref());
    store.asked.lock().unwrap().push(asked);
    if answer.status == 0 {
        std::future::pending::<()>().await;
    }
    let mut response = Response::builder().status(StatusCode::from_u16(answer.status).unwrap());
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(answer.body)).unwrap()
}
