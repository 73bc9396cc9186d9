//! What servers that share a database tell each other, through the database.
//!
//! A notice is a hint and may get lost: whatever it says can also be read from the tables.

use qualitytrace_core::id::TraceId;
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgListener;

use super::{Error, Store, Wish, failed};

/// The channel that every server listens on.
const CHANNEL: &str = "qualitytrace";
/// Bytes of one message; PostgreSQL refuses 8,000 and more.
const MESSAGE_BYTES: usize = 7_500;

/// What one server tells the others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Notice {
    /// It has just begun.
    Joined,
    /// Runs wait for somebody to carry them out.
    Queued,
    /// Something happened to a run.
    Run(String, u64),
    /// A user wants something of a run.
    Wish(String, u64, Wish),
    /// Something happened to a run of a suite.
    SuiteRun(String, u64),
    /// A user wants a run of a suite to end.
    StopSuite(String, u64),
    /// It waits for spans of this trace.
    Follows(TraceHex),
    /// It waits for them no longer.
    Unfollows(TraceHex),
    /// Spans of this trace arrived.
    Arrived(TraceHex),
}

/// A trace id as it is written.
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

/// What came in from another server.
#[derive(Debug)]
pub enum Heard {
    /// What it told.
    Notices(Vec<Notice>),
    /// The connection was gone for a while: whatever was told meanwhile is lost.
    Gap,
}

/// Hears what other servers tell.
#[derive(Debug)]
pub struct Listener {
    connection: PgListener,
    server: String,
}

#[derive(Serialize, Deserialize)]
struct Message<'a> {
    from: std::borrow::Cow<'a, str>,
    notices: Vec<Notice>,
}

impl Store {
    /// Begins to listen to the others; `None` where there are none.
    pub async fn listen(&self, server: &str) -> Result<Option<Listener>, Error> {
        let Some(url) = &self.shared else { return Ok(None) };
        let failed = failed("listen to other servers");
        let mut connection = PgListener::connect(url).await.map_err(&failed)?;
        connection.listen(CHANNEL).await.map_err(&failed)?;
        Ok(Some(Listener { connection, server: server.to_owned() }))
    }

    /// Tells the other servers.
    pub async fn tell(&self, server: &str, notices: Vec<Notice>) -> Result<(), Error> {
        if !self.is_shared() {
            return Ok(());
        }
        for message in messages(server, notices) {
            // The driver knows no empty type, which is what the function returns.
            sqlx::query("SELECT CAST(pg_notify($1, $2) AS TEXT)")
                .bind(CHANNEL)
                .bind(message)
                .execute(&self.write)
                .await
                .map_err(failed("tell other servers"))?;
        }
        Ok(())
    }
}

impl Listener {
    /// Waits for the next word of another server.
    pub async fn hear(&mut self) -> Result<Heard, Error> {
        loop {
            let Some(told) = self.connection.try_recv().await.map_err(failed("listen to other servers"))?
            else {
                return Ok(Heard::Gap);
            };
            // A newer version may say what this one does not understand.
            let Ok(message) = serde_json::from_str::<Message<'_>>(told.payload()) else { continue };
            if message.from != self.server {
                return Ok(Heard::Notices(message.notices));
            }
        }
    }
}

/// Messages that hold all notices, none of them too long. A notice that fits into none is left out.
fn messages(server: &str, notices: Vec<Notice>) -> Vec<String> {
    let text = |notices: Vec<Notice>| {
        serde_json::to_string(&Message { from: server.into(), notices }).unwrap_or_default()
    };
    let whole = text(notices.clone());
    match notices.len() {
        _ if whole.len() <= MESSAGE_BYTES => vec![whole],
        0 | 1 => Vec::new(),
        count => {
            let mut first = notices;
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
        let notices: Vec<Notice> = (1..=1_000).map(|number| Notice::Run("test".to_owned(), number)).collect();
        let messages = messages("me", notices.clone());
        assert!(messages.iter().all(|message| message.len() <= MESSAGE_BYTES));
        let read = |text: &String| serde_json::from_str::<Message<'_>>(text).unwrap().notices;
        assert_eq!(messages.iter().flat_map(read).collect::<Vec<_>>(), notices);
    }

    #[test]
    fn what_fits_into_no_message_is_left_out() {
        let notices = vec![Notice::Run("x".repeat(9_000), 1), Notice::Queued];
        assert_eq!(messages("me", notices), [r#"{"from":"me","notices":["queued"]}"#]);
    }
}
