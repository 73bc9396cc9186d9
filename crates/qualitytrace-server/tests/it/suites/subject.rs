//! A system under test that records its calls, in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use qualitytrace_testing::{DEADLINE, within};
use tokio::sync::mpsc;

pub(super) struct Subject {
    pub(super) url: String,
    notes: Arc<Notes>,
    hanging: mpsc::UnboundedReceiver<()>,
}

struct Notes {
    calls: Mutex<Vec<String>>,
    thirds: AtomicUsize,
    meeting: tokio::sync::Barrier,
    hangs: mpsc::UnboundedSender<()>,
}

impl Subject {
    pub(super) async fn start() -> Self {
        let (hangs, hanging) = mpsc::unbounded_channel();
        let meeting = tokio::sync::Barrier::new(2);
        let notes = Arc::new(Notes { calls: Mutex::default(), thirds: AtomicUsize::new(0), meeting, hangs });
        let router = axum::Router::new()
            .route("/value/{value}", get(value))
            .route("/status/{status}", get(status))
            .route("/third", get(third))
            .route("/hang", get(hang))
            .route("/fail-then-hang", get(fail_then_hang))
            .route("/meet/{value}", get(meet))
            .with_state(Arc::clone(&notes));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, notes, hanging }
    }

    /// Returns and clears the values requested so far, in order.
    pub(super) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.calls.lock().unwrap())
    }

    /// Waits until a request hangs.
    pub(super) async fn hangs(&mut self) {
        within(DEADLINE, "a request hangs", self.hanging.recv()).await.unwrap();
    }
}

async fn value(State(notes): State<Arc<Notes>>, Path(value): Path<String>) -> String {
    notes.calls.lock().unwrap().push(value.clone());
    format!("{{\"value\": \"{value}\"}}")
}

async fn status(Path(status): Path<u16>) -> StatusCode {
    StatusCode::from_u16(status).unwrap()
}

/// Succeeds at every third call.
async fn third(State(notes): State<Arc<Notes>>) -> StatusCode {
    let before = notes.thirds.fetch_add(1, Ordering::SeqCst);
    if before % 3 == 2 { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }
}

/// Fails at every other call, and hangs at the others.
async fn fail_then_hang(State(notes): State<Arc<Notes>>) -> StatusCode {
    if notes.thirds.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    hang(State(notes)).await
}

async fn hang(State(notes): State<Arc<Notes>>) -> StatusCode {
    notes.hangs.send(()).unwrap();
    std::future::pending().await
}

/// Responds when two requests have arrived.
async fn meet(State(notes): State<Arc<Notes>>, Path(value): Path<String>) -> String {
    notes.meeting.wait().await;
    format!("{{\"value\": \"{value}\"}}")
}
