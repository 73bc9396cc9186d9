//! Pagination and sorting of lists of resources.

use qualitytrace_core::definition::Kind;
use serde::Deserialize;

use crate::serve::api::error::ApiError;
use crate::serve::api::run_error::{RunApiError, count};
use crate::serve::api::tenant::Tenant;
use crate::storage::store::{Listing, Order};
use crate::wire::series::Outcome;

/// The default page size.
const TAKE: u64 = 20;
/// The largest page size.
const MOST: u64 = 10_000;

/// The parameters of a list, as sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::serve::api) struct Parameters {
    take: String,
    skip: String,
    query: String,
    outcome: String,
    trigger: String,
    tag: String,
    #[serde(rename = "sortBy")]
    sort_by: String,
    #[serde(rename = "sortDirection")]
    sort_direction: String,
}

impl Parameters {
    /// Parses the parameters.
    pub(in crate::serve::api) fn listing<'a>(
        &'a self,
        kind: Kind,
        tenant: &'a Tenant,
    ) -> Result<Listing<'a>, ApiError> {
        let (take, skip) = (number(kind, "take", &self.take)?, number(kind, "skip", &self.skip)?);
        let order = order(kind, &self.sort_by).ok_or_else(|| {
            ApiError::bad_request(format!("cannot process request: invalid sort field: {}", self.sort_by))
        })?;
        for (name, filter, kinds) in [
            ("outcome", &self.outcome, &[Kind::Test][..]),
            ("trigger", &self.trigger, &[Kind::Test]),
            ("tag", &self.tag, &[Kind::Test, Kind::TestSuite]),
        ] {
            if !filter.is_empty() && !kinds.contains(&kind) {
                let kind = kind.as_str();
                return Err(ApiError::bad_request(format!(
                    "cannot process request: {kind} has no {name} to filter by"
                )));
            }
        }
        self.page(tenant, order, (take, skip))
    }

    /// Parses the parameters for tests and suites together: number errors are those of the legacy API, and an
    /// unknown order falls back to the default.
    pub(in crate::serve::api) fn of_everything<'a>(
        &'a self,
        tenant: &'a Tenant,
    ) -> Result<Listing<'a>, RunApiError> {
        let numbers = (count("take", &self.take)?, count("skip", &self.skip)?);
        let order = order(Kind::Test, &self.sort_by).unwrap_or(Order::Created);
        Ok(self.page(tenant, order, numbers)?)
    }

    fn page<'a>(
        &'a self,
        tenant: &'a Tenant,
        order: Order,
        (take, skip): (u64, u64),
    ) -> Result<Listing<'a>, ApiError> {
        for (name, text) in [("query", &self.query), ("trigger", &self.trigger), ("tag", &self.tag)] {
            if text.contains('\0') {
                let problem = format!("cannot process request: {name} holds the character U+0000");
                return Err(ApiError::bad_request(problem));
            }
        }
        let filter = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Ok(Listing {
            tenant: tenant.as_str(),
            query: &self.query,
            outcome: outcome(&self.outcome)?,
            trigger: filter(&self.trigger),
            tag: filter(&self.tag),
            order,
            ascending: self.sort_direction.eq_ignore_ascii_case("asc"),
            take: if take == 0 { TAKE } else { take.min(MOST) },
            skip,
        })
    }
}

/// The outcome of a latest run that has ended.
fn outcome(text: &str) -> Result<Option<&'static str>, ApiError> {
    let known = Outcome::OF_RUNS.map(Outcome::as_str);
    match known.into_iter().find(|known| *known == text) {
        None if !text.is_empty() => Err(ApiError::bad_request(format!(
            "cannot process request: outcome is `{text}`; it is one of {}",
            known.join(", ")
        ))),
        outcome => Ok(outcome),
    }
}

fn number(kind: Kind, name: &str, text: &str) -> Result<u64, ApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    let number: i64 = text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "cannot process request: error reading {name} param: '{text}' is not a number"
        ))
    })?;
    match u64::try_from(number) {
        Ok(number) => Ok(number),
        // A singleton is on every page.
        Err(_) if kind.is_singleton() => Ok(0),
        Err(_) => Err(ApiError::bad_request(format!("cannot process request: {name} must not be negative"))),
    }
}

/// The orders that a kind can be sorted by.
pub(in crate::serve::api) const fn sorts(kind: Kind) -> &'static [(&'static str, Order)] {
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

/// The named order of a kind, or its first one by default.
fn order(kind: Kind, name: &str) -> Option<Order> {
    let found = sorts(kind).iter().find(|(known, _)| name.is_empty() || *known == name);
    found.map(|(_, order)| *order)
}
