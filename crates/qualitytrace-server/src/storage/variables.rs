//! The variables of a run: their values, which of them are secret, and their stored form.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use qualitytrace_core::definition::Trigger;
use qualitytrace_core::definition::secrets::MASK;
use qualitytrace_core::id::TraceId;
use serde_json::{Map, Value, json};

use crate::base::redact::Redactor;
use crate::storage::store::{Error, Store};

/// Variables of a run: names and values, in order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    pairs: Vec<(String, String)>,
    secret: BTreeSet<String>,
    /// Secrets without a name: the credentials of the trigger.
    credentials: Vec<String>,
}

/// The name of the credentials in the stored form. No variable has it.
const CREDENTIALS: &str = "";

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.masked().pairs).finish()
    }
}

impl Variables {
    /// Names and values, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (String, String)> {
        self.pairs.iter()
    }

    /// Returns the value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Sets a value. A secret name stays secret; for it, `MASK` leaves the present value as it is.
    pub fn set(&mut self, name: &str, value: &str, is_secret: bool) {
        if is_secret {
            self.secret.insert(name.to_owned());
        }
        match self.pairs.iter_mut().find(|(known, _)| known == name) {
            Some(_) if value == MASK && self.secret.contains(name) => {}
            Some((_, known)) => value.clone_into(known),
            None => self.pairs.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Whether this value must not be shown.
    pub fn is_secret(&self, name: &str) -> bool {
        self.secret.contains(name)
    }

    /// Returns the redactor of the secret values.
    pub fn redactor(&self) -> Redactor {
        Redactor::of(self.secrets())
    }

    /// Adds the credentials of a trigger, which are hidden like secret values.
    #[must_use]
    pub(crate) fn with_credentials_of(mut self, trigger: Option<&Trigger>) -> Self {
        self.credentials = trigger.map(Trigger::credentials).unwrap_or_default();
        self
    }

    /// Returns the secret values.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let secret = self.pairs.iter().filter(|(name, _)| self.secret.contains(name));
        secret.map(|(_, value)| value.as_str()).chain(self.credentials.iter().map(String::as_str))
    }

    /// Returns a copy with secret values redacted.
    #[must_use]
    pub fn masked(&self) -> Self {
        let shown = |(name, value): &(String, String)| {
            let value = if self.secret.contains(name) { MASK } else { value };
            (name.clone(), value.to_owned())
        };
        let pairs = self.pairs.iter().map(shown).collect();
        Self { pairs, secret: self.secret.clone(), credentials: Vec::new() }
    }

    /// Serializes them for a run of a test: a JSON object in which secrets are sealed.
    pub(crate) async fn kept(&self, store: &Store, test: &str) -> Result<String, Error> {
        let mut kept = Map::new();
        for (name, value) in &self.pairs {
            let value = if self.secret.contains(name) {
                json!({ "secret": store.seal_variable(test, value).await? })
            } else {
                value.as_str().into()
            };
            kept.insert(name.clone(), value);
        }
        let mut credentials = Vec::new();
        for credential in &self.credentials {
            credentials.push(store.seal_variable(test, credential).await?);
        }
        if !credentials.is_empty() {
            kept.insert(CREDENTIALS.to_owned(), json!({ "secret": credentials }));
        }
        Ok(Value::Object(kept).to_string())
    }

    /// Reads the stored form of a run; secrets are redacted.
    pub fn shown(kept: &str) -> Self {
        let mut variables = Self::default();
        for (name, value) in objects(kept).into_iter().filter(|(name, _)| name != CREDENTIALS) {
            match value.as_str() {
                Some(value) => variables.set(&name, value, false),
                None => variables.set(&name, MASK, true),
            }
        }
        variables
    }

    /// Reads the stored form of a run and unseals the secrets.
    pub(crate) fn open(store: &Store, test: &str, kept: &str) -> Result<Self, Error> {
        let mut variables = Self::default();
        for (name, value) in objects(kept) {
            let unsealed = |sealed: &str| store.unseal_variable(test, sealed);
            match &value["secret"] {
                Value::String(sealed) => variables.set(&name, &unsealed(sealed)?, true),
                Value::Array(sealed) => {
                    let sealed = sealed.iter().filter_map(Value::as_str);
                    variables.credentials = sealed.map(unsealed).collect::<Result<_, _>>()?;
                }
                _ => variables.set(&name, value.as_str().unwrap_or_default(), false),
            }
        }
        Ok(variables)
    }
}

/// The secret variables of runs, by the trace of the run: the system under test may have written them into its spans.
pub(crate) struct RunSecrets<'s> {
    store: &'s Store,
    /// The test of each run, and its variables in their stored form.
    runs: HashMap<TraceId, Vec<(String, String)>>,
    /// The secrets of triggers that were sent without a run.
    without_run: HashMap<TraceId, Vec<String>>,
}

impl<'s> RunSecrets<'s> {
    /// Loads the secret variables of all runs of these traces.
    pub(crate) async fn of(store: &'s Store, traces: &[TraceId]) -> Result<Self, Error> {
        let mut runs: HashMap<TraceId, Vec<(String, String)>> = HashMap::new();
        for (trace, test, kept) in store.secret_variables(traces).await? {
            runs.entry(trace).or_default().push((test, kept));
        }
        Ok(Self { store, runs, without_run: store.withheld(traces) })
    }

    /// Returns a hash that changes whenever the secret variables of a trace change.
    pub(crate) fn mark(&self, trace: TraceId) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.runs.get(&trace).hash(&mut hasher);
        self.without_run.get(&trace).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns one redactor for the secrets of all these traces.
    pub(crate) fn redactor_of_all(&self) -> Result<Redactor, Error> {
        self.redactor_of(self.runs.values().flatten(), self.without_run.values().flatten())
    }

    /// Returns the redactor for the secrets of one trace.
    pub(crate) fn redactor(&self, trace: TraceId) -> Result<Redactor, Error> {
        let runs = self.runs.get(&trace).into_iter().flatten();
        self.redactor_of(runs, self.without_run.get(&trace).into_iter().flatten())
    }

    /// Returns the redactor for a trace in a list. `None` when no key opens the secrets of the trace: the list must
    /// leave it out then.
    pub(crate) fn redactor_in_list(&self, trace: TraceId) -> Option<Redactor> {
        let warn = |error: &Error| {
            let trace = trace.to_string();
            tracing::warn!(trace, error = error as &dyn std::error::Error, "a trace is left out of a list");
        };
        self.redactor(trace).inspect_err(warn).ok()
    }

    fn redactor_of<'a>(
        &self,
        runs: impl Iterator<Item = &'a (String, String)>,
        without_run: impl Iterator<Item = &'a String>,
    ) -> Result<Redactor, Error> {
        let variables: Vec<Variables> =
            runs.map(|(test, kept)| Variables::open(self.store, test, kept)).collect::<Result<_, _>>()?;
        let mut secrets: Vec<&str> = variables.iter().flat_map(Variables::secrets).collect();
        for secret in without_run {
            secrets.push(secret);
        }
        Ok(Redactor::of(secrets))
    }
}

/// Returns the redactor for the secrets of one trace.
pub(crate) async fn redactor_of_trace(store: &Store, trace: TraceId) -> Result<Redactor, Error> {
    RunSecrets::of(store, &[trace]).await?.redactor(trace)
}

fn objects(kept: &str) -> Map<String, Value> {
    serde_json::from_str(kept).unwrap_or_default()
}

impl From<Vec<(String, String)>> for Variables {
    fn from(pairs: Vec<(String, String)>) -> Self {
        Self { pairs, ..Self::default() }
    }
}

impl<'v> IntoIterator for &'v Variables {
    type Item = &'v (String, String);
    type IntoIter = std::slice::Iter<'v, (String, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
