//! Recorded requests to Tracetest, replayed against this server.

#[path = "../replay/suite.rs"]
mod suite;

#[tokio::test(flavor = "multi_thread")]
async fn recorded_requests_are_answered_as_recorded_or_as_the_list_of_differences_says() {
    let summary = suite::run(&suite::own_recordings()).await.unwrap();
    assert!(summary.is_good(), "{}\n{}\n{}", summary.render(), summary.reasons(), summary.deliberate());
}
