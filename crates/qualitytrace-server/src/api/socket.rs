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
use super::suites;
use super::tenant::Tenant;
use crate::runner::{RunId, SuiteRunId};
use crate::wire::run::catalogue;

/// How often the server says that it is there.
const PING: Duration = Duration::from_secs(5);
/// Pings that may stay unanswered: whoever answers none has gone away without a word.
const UNANSWERED: u32 = 2;
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
    /// The test or the suite.
    id: String,
    number: u64,
    about: About,
}

#[derive(Debug, Clone, Copy)]
enum About {
    /// A run of a test.
    Run,
    /// The events of a run of a test, of which this many were sent.
    Events(usize),
    /// A run of a suite.
    Suite,
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
    let mut unanswered = 0;
    loop {
        let answers = tokio::select! {
            received = socket.recv() => {
                unanswered = 0;
                match received {
                    Some(Ok(Message::Text(text))) => vec![session.answer(&text)],
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => Vec::new(),
                }
            }
            Some(changed) = session.changes.next(), if !session.changes.is_empty() => session.updates(&changed).await,
            _ = ping.tick() => {
                unanswered += 1;
                if unanswered > UNANSWERED {
                    return;
                }
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
            let (scoped, number) = (self.tenant.scoped(&topic.id), topic.number);
            let changes = match topic.about {
                About::Run | About::Events(_) => self.app.runner.follow(RunId { test: scoped, number }),
                About::Suite => self.app.runner.follow_suite(SuiteRunId { suite: scoped, number }),
            };
            let name = id.clone();
            // The first value is the state of things: whoever subscribes late misses nothing.
            self.changes.push(WatchStream::new(changes).map(move |_| name.clone()).boxed());
            self.topics.insert(id.clone(), topic);
        }
        Ok(id)
    }

    /// What a subscriber is told about a change.
    async fn updates(&mut self, id: &str) -> Vec<Value> {
        let Some(topic) = self.topics.get_mut(id) else {
            return Vec::new();
        };
        let resource = topic.resource.clone();
        let update = |event: Value| json!({ "type": "update", "resource": resource, "event": event });
        match topic.about {
            About::Events(sent) => {
                let test = self.tenant.scoped(&topic.id);
                let Ok(stored) = self.app.store.events(&test, topic.number, 0).await else {
                    return Vec::new();
                };
                let shown = catalogue(&topic.id, topic.number, &read_events(&stored));
                topic.about = About::Events(shown.len());
                shown.get(sent..).unwrap_or_default().iter().map(|event| update(json!(event))).collect()
            }
            About::Run => {
                let found = Found::load(&self.app, &self.tenant, &topic.id, topic.number).await;
                found.map(|found| vec![update(json!(found.shown()))]).unwrap_or_default()
            }
            About::Suite => {
                let shown = suites::shown(&self.app, &self.tenant, &topic.id, topic.number).await;
                shown.map(|shown| vec![update(json!(shown))]).unwrap_or_default()
            }
        }
    }
}

/// `test/ID/run/N`, `test/ID/run/N/event` or `testsuites/ID/run/N`.
fn topic(resource: &str) -> Option<Topic> {
    let (path, about) = match (resource.strip_suffix("/event"), resource.strip_prefix("testsuites/")) {
        (_, Some(path)) => (path, About::Suite),
        (Some(path), None) => (path.strip_prefix("test/")?, About::Events(0)),
        (None, None) => (resource.strip_prefix("test/")?, About::Run),
    };
    let (id, number) = path.rsplit_once("/run/")?;
    Some(Topic { resource: resource.to_owned(), id: id.to_owned(), number: number.parse().ok()?, about })
}

/// A random UUID of version 4.
fn subscription_id() -> String {
    let bits: u128 = rand::random::<u128>() & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
