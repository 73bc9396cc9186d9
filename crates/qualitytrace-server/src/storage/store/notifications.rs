//! Notifications between servers that share a database, sent through `LISTEN` and `NOTIFY`.
//!
//! A notification is a hint and may get lost: everything it says can also be read from the tables.

use qualitytrace_core::id::TraceId;
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgListener;

use super::{Error, RunCommand, Store, failed};

/// The channel that every server listens on.
const CHANNEL: &str = "qualitytrace";
/// The longest message in bytes; PostgreSQL refuses 8,000 and more.
const MESSAGE_BYTES: usize = 7_500;

/// A notification from one server to the others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Notification {
    /// The server has just started.
    Joined,
    /// Runs are queued.
    Queued,
    /// The events of a run changed.
    Run(String, u64),
    /// A user sent a command to a run.
    RunCommand(String, u64, RunCommand),
    /// The events of a suite run changed.
    SuiteRun(String, u64),
    /// A user stops a suite run.
    StopSuite(String, u64),
    /// The server waits for spans of this trace.
    Follows(TraceHex),
    /// The server no longer waits for them.
    Unfollows(TraceHex),
    /// Spans of this trace arrived.
    Arrived(TraceHex),
}

/// A trace id, serialized as hex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceHex(pub TraceId);

impl From<TraceHex> for String {
    fn from(id: TraceHex) -> Self {
        id.0.to_string()
    }
}

impl TryFrom<String> for TraceHex {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error| format!("{error}"))
    }
}

/// What a listener received.
#[derive(Debug)]
pub enum Received {
    /// Notifications of another server.
    Notifications(Vec<Notification>),
    /// The connection was lost for a while: notifications sent meanwhile are missing.
    Gap,
}

/// A subscription to the notifications of other servers.
#[derive(Debug)]
pub struct Listener {
    connection: PgListener,
    server: String,
}

#[derive(Serialize, Deserialize)]
struct Message<'a> {
    from: std::borrow::Cow<'a, str>,
    #[serde(rename = "notices")]
    notifications: Vec<Notification>,
}

impl Store {
    /// Subscribes to the notifications of other servers; `None` when the database is not shared.
    pub async fn listen(&self, server: &str) -> Result<Option<Listener>, Error> {
        let Some(url) = &self.shared else { return Ok(None) };
        let failed = failed("listen to other servers");
        let mut connection = PgListener::connect(url).await.map_err(&failed)?;
        connection.listen(CHANNEL).await.map_err(&failed)?;
        Ok(Some(Listener { connection, server: server.to_owned() }))
    }

    /// Publishes notifications to the other servers.
    pub async fn publish(&self, server: &str, notifications: Vec<Notification>) -> Result<(), Error> {
        if !self.is_shared() {
            return Ok(());
        }
        for message in messages(server, notifications) {
            // The driver has no `void` type, which is what the function returns.
            sqlx::query("SELECT CAST(pg_notify($1, $2) AS TEXT)")
                .bind(CHANNEL)
                .bind(message)
                .execute(&self.write)
                .await
                .map_err(failed("notify other servers"))?;
        }
        Ok(())
    }
}

impl Listener {
    /// Waits for the next message of another server.
    pub async fn receive(&mut self) -> Result<Received, Error> {
        loop {
            let Some(told) = self.connection.try_recv().await.map_err(failed("listen to other servers"))?
            else {
                return Ok(Received::Gap);
            };
            // A newer version may send messages that this one does not know.
            let Ok(message) = serde_json::from_str::<Message<'_>>(told.payload()) else { continue };
            if message.from != self.server {
                return Ok(Received::Notifications(message.notifications));
            }
        }
    }
}

/// Splits notifications into messages of at most [`MESSAGE_BYTES`]. One that is too long by itself is dropped.
fn messages(server: &str, notifications: Vec<Notification>) -> Vec<String> {
    let text = |notifications: Vec<Notification>| {
        serde_json::to_string(&Message { from: server.into(), notifications }).unwrap_or_default()
    };
    let whole = text(notifications.clone());
    match notifications.len() {
        _ if whole.len() <= MESSAGE_BYTES => vec![whole],
        0 | 1 => Vec::new(),
        count => {
            let mut first = notifications;
            let second = first.split_off(count / 2);
            [messages(server, first), messages(server, second)].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_news_is_told_in_several_messages() {
        let notifications: Vec<Notification> =
            (1..=1_000).map(|number| Notification::Run("test".to_owned(), number)).collect();
        let messages = messages("me", notifications.clone());
        assert!(messages.iter().all(|message| message.len() <= MESSAGE_BYTES));
        let read = |text: &String| serde_json::from_str::<Message<'_>>(text).unwrap().notifications;
        assert_eq!(messages.iter().flat_map(read).collect::<Vec<_>>(), notifications);
    }

    #[test]
    fn what_fits_into_no_message_is_left_out() {
        let notifications = vec![Notification::Run("x".repeat(9_000), 1), Notification::Queued];
        assert_eq!(messages("me", notifications), [r#"{"from":"me","notices":["queued"]}"#]);
    }
}
