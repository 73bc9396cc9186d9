//! The web socket: clients subscribe to runs and are told when they change.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, SelectAll};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_stream::wrappers::WatchStream;

use super::App;
use super::answer::Problem;
use super::runs::{Found, read_events};
use super::tenant::Tenant;
use crate::runner::RunId;
use crate::wire::run::catalogue;

/// How often the server says that it is there.
const PING: Duration = Duration::from_secs(5);
/// Subscriptions of one connection.
const SUBSCRIPTIONS: usize = 1000;

/// Opens the socket.
pub(super) async fn open(
    State(app): State<App>,
    tenant: Tenant,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match upgrade {
        Ok(upgrade) => upgrade.on_upgrade(move |socket| serve(app, tenant, socket)),
        Err(_) => Problem {
            status: StatusCode::UPGRADE_REQUIRED,
            message: "this address speaks WebSocket; open it with a WebSocket client".to_owned(),
        }
        .into_response(),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Request {
    #[serde(rename = "type")]
    kind: String,
    resource: String,
    subscription_id: String,
}

/// What a subscription is about.
#[derive(Debug, Clone)]
struct Topic {
    resource: String,
    test: String,
    number: u64,
    /// Whether it is about the events rather than the run.
    events: bool,
    /// How many of them were sent.
    sent: usize,
}

struct Session {
    app: App,
    tenant: Tenant,
    topics: BTreeMap<String, Topic>,
    changes: SelectAll<BoxStream<'static, String>>,
}

async fn serve(app: App, tenant: Tenant, mut socket: WebSocket) {
    let mut session = Session { app, tenant, topics: BTreeMap::new(), changes: SelectAll::new() };
    let mut ping = tokio::time::interval(PING);
    loop {
        let answers = tokio::select! {
            received = socket.recv() => match received {
                Some(Ok(Message::Text(text))) => vec![session.answer(&text)],
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => Vec::new(),
            },
            Some(changed) = session.changes.next(), if !session.changes.is_empty() => session.updates(&changed).await,
            _ = ping.tick() => {
                if socket.send(Message::Ping("keepalive".into())).await.is_err() {
                    return;
                }
                Vec::new()
            }
        };
        for answer in answers {
            if socket.send(Message::Text(answer.to_string().into())).await.is_err() {
                return;
            }
        }
    }
}

impl Session {
    fn answer(&mut self, text: &str) -> Value {
        let error = |message: String| json!({ "type": "error", "resource": "", "message": message });
        let request: Request = match serde_json::from_str(text) {
            Ok(request) => request,
            Err(wrong) => return error(format!("could not unmarshal message: {wrong}")),
        };
        match request.kind.as_str() {
            "subscribe" => match self.subscribe(&request.resource) {
                Ok(id) => {
                    json!({ "type": "success", "resource": request.resource, "message": { "subscriptionId": id } })
                }
                Err(message) => error(message),
            },
            "unsubscribe" => {
                self.topics.remove(&request.subscription_id);
                json!({ "type": "success", "resource": "", "message": "ok" })
            }
            other => error(format!("no routes for message type {other}")),
        }
    }

    fn subscribe(&mut self, resource: &str) -> Result<String, String> {
        if resource.is_empty() {
            return Err("resource cannot be empty".to_owned());
        }
        if self.topics.len() >= SUBSCRIPTIONS {
            return Err(format!("a connection has at most {SUBSCRIPTIONS} subscriptions"));
        }
        let id = subscription_id();
        // Something that never changes can be subscribed to all the same.
        if let Some(topic) = topic(resource) {
            let run = RunId { test: self.tenant.scoped(&topic.test), number: topic.number };
            let name = id.clone();
            // The first value is the state of things: whoever subscribes late misses nothing.
            let changes = WatchStream::new(self.app.runner.follow(run)).map(move |_| name.clone());
            self.changes.push(changes.boxed());
            self.topics.insert(id.clone(), topic);
        }
        Ok(id)
    }

    /// What a subscriber is told about a change.
    async fn updates(&mut self, id: &str) -> Vec<Value> {
        let Some(topic) = self.topics.get_mut(id) else {
            return Vec::new();
        };
        let update = |event: &Value| json!({ "type": "update", "resource": topic.resource, "event": event });
        if topic.events {
            let test = self.tenant.scoped(&topic.test);
            let Ok(stored) = self.app.store.events(&test, topic.number, 0).await else {
                return Vec::new();
            };
            let shown = catalogue(&topic.test, topic.number, &read_events(&stored));
            let shown = shown.as_array().map_or(&[][..], Vec::as_slice);
            let new = shown.get(topic.sent..).unwrap_or_default().iter().map(update).collect();
            topic.sent = shown.len();
            return new;
        }
        match Found::load(&self.app, &self.tenant, &topic.test, &topic.number.to_string()).await {
            Ok(found) => vec![update(&found.shown())],
            Err(_) => Vec::new(),
        }
    }
}

/// `test/ID/run/N` or `test/ID/run/N/event`.
fn topic(resource: &str) -> Option<Topic> {
    let (path, events) = match resource.strip_suffix("/event") {
        Some(path) => (path, true),
        None => (resource, false),
    };
    let (test, number) = path.strip_prefix("test/")?.rsplit_once("/run/")?;
    Some(Topic {
        resource: resource.to_owned(),
        test: test.to_owned(),
        number: number.parse().ok()?,
        events,
        sent: 0,
    })
}

/// A random UUID of version 4.
fn subscription_id() -> String {
    let bits: u128 = rand::random::<u128>() & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
