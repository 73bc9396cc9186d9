//! Paginated lists of resources, read by index.

use qualitytrace_core::definition::Kind;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::chunks::{signed, unsigned};
use super::definitions::StoredResource;
use super::{Error, Store, failed};

/// A page of resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The number of resources in all.
    pub count: u64,
    /// The resources on this page.
    pub items: Vec<StoredResource>,
}

/// Filter, order and page of a list.
#[derive(Debug, Clone, Copy)]
pub struct Listing<'a> {
    /// The kind of resource.
    pub kind: Kind,
    /// The tenant; empty for none.
    pub tenant: &'a str,
    /// Part of a name or description, case-insensitive; `%` matches anything.
    pub query: &'a str,
    /// The sort column.
    pub order: Order,
    /// Whether the order is ascending.
    pub ascending: bool,
    /// The page size.
    pub take: u64,
    /// The offset of the page.
    pub skip: u64,
}

/// The sort column of a list.
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
    /// Returns one page of resources.
    pub async fn list(&self, listing: &Listing<'_>) -> Result<Page, Error> {
        let (count, items) = self.list_of(&[listing.kind], listing).await?;
        Ok(Page { count, items: items.into_iter().map(|(_, item)| item).collect() })
    }

    /// Returns one page of resources of several kinds in one order, and the number of them in all.
    pub async fn list_of(
        &self,
        kinds: &[Kind],
        listing: &Listing<'_>,
    ) -> Result<(u64, Vec<(Kind, StoredResource)>), Error> {
        let failed = failed("list definitions");
        let pattern = pattern(listing.query);
        let ids = each(kinds, &|kind| {
            format!("SELECT id FROM resources WHERE kind = '{kind}' AND {}", condition(listing))
        });
        let count = format!("SELECT COUNT(*) FROM ({ids}) AS listed");
        let count = sqlx::query_scalar(AssertSqlSafe(count)).bind(listing.tenant).bind(&pattern);
        let page = sqlx::query(AssertSqlSafe(page_text(kinds, listing)))
            .bind(listing.tenant)
            .bind(&pattern)
            .bind(signed(listing.take))
            .bind(signed(listing.skip));
        let both = tokio::try_join!(count.fetch_one(&self.read), page.fetch_all(&self.read));
        let (count, rows): (i64, _) = both.map_err(&failed)?;
        let item = |row: &AnyRow| {
            let word: String = row.try_get("kind").map_err(&failed)?;
            let kind = kinds.iter().copied().find(|kind| kind.as_str() == word).unwrap_or(listing.kind);
            Ok::<_, Error>((kind, self.opened(kind, row)?))
        };
        Ok((unsigned(count), rows.iter().map(item).collect::<Result<_, _>>()?))
    }
}

/// The SQL of one page, with the parameters tenant, pattern, take and skip. No user input becomes part of it.
pub(super) fn page_text(kinds: &[Kind], listing: &Listing<'_>) -> String {
    let (column, direction) = (listing.order.column(), if listing.ascending { "ASC" } else { "DESC" });
    let order = format!("ORDER BY place {direction}, id {direction} LIMIT");
    let one = |kind: &str| {
        let columns = format!("kind, id, version, created, spec, {column} AS place");
        format!("SELECT {columns} FROM resources WHERE kind = '{kind}' AND {}", condition(listing))
    };
    // With several kinds, each one reads by its index at most as many rows as the page can need.
    let all = match kinds {
        [kind] => one(kind.as_str()),
        _ => each(kinds, &|kind| format!("SELECT * FROM ({} {order} $3 + $4) AS {kind}", one(kind))),
    };
    format!("{all} {order} $3 OFFSET $4")
}

fn each(kinds: &[Kind], of: &dyn Fn(&str) -> String) -> String {
    kinds.iter().map(|kind| of(kind.as_str())).collect::<Vec<_>>().join(" UNION ALL ")
}

const fn condition(listing: &Listing<'_>) -> &'static str {
    if listing.query.is_empty() {
        "tenant = $1 AND $2 = $2"
    } else {
        r"tenant = $1 AND (name LIKE $2 ESCAPE '\' OR description LIKE $2 ESCAPE '\')"
    }
}

/// The `LIKE` pattern of a search: any text before, after and in place of spaces.
pub(super) fn pattern(query: &str) -> String {
    let query = query.to_lowercase().replace('\\', r"\\").replace(' ', "%");
    format!("%{query}%")
}
