//! The web socket: clients subscribe to runs and receive updates.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_stream::StreamMap;

use crate::base::follow::Following;
use crate::runner::{RunId, SuiteRunId};
use crate::serve::api::App;
use crate::serve::api::error::ApiError;
use crate::serve::api::memory::{Memory, Subscribed};
use crate::serve::api::middleware::Grant;
use crate::serve::api::runs::{LoadedRun, read_events};
use crate::serve::api::suites;
use crate::serve::api::tenant::Tenant;
use crate::storage::store;
use crate::wire::legacy::catalogue;

/// The ping interval.
const PING: Duration = Duration::from_secs(5);
/// Pings that may stay unanswered before the client counts as gone.
const UNANSWERED: u32 = 2;
/// The most subscriptions of one connection.
const SUBSCRIPTIONS: usize = 1000;
/// Bytes per subscription beside the name of its resource, which is held three times.
const SUBSCRIPTION_BYTES: u64 = 1024;

/// The largest message of a client.
const MESSAGE_BYTES: usize = 64 * 1024;
/// The largest update to a client.
const UPDATE_BYTES: usize = 16 << 20;

/// Upgrades the connection.
pub(in crate::serve::api) async fn open(
    State(app): State<App>,
    tenant: Tenant,
    Extension(grant): Extension<Grant>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match upgrade {
        Ok(upgrade) => upgrade
            .max_message_size(MESSAGE_BYTES)
            .max_frame_size(MESSAGE_BYTES)
            .on_upgrade(move |socket| serve_granted(app, tenant, socket, grant)),
        Err(_) => ApiError {
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
#[derive(Debug)]
struct Topic {
    resource: String,
    /// The test or the suite.
    id: String,
    number: u64,
    about: SubscriptionKind,
}

#[derive(Debug, Clone, Copy)]
enum SubscriptionKind {
    /// A run of a test.
    Run,
    /// The events of a run, of which this many were sent.
    Events(usize),
    /// A suite run.
    Suite,
}

/// A client and its subscriptions. Each subscription has an entry in both maps.
struct Session {
    app: App,
    tenant: Tenant,
    topics: BTreeMap<String, Topic>,
    /// Yields the ids of subscriptions with changes.
    changes: StreamMap<String, BoxStream<'static, ()>>,
}

/// Serves a client until its token is withdrawn, and then closes the connection with the reason.
async fn serve_granted(app: App, tenant: Tenant, mut socket: WebSocket, grant: Grant) {
    tokio::select! {
        () = serve(app, tenant, &mut socket) => return,
        () = grant.withdrawn() => {}
    }
    let reason = CloseFrame { code: close_code::POLICY, reason: "the token was revoked".into() };
    // What the client sent until it hears the reason is read: a connection that ends with unread data is reset, and the
    // reason lost. A client that does not answer is not waited for.
    let closing = async {
        if socket.send(Message::Close(Some(reason))).await.is_ok() {
            while let Some(Ok(_)) = socket.recv().await {}
        }
    };
    let _ = tokio::time::timeout(PING, closing).await;
}

async fn serve(app: App, tenant: Tenant, socket: &mut WebSocket) {
    let mut session = Session { app, tenant, topics: BTreeMap::new(), changes: StreamMap::new() };
    let mut ping = tokio::time::interval(PING);
    let mut unanswered = 0;
    loop {
        let (answers, _memory) = tokio::select! {
            received = socket.recv() => {
                unanswered = 0;
                match received {
                    Some(Ok(Message::Text(text))) => (vec![session.answer(&text).await.to_string()], None),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => (Vec::new(), None),
                }
            }
            Some((changed, ())) = session.changes.next(), if !session.changes.is_empty() => {
                let (answers, memory) = session.updates(&changed).await;
                (answers, Some(memory))
            }
            _ = ping.tick() => {
                unanswered += 1;
                if unanswered > UNANSWERED {
                    return;
                }
                if socket.send(Message::Ping("keepalive".into())).await.is_err() {
                    return;
                }
                (Vec::new(), None)
            }
        };
        for answer in answers {
            if socket.send(Message::Text(answer.into())).await.is_err() {
                return;
            }
        }
    }
}

impl Session {
    async fn answer(&mut self, text: &str) -> Value {
        let request: Request = match serde_json::from_str(text) {
            Ok(request) => request,
            Err(wrong) => return error(&format!("could not unmarshal message: {wrong}")),
        };
        match request.kind.as_str() {
            "subscribe" => match self.subscribe(&request.resource).await {
                Ok(id) => {
                    json!({ "type": "success", "resource": request.resource, "message": { "subscriptionId": id } })
                }
                Err(message) => error(&message),
            },
            "unsubscribe" => {
                self.topics.remove(&request.subscription_id);
                self.changes.remove(&request.subscription_id);
                json!({ "type": "success", "resource": "", "message": "ok" })
            }
            other => error(&format!("no routes for message type {other}")),
        }
    }

    async fn subscribe(&mut self, resource: &str) -> Result<String, String> {
        if resource.is_empty() {
            return Err("resource cannot be empty".to_owned());
        }
        if self.topics.len() >= SUBSCRIPTIONS {
            return Err(format!("a connection has at most {SUBSCRIPTIONS} subscriptions"));
        }
        let id = subscription_id();
        // A resource that never changes can be subscribed to as well.
        if let Some(topic) = topic(resource)? {
            let bytes = SUBSCRIPTION_BYTES + 3 * resource.len() as u64;
            let memory = self.app.memory.subscribe(bytes).await.map_err(|problem| problem.message)?;
            let (scoped, number) = (self.tenant.scoped(&topic.id), topic.number);
            let changes = match topic.about {
                SubscriptionKind::Run | SubscriptionKind::Events(_) => {
                    self.app.runner.follow(RunId { test: scoped, number })
                }
                SubscriptionKind::Suite => self.app.runner.follow_suite(SuiteRunId { suite: scoped, number }),
            };
            self.changes.insert(id.clone(), news(changes, memory));
            self.topics.insert(id.clone(), topic);
        }
        Ok(id)
    }

    /// Returns the messages for a changed subscription, and the memory that they hold.
    async fn updates(&mut self, id: &str) -> (Vec<String>, Memory) {
        let memory = self.app.memory.begin();
        (self.told(id, &memory).await, memory)
    }

    async fn told(&mut self, id: &str, memory: &Memory) -> Vec<String> {
        let Some(topic) = self.topics.get_mut(id) else {
            return Vec::new();
        };
        let resource = topic.resource.clone();
        match topic.about {
            SubscriptionKind::Events(sent) => {
                let (test, number) = (self.tenant.scoped(&topic.id), topic.number);
                let Ok(bytes) = self.app.store.run_size(&test, number).await else { return Vec::new() };
                if let Err(problem) = memory.hold_texts(bytes).await {
                    return vec![error(&problem.message).to_string()];
                }
                let Ok(stored) = self.app.store.events(&test, number, 0).await else {
                    return Vec::new();
                };
                let shown = catalogue(&topic.id, number, &read_events(&stored));
                topic.about = SubscriptionKind::Events(shown.len());
                shown.get(sent..).unwrap_or_default().iter().map(|event| update(&resource, event)).collect()
            }
            SubscriptionKind::Run => {
                let found = LoadedRun::load(&self.app, memory, &self.tenant, &topic.id, topic.number).await;
                found.map(|found| vec![update(&resource, &found.shown())]).unwrap_or_default()
            }
            SubscriptionKind::Suite => {
                let shown = suites::shown(&self.app, memory, &self.tenant, &topic.id, topic.number).await;
                shown.map(|shown| vec![update(&resource, &shown)]).unwrap_or_default()
            }
        }
    }
}

fn error(message: &str) -> Value {
    json!({ "type": "error", "resource": "", "message": message })
}

/// Serializes an update. One that is too large is replaced by an error that refers to the API.
fn update(resource: &str, event: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Update<'u, E> {
        r#type: &'static str,
        resource: &'u str,
        event: &'u E,
    }
    let mut text = Bounded(Vec::new());
    if serde_json::to_writer(&mut text, &Update { r#type: "update", resource, event }).is_err() {
        return error(&format!("{resource} is larger than {UPDATE_BYTES} bytes; read it from the API"))
            .to_string();
    }
    String::from_utf8(text.0).unwrap_or_default()
}

/// A buffer with a size limit.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > UPDATE_BYTES {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The stream of changes. The first one is the current state, so that a late subscriber misses nothing.
fn news(mut changes: Following, memory: Subscribed) -> BoxStream<'static, ()> {
    changes.mark_changed();
    let next = |(mut changes, memory): (Following, Subscribed)| async move {
        // The runner outlives every client.
        changes.changed().await.ok()?;
        Some(((), (changes, memory)))
    };
    stream::unfold((changes, memory), next).boxed()
}

/// Parses `test/ID/run/N`, `test/ID/run/N/event` or `testsuites/ID/run/N`; `None` for what never changes.
fn topic(resource: &str) -> Result<Option<Topic>, String> {
    let of_suite = resource.strip_prefix("testsuites/").map(|path| (path, SubscriptionKind::Suite));
    let of_test = || {
        let path = resource.strip_prefix("test/")?;
        Some(
            path.strip_suffix("/event")
                .map_or((path, SubscriptionKind::Run), |path| (path, SubscriptionKind::Events(0))),
        )
    };
    let Some((path, about)) = of_suite.or_else(of_test) else { return Ok(None) };
    let Some((id, number)) = path.rsplit_once("/run/") else { return Ok(None) };
    if !store::is_id(id) {
        return Err(store::NO_ID.to_owned());
    }
    let number: NonZeroU64 = number
        .parse()
        .map_err(|_| "a run has a number from 1 on; write test/ID/run/1, for example".to_owned())?;
    Ok(Some(Topic { resource: resource.to_owned(), id: id.to_owned(), number: number.get(), about }))
}

/// A random UUID of version 4.
fn subscription_id() -> String {
    let bits: u128 = rand::random::<u128>() & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
