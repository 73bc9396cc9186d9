//! Classification of errors: database unavailable, disk full, file gone.

use super::Error;

const FULL: &str = "the disk of the database is full; make room on it, then try again";

impl Error {
    /// Whether the database is unavailable. The operation may be retried; whether it was already done is unknown.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Query { source, .. } => is_unavailable(source),
            Self::Url { .. }
            | Self::InUse { .. }
            | Self::Open { .. }
            | Self::NoRoom { .. }
            | Self::Secret(_)
            | Self::Document { .. } => false,
        }
    }

    /// The message to clients for an error that goes away when an operator acts.
    pub fn temporary_message(&self) -> Option<&'static str> {
        if self.is_unavailable() {
            return Some("the database does not answer; try again in a moment");
        }
        if matches!(self, Self::NoRoom { .. }) {
            return Some(FULL);
        }
        let Self::Query { source: sqlx::Error::Database(error), .. } = self else { return None };
        let code = error.code()?;
        if is_gone(&code) {
            return Some("the database file is missing; put it back, or restart the server");
        }
        is_full(&code).then_some(FULL)
    }

    /// Whether the statement certainly did not reach the database.
    pub fn was_not_sent(&self) -> bool {
        matches!(self, Self::Query { source: sqlx::Error::PoolTimedOut, .. })
    }
}

/// PostgreSQL reports it with five characters, SQLite with a number whose lower byte is the primary code.
fn is_full(code: &str) -> bool {
    code == "53100" || (code.len() < 5 && code.parse().is_ok_and(|code: u32| code & 0xff == 13))
}

/// SQLite cannot open its file.
fn is_gone(code: &str) -> bool {
    code.len() < 5 && code.parse().is_ok_and(|code: u32| code & 0xff == 14)
}

pub(super) fn is_unavailable(error: &sqlx::Error) -> bool {
    match error {
        // A connection that breaks during the handshake can give any protocol error.
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut => {
            true
        }
        // Broken or refused connections, and a PostgreSQL that is starting or stopping.
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            code.len() == 5
                && (code.starts_with("08") || matches!(&*code, "53300" | "57P01" | "57P02" | "57P03"))
        }),
        _ => false,
    }
}
