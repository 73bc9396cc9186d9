//! Which page of a list, in which order.

use qualitytrace_core::definition::Kind;
use serde::Deserialize;

use crate::api::answer::Problem;
use crate::api::tenant::Tenant;
use crate::store::{Listing, Order};

/// Items on a page when nothing is said.
const TAKE: u64 = 20;
/// Items on a page at most.
const MOST: u64 = 10_000;

/// The parameters of a list, as sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::api) struct Parameters {
    take: String,
    skip: String,
    query: String,
    #[serde(rename = "sortBy")]
    sort_by: String,
    #[serde(rename = "sortDirection")]
    sort_direction: String,
}

impl Parameters {
    /// The page that they ask for.
    pub(in crate::api) fn listing<'a>(
        &'a self,
        kind: Kind,
        tenant: &'a Tenant,
    ) -> Result<Listing<'a>, Problem> {
        let take = number("take", &self.take)?;
        if self.query.contains('\0') {
            return Err(Problem::bad_request("cannot process request: query holds the character U+0000"));
        }
        Ok(Listing {
            kind,
            tenant: tenant.as_str(),
            query: &self.query,
            order: order(kind, &self.sort_by)?,
            ascending: self.sort_direction.eq_ignore_ascii_case("asc"),
            take: if take == 0 { TAKE } else { take.min(MOST) },
            skip: number("skip", &self.skip)?,
        })
    }
}

fn number(name: &str, text: &str) -> Result<u64, Problem> {
    if text.is_empty() {
        return Ok(0);
    }
    let number: i64 = text.parse().map_err(|_| {
        Problem::bad_request(format!(
            "cannot process request: error reading {name} param: '{text}' is not a number"
        ))
    })?;
    u64::try_from(number)
        .map_err(|_| Problem::bad_request(format!("cannot process request: {name} must not be negative")))
}

/// What resources of a kind can be sorted by.
pub(in crate::api) const fn sorts(kind: Kind) -> &'static [(&'static str, Order)] {
    match kind {
        Kind::Test | Kind::TestSuite => {
            &[("created", Order::Created), ("name", Order::Name), ("last_run", Order::LastRun)]
        }
        Kind::VariableSet => &[("createdAt", Order::Created), ("name", Order::Name)],
        Kind::Demo => &[("name", Order::Name), ("id", Order::Id), ("type", Order::Kind)],
        Kind::DataStore | Kind::PollingProfile | Kind::Analyzer | Kind::TestRunner | Kind::Config => {
            &[("name", Order::Name)]
        }
    }
}

/// The first that a kind can be sorted by, unless another is named.
fn order(kind: Kind, name: &str) -> Result<Order, Problem> {
    let found = sorts(kind).iter().find(|(known, _)| name.is_empty() || *known == name);
    found
        .map(|(_, order)| *order)
        .ok_or_else(|| Problem::bad_request(format!("cannot process request: invalid sort field: {name}")))
}
