//! Default resources of a server.

use super::{
    Analyzer, Config, DataStore, Demo, Kind, PollingProfile, Resource, Test, TestRunner, TestSuite,
    VariableSet,
};

/// Returns the default resource of this kind; an empty one where there is no default.
pub fn default_of(kind: Kind) -> Resource {
    match kind {
        Kind::Test => Resource::Test(Test::default()),
        Kind::TestSuite => Resource::TestSuite(TestSuite::default()),
        Kind::VariableSet => Resource::VariableSet(VariableSet::default()),
        Kind::DataStore => Resource::DataStore(DataStore::default()),
        Kind::PollingProfile => Resource::PollingProfile(PollingProfile::default()),
        Kind::Analyzer => Resource::Analyzer(Analyzer::default()),
        Kind::TestRunner => Resource::TestRunner(TestRunner::default()),
        Kind::Config => Resource::Config(Config { analytics_enabled: true }),
        Kind::Demo => Resource::Demo(Demo::default()),
    }
}
