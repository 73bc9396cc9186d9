//! Which page of a list, in which order.

use qualitytrace_core::definition::Kind;
use serde::Deserialize;

use crate::api::answer::Problem;
use crate::api::refusal::{Refusal, count};
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
        let (take, skip) = (number(kind, "take", &self.take)?, number(kind, "skip", &self.skip)?);
        let order = order(kind, &self.sort_by).ok_or_else(|| {
            Problem::bad_request(format!("cannot process request: invalid sort field: {}", self.sort_by))
        })?;
        self.page(kind, tenant, order, (take, skip))
    }

    /// The same, of tests and suites together: numbers are spelled as in the older half of the API, and who asks for an
    /// order that there is not gets the usual one.
    pub(in crate::api) fn of_everything<'a>(&'a self, tenant: &'a Tenant) -> Result<Listing<'a>, Refusal> {
        let numbers = (count("take", &self.take)?, count("skip", &self.skip)?);
        let order = order(Kind::Test, &self.sort_by).unwrap_or(Order::Created);
        Ok(self.page(Kind::Test, tenant, order, numbers)?)
    }

    fn page<'a>(
        &'a self,
        kind: Kind,
        tenant: &'a Tenant,
        order: Order,
        (take, skip): (u64, u64),
    ) -> Result<Listing<'a>, Problem> {
        if self.query.contains('\0') {
            return Err(Problem::bad_request("cannot process request: query holds the character U+0000"));
        }
        Ok(Listing {
            kind,
            tenant: tenant.as_str(),
            query: &self.query,
            order,
            ascending: self.sort_direction.eq_ignore_ascii_case("asc"),
            take: if take == 0 { TAKE } else { take.min(MOST) },
            skip,
        })
    }
}

fn number(kind: Kind, name: &str, text: &str) -> Result<u64, Problem> {
    if text.is_empty() {
        return Ok(0);
    }
    let number: i64 = text.parse().map_err(|_| {
        Problem::bad_request(format!(
            "cannot process request: error reading {name} param: '{text}' is not a number"
        ))
    })?;
    match u64::try_from(number) {
        Ok(number) => Ok(number),
        // What a server has one of is on every page.
        Err(_) if kind.is_singleton() => Ok(0),
        Err(_) => Err(Problem::bad_request(format!("cannot process request: {name} must not be negative"))),
    }
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
fn order(kind: Kind, name: &str) -> Option<Order> {
    let found = sorts(kind).iter().find(|(known, _)| name.is_empty() || *known == name);
    found.map(|(_, order)| *order)
}
