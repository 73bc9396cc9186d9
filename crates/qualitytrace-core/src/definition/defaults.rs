//! What a server has when nothing was set up.

use super::{
    Analyzer, Config, DataStore, Demo, Kind, PollingProfile, Resource, Test, TestRunner, TestSuite,
    VariableSet,
};

/// The resource of this kind that holds until a user says otherwise; an empty one where there is no such thing.
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
