//! Conformance cases, with the answers of Tracetest.

#[path = "../conformance/suite.rs"]
mod suite;

#[test]
fn the_projects_own_cases_are_answered_as_expected() {
    let summary = suite::run(&suite::own_cases()).unwrap();
    assert!(summary.is_good(), "{}", summary.render());
}
