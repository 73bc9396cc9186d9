//! Pages of resources, found by index.

use qualitytrace_core::definition::Kind;
use sqlx::AssertSqlSafe;

use super::chunks::{signed, unsigned};
use super::definitions::StoredResource;
use super::{Error, Store, failed};

/// A page of resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// How many there are in all.
    pub count: u64,
    /// The ones on this page.
    pub items: Vec<StoredResource>,
}

/// Which resources, in which order.
#[derive(Debug, Clone, Copy)]
pub struct Listing<'a> {
    /// What they are.
    pub kind: Kind,
    /// Whose they are; empty for nobody's.
    pub tenant: &'a str,
    /// Part of a name or a description, in any case; `%` stands for anything.
    pub query: &'a str,
    /// What decides the order.
    pub order: Order,
    /// Whether the smallest comes first.
    pub ascending: bool,
    /// How many at most.
    pub take: u64,
    /// How many to leave out first.
    pub skip: u64,
}

/// What decides the order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// When it was first stored.
    Created,
    /// Its name.
    Name,
    /// When it was last run.
    LastRun,
    /// Its id.
    Id,
    /// The type of a demo.
    Kind,
}

impl Order {
    const fn column(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Name => "sort_name",
            Self::LastRun => "last_run",
            Self::Id => "id",
            Self::Kind => "sort_kind",
        }
    }
}

impl Store {
    /// One page of resources.
    pub async fn list(&self, listing: &Listing<'_>) -> Result<Page, Error> {
        let failed = failed("list definitions");
        let pattern = pattern(listing.query);
        let filter = if listing.query.is_empty() {
            "kind = $1 AND tenant = $2 AND $3 = $3"
        } else {
            r"kind = $1 AND tenant = $2 AND (name LIKE $3 ESCAPE '\' OR description LIKE $3 ESCAPE '\')"
        };
        let (column, direction) = (listing.order.column(), if listing.ascending { "ASC" } else { "DESC" });
        let count: i64 =
            sqlx::query_scalar(AssertSqlSafe(format!("SELECT COUNT(*) FROM resources WHERE {filter}")))
                .bind(listing.kind.as_str())
                .bind(listing.tenant)
                .bind(&pattern)
                .fetch_one(&self.read)
                .await
                .map_err(&failed)?;
        // Nothing that a user wrote becomes part of this text.
        let rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT id, version, created, spec FROM resources WHERE {filter}
             ORDER BY {column} {direction}, id {direction} LIMIT $4 OFFSET $5"
        )))
        .bind(listing.kind.as_str())
        .bind(listing.tenant)
        .bind(&pattern)
        .bind(signed(listing.take))
        .bind(signed(listing.skip))
        .fetch_all(&self.read)
        .await
        .map_err(&failed)?;
        Ok(Page {
            count: unsigned(count),
            items: rows.iter().map(|row| self.opened(listing.kind, row)).collect::<Result<_, _>>()?,
        })
    }
}

/// The pattern of a search: anything before and after, and in place of spaces.
fn pattern(query: &str) -> String {
    let query = query.to_lowercase().replace('\\', r"\\").replace(' ', "%");
    format!("%{query}%")
}
