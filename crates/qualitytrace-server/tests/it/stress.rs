//! A small stress test with concurrent clients. `cargo xtask stress` runs a larger one.

#[path = "../stress/crowd.rs"]
mod crowd;

use crate::databases::Database;
use crowd::Until;

async fn nothing_is_lost(database: &Database) {
    let report = crowd::stress(&database.url, 8, Until::Rounds(4)).await.unwrap();
    assert!(report.wrong.is_empty(), "{:#?}\n{}", report.wrong, report.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_at_once_lose_nothing_in_a_file() {
    nothing_is_lost(&Database::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_at_once_lose_nothing_in_memory() {
    nothing_is_lost(&Database::named_memory()).await;
}

mod postgres {
    #[tokio::test(flavor = "multi_thread")]
    async fn clients_at_once_lose_nothing() {
        if let Some(database) = crate::databases::Database::postgres().await {
            super::nothing_is_lost(&database).await;
        }
    }
}
