//! The variables of a run: what it was given, which of it is secret, and how it is kept with the run.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use qualitytrace_core::definition::secrets::MASK;
use qualitytrace_core::id::TraceId;
use serde_json::{Map, Value, json};

use crate::mask::Mask;
use crate::store::{Error, Store};

/// Variables of a run: names and values, in order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    pairs: Vec<(String, String)>,
    secret: BTreeSet<String>,
}

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

    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Sets a value. What was secret stays secret, and a mask means the value that is there.
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

    /// What must not be shown.
    pub fn mask(&self) -> Mask {
        Mask::of(self.secrets())
    }

    fn secrets(&self) -> impl Iterator<Item = &str> {
        let secret = self.pairs.iter().filter(|(name, _)| self.secret.contains(name));
        secret.map(|(_, value)| value.as_str())
    }

    /// The same without the secrets.
    #[must_use]
    pub fn masked(&self) -> Self {
        let shown = |(name, value): &(String, String)| {
            let value = if self.secret.contains(name) { MASK } else { value };
            (name.clone(), value.to_owned())
        };
        Self { pairs: self.pairs.iter().map(shown).collect(), secret: self.secret.clone() }
    }

    /// As they are kept with a run of a test: a JSON object, in which secrets are sealed.
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
        Ok(Value::Object(kept).to_string())
    }

    /// From what is kept with a run, without the secrets.
    pub fn shown(kept: &str) -> Self {
        let mut variables = Self::default();
        for (name, value) in objects(kept) {
            match value.as_str() {
                Some(value) => variables.set(&name, value, false),
                None => variables.set(&name, MASK, true),
            }
        }
        variables
    }

    /// From what is kept with a run, with the secrets.
    pub(crate) fn open(store: &Store, test: &str, kept: &str) -> Result<Self, Error> {
        let mut variables = Self::default();
        for (name, value) in objects(kept) {
            match value["secret"].as_str() {
                Some(sealed) => variables.set(&name, &store.unseal_variable(test, sealed)?, true),
                None => variables.set(&name, value.as_str().unwrap_or_default(), false),
            }
        }
        Ok(variables)
    }
}

/// What runs were given in secret, by the trace that they are about: the system under test may have written it there.
#[derive(Debug)]
pub(crate) struct Withheld<'s> {
    store: &'s Store,
    /// The test of each run, and its variables as they are kept.
    runs: HashMap<TraceId, Vec<(String, String)>>,
}

impl<'s> Withheld<'s> {
    /// What is withheld of these traces.
    pub(crate) async fn of(store: &'s Store, traces: &[TraceId]) -> Result<Self, Error> {
        let mut runs: HashMap<TraceId, Vec<(String, String)>> = HashMap::new();
        for (trace, test, kept) in store.secret_variables(traces).await? {
            runs.entry(trace).or_default().push((test, kept));
        }
        Ok(Self { store, runs })
    }

    /// Another number whenever something else is withheld of a trace.
    pub(crate) fn mark(&self, trace: TraceId) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.runs.get(&trace).hash(&mut hasher);
        hasher.finish()
    }

    /// What must not be shown of any of these traces.
    pub(crate) fn mask_of_all(&self) -> Result<Mask, Error> {
        let runs = self.runs.values().flatten();
        let variables: Vec<Variables> =
            runs.map(|(test, kept)| Variables::open(self.store, test, kept)).collect::<Result<_, _>>()?;
        Ok(Mask::of(variables.iter().flat_map(Variables::secrets)))
    }

    /// What must not be shown of a trace.
    pub(crate) fn mask(&self, trace: TraceId) -> Result<Mask, Error> {
        let runs = self.runs.get(&trace).into_iter().flatten();
        let variables: Vec<Variables> =
            runs.map(|(test, kept)| Variables::open(self.store, test, kept)).collect::<Result<_, _>>()?;
        Ok(Mask::of(variables.iter().flat_map(Variables::secrets)))
    }
}

/// What must not be shown of a trace.
pub(crate) async fn mask_of_trace(store: &Store, trace: TraceId) -> Result<Mask, Error> {
    Withheld::of(store, &[trace]).await?.mask(trace)
}

fn objects(kept: &str) -> Map<String, Value> {
    serde_json::from_str(kept).unwrap_or_default()
}

impl From<Vec<(String, String)>> for Variables {
    fn from(pairs: Vec<(String, String)>) -> Self {
        Self { pairs, secret: BTreeSet::new() }
    }
}

impl<'v> IntoIterator for &'v Variables {
    type Item = &'v (String, String);
    type IntoIter = std::slice::Iter<'v, (String, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
