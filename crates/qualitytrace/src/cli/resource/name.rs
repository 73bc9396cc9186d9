//! Resource names on the command line.

use anyhow::bail;
use qualitytrace_core::definition::Kind;
use qualitytrace_core::lang::diagnostic::nearest;

/// Every name with its kind. The first name of a kind is the one that is shown.
const NAMES: [(&str, Kind); 12] = [
    ("analyzer", Kind::Analyzer),
    ("config", Kind::Config),
    ("datastore", Kind::DataStore),
    ("demo", Kind::Demo),
    ("pollingprofile", Kind::PollingProfile),
    ("test", Kind::Test),
    ("testrunner", Kind::TestRunner),
    ("testsuite", Kind::TestSuite),
    ("transaction", Kind::TestSuite),
    ("variableset", Kind::VariableSet),
    ("environment", Kind::VariableSet),
    ("env", Kind::VariableSet),
];
/// Names of resources that only the original's hosted service has.
const HOSTED: [&str; 6] =
    ["environmenttoken", "token", "invite", "organizationinvite", "monitor", "organization"];

/// A resource kind as named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) kind: Kind,
    /// The name for messages.
    pub(crate) word: &'static str,
}

impl Name {
    /// Looks up a name or its plural.
    pub(crate) fn of(word: &str) -> anyhow::Result<Self> {
        let asked = word.to_lowercase();
        let one = asked.strip_suffix('s').unwrap_or(&asked);
        let found = NAMES.iter().find(|(name, _)| *name == asked || *name == one);
        if let Some((_, kind)) = found {
            let shown = NAMES.iter().find(|(_, known)| known == kind).map_or("", |(name, _)| name);
            return Ok(Self { kind: *kind, word: shown });
        }
        if HOSTED.contains(&asked.as_str()) || HOSTED.contains(&one) {
            bail!("`{word}` belongs to the hosted service; a server of your own has {}", all());
        }
        match nearest(&asked, NAMES.iter().map(|(name, _)| *name)) {
            Some(near) => bail!("[resource] resource must be {}: did you mean `{near}`?", all()),
            None => bail!("[resource] resource must be {}", all()),
        }
    }

    /// The name, capitalised.
    pub(crate) fn title(self) -> String {
        let mut letters = self.word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
    }
}

/// The names for messages.
pub(crate) fn all() -> String {
    let mut shown: Vec<&str> = Vec::new();
    for (index, (name, kind)) in NAMES.iter().enumerate() {
        if NAMES[..index].iter().all(|(_, earlier)| earlier != kind) {
            shown.push(name);
        }
    }
    shown.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, expected: &str) {
        let found = Name::of(word).map_or_else(|error| error.to_string(), |name| name.word.to_owned());
        assert!(found.ends_with(expected), "{word}: {found}");
    }

    #[test]
    fn names_are_known_in_singular_and_plural_and_by_their_old_words() {
        check("test", "test");
        check("Tests", "test");
        check("transactions", "testsuite");
        check("environment", "variableset");
        check("tset", "did you mean `test`?");
        check("datastroe", "did you mean `datastore`?");
        check("banana", "testsuite|variableset");
        check("organization", "testsuite|variableset");
    }
}
