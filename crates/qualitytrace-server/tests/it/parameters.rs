//! Invalid parameters of paths and queries: the error message is our own.

use reqwest::StatusCode;

use crate::api::Bench;
use crate::databases::Database;

#[tokio::test]
async fn what_cannot_be_read_of_a_path_or_a_query_is_said_in_our_words() {
    let bench = Bench::new(&Database::memory()).await;
    for (path, expected) in [
        ("/api/audit?take=many", "`many` is no value of `take`; write a number"),
        ("/api/audit?take=-1", "`-1` is no value of `take`; write a number"),
        ("/api/audit?before=x", "`before` takes the `next` of an earlier page"),
        ("/api/tests/%ff", "the path `/api/tests/%ff` is no text once its `%` are decoded; encode UTF-8"),
        ("/api/traces/%ff", "the path `/api/traces/%ff` is no text once its `%` are decoded; encode UTF-8"),
    ] {
        let got = bench.get(path).await;
        assert_eq!(got.status, StatusCode::BAD_REQUEST, "{path}: {}", got.text);
        let said = got.json();
        assert_eq!((said["code"].as_u64(), said["error"].as_str()), (Some(400), Some(expected)), "{path}");
    }
    assert_eq!(bench.get("/api/audit?take=3").await.status, StatusCode::OK);
    bench.server.shutdown().await;
}
