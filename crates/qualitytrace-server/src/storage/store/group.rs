//! Group commit: concurrent writers of a SQLite file share one transaction, and so one sync of the disk.
//!
//! SQLite has one writer at a time, and a commit takes as long as the disk. A member executes its statements in the open
//! transaction, then queues for the commit behind the writers that are waiting already: they become members as well. The
//! first that gets its turn commits for all.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Executor as _, Transaction};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard, watch};

use super::ACQUIRE_TIMEOUT;

/// The writers of a database.
#[derive(Debug, Clone)]
pub(super) enum Writers {
    /// Of a SQLite file: they share transactions.
    Grouped(AnyPool, OpenGroup),
    /// Every writer has its own transaction.
    Separate(AnyPool),
}

/// The group that can be joined, if there is one.
type OpenGroup = Arc<Mutex<Option<Group>>>;

/// A transaction of several members. Dropped without a commit, it is rolled back, and its members fail.
#[derive(Debug)]
pub(super) struct Group {
    transaction: Transaction<'static, Any>,
    /// The savepoint of a member that gave up is still there.
    is_unclean: bool,
    outcome: watch::Sender<Option<Result<(), CommitError>>>,
}

/// A connection to write on. What it executes is kept by [`Write::commit`].
pub(super) enum Write {
    /// Its one statement commits itself.
    Statement(PoolConnection<Any>),
    Transaction(Transaction<'static, Any>),
    Member(Member),
}

/// A member of a group, while it executes its statements.
pub(super) struct Member {
    open: OpenGroup,
    group: OwnedMappedMutexGuard<Option<Group>, Group>,
    has_savepoint: bool,
}

impl Writers {
    /// The writers of a SQLite file.
    pub(super) fn grouped(pool: AnyPool) -> Self {
        Self::Grouped(pool, Arc::default())
    }

    /// Begins a transaction.
    pub(super) async fn begin(&self) -> Result<Write, sqlx::Error> {
        match self {
            Self::Separate(pool) => Ok(Write::Transaction(pool.begin().await?)),
            Self::Grouped(pool, open) => {
                let mut member = Member::join(pool, open).await?;
                member.has_savepoint = true;
                member.group.transaction.execute("SAVEPOINT member").await?;
                Ok(Write::Member(member))
            }
        }
    }

    /// Returns a connection for one statement, which needs no savepoint: it is done as a whole or not at all.
    pub(super) async fn statement(&self) -> Result<Write, sqlx::Error> {
        match self {
            Self::Separate(pool) => Ok(Write::Statement(pool.acquire().await?)),
            Self::Grouped(pool, open) => Ok(Write::Member(Member::join(pool, open).await?)),
        }
    }
}

impl Write {
    /// Returns when what was executed is stored.
    pub(super) async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Statement(_) => Ok(()),
            Self::Transaction(transaction) => transaction.commit().await,
            Self::Member(member) => member.commit().await,
        }
    }
}

impl Deref for Write {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        match self {
            Self::Statement(connection) => connection,
            Self::Transaction(transaction) => transaction,
            Self::Member(member) => &member.group.transaction,
        }
    }
}

impl DerefMut for Write {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        match self {
            Self::Statement(connection) => connection,
            Self::Transaction(transaction) => transaction,
            Self::Member(member) => &mut member.group.transaction,
        }
    }
}

impl Member {
    /// Waits for the connection, and begins a transaction if none is open.
    async fn join(pool: &AnyPool, open: &OpenGroup) -> Result<Self, sqlx::Error> {
        let turn = tokio::time::timeout(ACQUIRE_TIMEOUT, Arc::clone(open).lock_owned()).await;
        let mut group = turn.map_err(|_| sqlx::Error::PoolTimedOut)?;
        Group::clean(&mut group).await;
        if group.is_none() {
            *group = Some(Group {
                transaction: pool.begin().await?,
                is_unclean: false,
                outcome: watch::Sender::new(None),
            });
        }
        let group = OwnedMutexGuard::try_map(group, Option::as_mut).map_err(|_| sqlx::Error::PoolClosed)?;
        Ok(Self { open: Arc::clone(open), group, has_savepoint: false })
    }

    async fn commit(mut self) -> Result<(), sqlx::Error> {
        if self.has_savepoint {
            self.group.transaction.execute("RELEASE member").await?;
            self.has_savepoint = false;
        }
        let mut outcome = self.group.outcome.subscribe();
        drop(self);
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Err(error))) => Err(sqlx::Error::Database(Box::new(error.clone()))),
            Ok(_) => Ok(()),
            // Another member broke the transaction: this one can be tried again.
            Err(_) => Err(sqlx::Error::Io(io::Error::other("the transaction was rolled back"))),
        }
    }
}

impl Drop for Member {
    /// Queues for the commit, in a task of its own: a caller that no longer waits must not leave the group open.
    fn drop(&mut self) {
        self.group.is_unclean = self.has_savepoint;
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(Group::commit(Arc::clone(&self.open), self.group.outcome.subscribe()));
        }
    }
}

impl Group {
    /// Commits the group with this outcome, unless another member has.
    async fn commit(open: OpenGroup, outcome: watch::Receiver<Option<Result<(), CommitError>>>) {
        let mut open = open.lock().await;
        let is_over = outcome.borrow().is_some() || outcome.has_changed().is_err();
        if is_over {
            return;
        }
        Self::clean(&mut open).await;
        if let Some(group) = open.take() {
            let committed = group.transaction.commit().await.map_err(|error| CommitError::of(&error));
            group.outcome.send_replace(Some(committed));
        }
    }

    /// Undoes what a member executed that gave up. When that fails, the database has rolled back everything.
    async fn clean(open: &mut Option<Self>) {
        let Some(group) = open.as_mut().filter(|group| group.is_unclean) else { return };
        group.is_unclean = false;
        let cleaned = group.transaction.execute("ROLLBACK TO member; RELEASE member").await;
        if cleaned.is_err() {
            *open = None;
        }
    }
}

/// The error of a commit, for each of its members.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
struct CommitError {
    message: String,
    code: Option<String>,
}

impl CommitError {
    fn of(error: &sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(DatabaseError::code);
        Self { message: error.to_string(), code: code.map(Cow::into_owned) }
    }
}

impl DatabaseError for CommitError {
    fn message(&self) -> &str {
        &self.message
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        self.code.as_deref().map(Cow::Borrowed)
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::*;

    async fn put(writers: &Writers, name: &'static str) -> Write {
        let mut write = writers.statement().await.unwrap();
        let insert = sqlx::query("INSERT INTO documents (name, body) VALUES ($1, '')").bind(name);
        insert.execute(&mut *write).await.unwrap();
        write
    }

    #[tokio::test]
    async fn a_member_that_breaks_the_transaction_fails_the_others_and_no_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("group.db").display());
        let store = Store::open(&url).await.unwrap();
        let first = put(&store.writers, "first").await;
        let writers = store.writers.clone();
        let breaking = tokio::spawn(async move {
            // As SQLite itself does on a full disk.
            writers.begin().await.unwrap().execute("ROLLBACK").await.unwrap();
        });
        // Lets it queue before the commit.
        tokio::task::yield_now().await;
        assert!(matches!(first.commit().await, Err(sqlx::Error::Io(_))));
        breaking.await.unwrap();
        put(&store.writers, "later").await.commit().await.unwrap();
        let stored = sqlx::query_scalar("SELECT name FROM documents WHERE name IN ('first', 'later')");
        let stored: Vec<String> = stored.fetch_all(&store.read).await.unwrap();
        assert_eq!(stored, ["later"]);
    }
}
