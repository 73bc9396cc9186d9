//! What lists of tests and suites are filtered by: the trigger and the tags of each.

use qualitytrace_core::definition::Kind;
use serde_json::Value;
use sqlx::{Any, Row as _, Transaction};

use super::chunks::unsigned;
use super::{Error, Store, failed};

/// The longest value that is filtered by, in bytes: indexes limit it.
const LONGEST: usize = 256;
/// The tags of one resource that are filtered by.
const MAX_TAGS: usize = 100;
/// Stored once what an earlier version of the program had stored has facets.
const FILLED: &str = "facets";
/// Resources that are read at once to fill in their facets.
const FILLED_AT_ONCE: i64 = 500;

/// A property that resources are filtered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facet {
    /// The type of a trigger.
    Trigger,
    /// One of the tags.
    Tag,
}

impl Facet {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::Tag => "tag",
        }
    }
}

/// A tag, and how many tests have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// The number of tests.
    pub tests: u64,
}

impl Store {
    /// Lists the tags of the tests of a tenant, by name.
    pub async fn tags(&self, tenant: &str, at_most: u64) -> Result<Vec<TagCount>, Error> {
        let failed = failed("list tags");
        let rows = sqlx::query(
            "SELECT f.value AS tag, COUNT(*) AS tests FROM facets f
             JOIN resources r ON r.kind = f.kind AND r.id = f.id
             WHERE f.kind = 'Test' AND f.facet = 'tag' AND r.tenant = $1
             GROUP BY f.value ORDER BY f.value LIMIT $2",
        )
        .bind(tenant)
        .bind(super::chunks::signed(at_most))
        .fetch_all(&self.read)
        .await
        .map_err(&failed)?;
        let tag = |row: &sqlx::any::AnyRow| {
            Ok(TagCount { tag: row.try_get("tag")?, tests: unsigned(row.try_get("tests")?) })
        };
        rows.iter().map(tag).collect::<Result<_, sqlx::Error>>().map_err(failed)
    }

    /// Fills in the facets of what was stored before there were any.
    pub(super) async fn fill_facets(&self) -> Result<(), Error> {
        if self.document(FILLED).await?.is_some() {
            return Ok(());
        }
        let failed = failed("fill in what lists are filtered by");
        let (mut kind, mut id) = (String::new(), String::new());
        loop {
            let mut transaction = self.write.begin().await.map_err(&failed)?;
            let rows: Vec<(String, String, String)> = sqlx::query_as(
                "SELECT kind, id, spec FROM resources
                 WHERE kind IN ('Test', 'TestSuite') AND (kind > $1 OR (kind = $1 AND id > $2))
                 ORDER BY kind, id LIMIT $3",
            )
            .bind(&kind)
            .bind(&id)
            .bind(FILLED_AT_ONCE)
            .fetch_all(&mut *transaction)
            .await
            .map_err(&failed)?;
            let Some((last_kind, last_id, _)) = rows.last() else { break };
            (kind, id) = (last_kind.clone(), last_id.clone());
            for (kind, id, spec) in &rows {
                // What cannot be read has no facets; a list of it says why.
                let spec = serde_json::from_str(spec).unwrap_or_default();
                insert(&mut transaction, kind, id, &facets(&spec)).await.map_err(&failed)?;
            }
            transaction.commit().await.map_err(&failed)?;
        }
        self.add_document(FILLED, "true").await
    }
}

/// Replaces the facets of a resource by those of this definition.
pub(super) async fn replace(
    transaction: &mut Transaction<'_, Any>,
    kind: Kind,
    id: &str,
    spec: &str,
) -> Result<(), sqlx::Error> {
    if !matches!(kind, Kind::Test | Kind::TestSuite) {
        return Ok(());
    }
    sqlx::query("DELETE FROM facets WHERE kind = $1 AND id = $2")
        .bind(kind.as_str())
        .bind(id)
        .execute(&mut **transaction)
        .await?;
    insert(transaction, kind.as_str(), id, &facets(&serde_json::from_str(spec).unwrap_or_default())).await
}

async fn insert(
    transaction: &mut Transaction<'_, Any>,
    kind: &str,
    id: &str,
    facets: &[(Facet, &str)],
) -> Result<(), sqlx::Error> {
    for (facet, value) in facets {
        sqlx::query(
            "INSERT INTO facets (kind, id, facet, value) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        )
        .bind(kind)
        .bind(id)
        .bind(facet.as_str())
        .bind(*value)
        .execute(&mut **transaction)
        .await?;
    }
    Ok(())
}

fn facets(spec: &Value) -> Vec<(Facet, &str)> {
    let trigger = spec["trigger"]["type"].as_str().map(|trigger| (Facet::Trigger, trigger));
    let tags = spec["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let tags = tags.take(MAX_TAGS).map(|tag| (Facet::Tag, tag));
    trigger.into_iter().chain(tags).filter(|(_, value)| is_indexed(value)).collect()
}

/// Whether resources can be found by this value.
fn is_indexed(value: &str) -> bool {
    !value.is_empty() && value.len() <= LONGEST && !value.contains('\0')
}
