//! Paginated lists of resources, read by index.

use std::collections::{BTreeSet, HashMap};

use qualitytrace_core::definition::Kind;
use sqlx::any::AnyArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Row};

use super::chunks::{signed, unsigned};
use super::definitions::StoredResource;
use super::facets::Facet;
use super::{Error, Store, failed};

/// A page of a list: what is on it, not yet loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage {
    /// The number of resources in all.
    pub count: u64,
    /// The bytes of the texts on this page.
    pub bytes: u64,
    /// Kinds and ids, in order.
    items: Vec<(Kind, String)>,
}

/// Filter, order and page of a list.
#[derive(Debug, Clone, Copy)]
pub struct Listing<'a> {
    /// The tenant; empty for none.
    pub tenant: &'a str,
    /// Part of a name or description, case-insensitive; `%` matches anything.
    pub query: &'a str,
    /// The outcome of the latest run of a test that has ended; `None` for any.
    pub outcome: Option<&'a str>,
    /// The type of the trigger; `None` for any.
    pub trigger: Option<&'a str>,
    /// One of the tags; `None` for any.
    pub tag: Option<&'a str>,
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
    /// Finds one page of resources of these kinds in one order.
    pub async fn list(&self, kinds: &[Kind], listing: &Listing<'_>) -> Result<ListPage, Error> {
        let failed = failed("list definitions");
        let ids = each(kinds, &|kind| {
            format!("SELECT id FROM resources WHERE kind = '{kind}' AND {}", condition(kind, listing))
        });
        let count = filtered(format!("SELECT COUNT(*) AS listed FROM ({ids}) AS ids"), listing);
        let page = filtered(page_text(kinds, listing), listing)
            .bind(signed(listing.take))
            .bind(signed(listing.skip));
        let both = tokio::try_join!(count.fetch_one(&self.read), page.fetch_all(&self.read));
        let (count, rows) = both.map_err(&failed)?;
        let count: i64 = count.try_get("listed").map_err(&failed)?;
        let mut found = ListPage { count: unsigned(count), bytes: 0, items: Vec::with_capacity(rows.len()) };
        for row in &rows {
            let word: String = row.try_get("kind").map_err(&failed)?;
            let Some(kind) = kinds.iter().copied().find(|kind| kind.as_str() == word) else { continue };
            found.bytes += unsigned(row.try_get("bytes").map_err(&failed)?);
            found.items.push((kind, row.try_get("id").map_err(&failed)?));
        }
        Ok(found)
    }

    /// Loads what is on a page, in its order; what was deleted meanwhile is left out.
    pub async fn load(&self, page: &ListPage) -> Result<Vec<(Kind, StoredResource)>, Error> {
        let mut loaded = HashMap::new();
        for kind in page.items.iter().map(|(kind, _)| *kind).collect::<BTreeSet<_>>() {
            let ids: Vec<&str> =
                page.items.iter().filter(|(of, _)| *of == kind).map(|(_, id)| id.as_str()).collect();
            for stored in self.resources(kind, &ids).await? {
                loaded.insert((kind, stored.id.clone()), stored);
            }
        }
        let item = |item: &(Kind, String)| Some((item.0, loaded.remove(item)?));
        Ok(page.items.iter().filter_map(item).collect())
    }
}

/// A statement with the parameters of [`condition`].
fn filtered(text: String, listing: &Listing<'_>) -> Query<'static, sqlx::Any, AnyArguments> {
    // No user input becomes part of it.
    let query = sqlx::query(AssertSqlSafe(text)).bind(listing.tenant.to_owned()).bind(pattern(listing.query));
    [listing.outcome, listing.trigger, listing.tag]
        .into_iter()
        .fold(query, |query, value| query.bind(value.unwrap_or_default().to_owned()))
}

/// The SQL of one page, with the parameters of [`condition`], take and skip.
fn page_text(kinds: &[Kind], listing: &Listing<'_>) -> String {
    let (column, direction) = (listing.order.column(), if listing.ascending { "ASC" } else { "DESC" });
    let order = format!("ORDER BY place {direction}, id {direction} LIMIT");
    let one = |kind: &str| {
        let columns = format!("kind, id, CAST(octet_length(spec) AS BIGINT) AS bytes, {column} AS place");
        format!("SELECT {columns} FROM resources WHERE kind = '{kind}' AND {}", condition(kind, listing))
    };
    // With several kinds, each one reads by its index at most as many rows as the page can need.
    let all = match kinds {
        [kind] => one(kind.as_str()),
        _ => each(kinds, &|kind| format!("SELECT * FROM ({} {order} $6 + $7) AS {kind}", one(kind))),
    };
    format!("{all} {order} $6 OFFSET $7")
}

fn each(kinds: &[Kind], of: &dyn Fn(&str) -> String) -> String {
    kinds.iter().map(|kind| of(kind.as_str())).collect::<Vec<_>>().join(" UNION ALL ")
}

/// The filter of a list, with the parameters tenant, pattern, outcome, trigger and tag.
fn condition(kind: &str, listing: &Listing<'_>) -> String {
    let search = r"(name LIKE $2 ESCAPE '\' OR description LIKE $2 ESCAPE '\')";
    // Only tests have outcomes and triggers: in a list with suites, these are left out.
    let of_tests =
        |part: String, at: usize| if kind == Kind::Test.as_str() { part } else { format!("${at} <> ${at}") };
    let ended = "id IN (SELECT test_id FROM run_numbers WHERE outcome = $3)".to_owned();
    let facet = |facet: Facet, at: usize| {
        let facet = facet.as_str();
        format!("id IN (SELECT id FROM facets WHERE kind = '{kind}' AND facet = '{facet}' AND value = ${at})")
    };
    let parts = [
        (!listing.query.is_empty()).then(|| search.to_owned()),
        listing.outcome.map(|_| of_tests(ended, 3)),
        listing.trigger.map(|_| of_tests(facet(Facet::Trigger, 4), 4)),
        listing.tag.map(|_| facet(Facet::Tag, 5)),
    ];
    // PostgreSQL wants to know the type of every parameter.
    let parts = (2..).zip(parts).map(|(at, part)| part.unwrap_or_else(|| format!("${at} = ${at}")));
    parts.fold("tenant = $1".to_owned(), |all, part| format!("{all} AND {part}"))
}

/// The `LIKE` pattern of a search: any text before, after and in place of spaces.
fn pattern(query: &str) -> String {
    let query = query.to_lowercase().replace('\\', r"\\").replace(' ', "%");
    format!("%{query}%")
}
