//! Conformance cases, with the answers of Tracetest.

#[path = "../conformance/suite.rs"]
mod suite;

#[test]
fn the_projects_own_cases_are_answered_as_expected() {
    let summary = suite::run(&suite::own_cases()).unwrap();
    assert!(summary.is_good(), "{}", summary.render());
}

#[test]
fn a_case_of_an_unknown_kind_fails() {
    let folder = tempfile::tempdir().unwrap();
    let case =
        r#"{"id":"odd-001","input":{"kind":"format-ns","ns":1},"sane":true,"upstream":{"text":"1ns"}}"#;
    let known = case.replace("format-ns", "format_ns").replace("odd", "even");
    let plain = r#"{"id":"none-001","input":{},"sane":true,"upstream":{}}"#;
    std::fs::write(folder.path().join("cases.json"), format!("[{case},{known},{plain}]")).unwrap();
    let summary = suite::run(folder.path()).unwrap();
    assert!(!summary.is_good());
    let counts = &summary.files["cases.json"];
    let failed: Vec<(&str, &str)> =
        counts.failed.iter().map(|(id, trouble)| (id.as_str(), trouble.as_str())).collect();
    let expected = [("odd-001", "the kind `format-ns` is unknown"), ("none-001", "the kind `` is unknown")];
    assert_eq!((counts.passed, failed.as_slice()), (1, &expected[..]));
}
