//! Classification of errors: database unavailable, disk full, file gone.

use super::Error;

const FULL: &str = "the disk of the database is full; make room on it, then try again";
const FAILS: &str = "the disk of the database fails; check it, then try again";
const UNREADABLE: &str =
    "the database cannot be read; check its disk, then see with `qualitytrace verify` whether it is damaged";

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

    /// Whether the same statement may succeed later: the database is unavailable, its disk is full or fails, it only
    /// reads for now, or it ended one of two transactions that waited for each other.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Query { source: sqlx::Error::Database(error), .. } if !self.is_unavailable() => {
                error.code().is_some_and(|code| is_temporary(&code))
            }
            Self::NoRoom { .. } => true,
            Self::Query { .. }
            | Self::Url { .. }
            | Self::InUse { .. }
            | Self::Open { .. }
            | Self::Secret(_)
            | Self::Document { .. } => self.is_unavailable(),
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
        if sqlite(&code) == Some(IO_ERROR) || code == "58030" {
            return Some(FAILS);
        }
        // SQLite says so of a read that failed, too.
        if sqlite(&code) == Some(11) || code == "XX001" {
            return Some(UNREADABLE);
        }
        is_full(&code).then_some(FULL)
    }

    /// Whether the statement certainly did not reach the database.
    pub fn was_not_sent(&self) -> bool {
        matches!(self, Self::Query { source: sqlx::Error::PoolTimedOut, .. })
    }
}

/// SQLite failed to read, write or sync.
const IO_ERROR: u32 = 10;

/// The primary code of SQLite, the lower byte of a number. PostgreSQL reports five characters.
fn sqlite(code: &str) -> Option<u32> {
    let code: u32 = code.parse().ok().filter(|_| code.len() < 5)?;
    Some(code & 0xff)
}

fn is_full(code: &str) -> bool {
    code == "53100" || sqlite(code) == Some(13)
}

/// SQLite cannot open its file.
fn is_gone(code: &str) -> bool {
    sqlite(code) == Some(14)
}

fn is_temporary(code: &str) -> bool {
    match sqlite(code) {
        // Busy, locked, read-only, failed to read or write.
        Some(primary) => matches!(primary, 5 | 6 | 8 | IO_ERROR) || is_full(code) || is_gone(code),
        // Read-only, serialization failure, deadlock, a disk that fails; class 53 is a lack of disk, memory or
        // connections.
        None => matches!(code, "25006" | "40001" | "40P01" | "58030") || code.starts_with("53"),
    }
}

/// PostgreSQL ended a connection that did nothing within a transaction: it was cut off for a while.
const IDLE_IN_TRANSACTION: &str = "25P03";

pub(super) fn is_unavailable(error: &sqlx::Error) -> bool {
    match error {
        // A connection that breaks during the handshake can give any protocol error.
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut => {
            true
        }
        // Broken or refused connections, and a PostgreSQL that is starting or stopping.
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            code.len() == 5
                && (code.starts_with("08")
                    || matches!(&*code, "53300" | "57P01" | "57P02" | "57P03" | IDLE_IN_TRANSACTION))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_a_deadlock_and_a_standby_are_temporary_and_a_wrong_statement_is_not() {
        // SQLite: full, a failed write, a file that cannot be opened, read-only, busy. PostgreSQL: full, deadlock, standby.
        for code in ["13", "778", "14", "8", "5", "53100", "40P01", "25006", "58030"] {
            assert!(is_temporary(code), "{code}");
        }
        // SQLite: error, constraint, corrupt. PostgreSQL: syntax, unique violation.
        for code in ["1", "2067", "11", "42601", "23505"] {
            assert!(!is_temporary(code), "{code}");
        }
    }
}
