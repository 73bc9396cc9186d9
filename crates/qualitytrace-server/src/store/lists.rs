//! Pages of resources, found by index.

use qualitytrace_core::definition::Kind;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

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
        let (count, items) = self.list_of(&[listing.kind], listing).await?;
        Ok(Page { count, items: items.into_iter().map(|(_, item)| item).collect() })
    }

    /// One page of resources of these kinds, in one order; and how many there are in all.
    pub async fn list_of(
        &self,
        kinds: &[Kind],
        listing: &Listing<'_>,
    ) -> Result<(u64, Vec<(Kind, StoredResource)>), Error> {
        let failed = failed("list definitions");
        let pattern = pattern(listing.query);
        let found = if listing.query.is_empty() {
            "tenant = $1 AND $2 = $2"
        } else {
            r"tenant = $1 AND (name LIKE $2 ESCAPE '\' OR description LIKE $2 ESCAPE '\')"
        };
        let (column, direction) = (listing.order.column(), if listing.ascending { "ASC" } else { "DESC" });
        // Nothing that a user wrote becomes part of these texts.
        let each = |columns: &str| {
            let of = |kind: &Kind| {
                let kind = kind.as_str();
                format!("SELECT {columns} FROM resources WHERE kind = '{kind}' AND {found}")
            };
            kinds.iter().map(of).collect::<Vec<_>>().join(" UNION ALL ")
        };
        let count = format!("SELECT COUNT(*) FROM ({}) AS listed", each("id"));
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(count))
            .bind(listing.tenant)
            .bind(&pattern)
            .fetch_one(&self.read)
            .await
            .map_err(&failed)?;
        // Each kind is read in order by its index, and the kinds are merged: nothing is sorted.
        let page = format!(
            "{} ORDER BY place {direction}, id {direction} LIMIT $3 OFFSET $4",
            each(&format!("kind, id, version, created, spec, {column} AS place"))
        );
        let rows = sqlx::query(AssertSqlSafe(page))
            .bind(listing.tenant)
            .bind(&pattern)
            .bind(signed(listing.take))
            .bind(signed(listing.skip))
            .fetch_all(&self.read)
            .await
            .map_err(&failed)?;
        let item = |row: &AnyRow| {
            let word: String = row.try_get("kind").map_err(&failed)?;
            let kind = kinds.iter().copied().find(|kind| kind.as_str() == word).unwrap_or(listing.kind);
            Ok::<_, Error>((kind, self.opened(kind, row)?))
        };
        Ok((unsigned(count), rows.iter().map(item).collect::<Result<_, _>>()?))
    }
}

/// The pattern of a search: anything before and after, and in place of spaces.
fn pattern(query: &str) -> String {
    let query = query.to_lowercase().replace('\\', r"\\").replace(' ', "%");
    format!("%{query}%")
}
