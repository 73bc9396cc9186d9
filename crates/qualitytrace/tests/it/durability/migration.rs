//! A migration that is killed at several moments, and a database of a newer program.

use std::path::Path;

use qualitytrace_testing::{DEADLINE, within};
use serde_json::{Value, json};
use sqlx::migrate::Migrator;
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _};
use tokio::process::Command;

use super::under_strace;
use crate::kill::fresh_database;
use crate::late_spans_load::program::Served;
use crate::power::strace;
use crate::program;

/// The last migration of the earlier program.
const EARLIER: i64 = 5;
/// Its runs: enough for migrations that write for a while.
const RUNS: i64 = 20_000;
const QUIET: [&str; 6] = ["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];

/// Makes a database as an earlier version of the program left it, with many runs of a test; every third one failed.
async fn make_earlier(url: &str) {
    sqlx::any::install_default_drivers();
    let folder = tempfile::tempdir().unwrap();
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../qualitytrace-server/migrations");
    for file in std::fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()) {
        let name = file.file_name().unwrap().to_str().unwrap();
        if name[..4].parse::<i64>().unwrap() <= EARLIER {
            std::fs::copy(&file, folder.path().join(name)).unwrap();
        }
    }
    let mut connection = AnyConnection::connect(url).await.unwrap();
    let migrator = Migrator::new(folder.path()).await.unwrap();
    migrator.run_direct(None, &mut connection, false).await.unwrap();
    let trace = vec![7_u8; 16];
    let resource = "INSERT INTO resources VALUES ('Test', 't', '', 1, 1, 't', '', $1, $1, 1, '{}')";
    connection.execute(sqlx::query(resource).bind(trace.clone())).await.unwrap();
    for text in [
        "INSERT INTO runs (test_id, number, test_version, trace_id, state, created, variables, request, failed, turn, owner)
         SELECT 't', i, 1, $1, 'FINISHED', i, '{}', '{}', CASE WHEN i % 3 = 0 THEN 1 ELSE 0 END, i, '' FROM n",
        "INSERT INTO run_events (test_id, number, seq, at, body)
         SELECT 't', i, 1, i + 7 + 0 * LENGTH($1), '{\"what\":\"judged\",\"verdict\":{\"outcome\":\"passed\"}}' FROM n",
    ] {
        let text = format!(
            "WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < {RUNS}) {text}"
        );
        let insert = sqlx::query(AssertSqlSafe(text)).bind(trace.clone());
        connection.execute(insert).await.unwrap();
    }
    connection.close().await.unwrap();
}

/// Starts the program under strace until it is killed, or up. Returns whether it was killed before it was up.
async fn is_killed(traced: &Path, url: &str) -> bool {
    let mut command = Command::new(traced);
    command.arg("serve").args(QUIET).args(["--database-url", url]).kill_on_drop(true);
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stdout.take().unwrap()));
    let first = within(DEADLINE, "the server is up, or killed", lines.next_line()).await.unwrap();
    child.kill().await.unwrap();
    first.is_none()
}

/// Starts the program on what is left, and checks that the migration is complete and nothing is lost.
async fn check(url: &str) {
    let server = Served::start(program(), url, &[]).await;
    let client = crate::client();
    let listed = client.get(server.url("/api/runs?outcome=failed&take=200")).send().await.unwrap();
    let listed: Value = listed.error_for_status().unwrap().json().await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 200, "{listed}");
    let set = json!({ "type": "VariableSet", "spec": { "id": "new", "name": "new", "values": [] } });
    let put = client.put(server.url("/api/variablesets")).json(&set).send().await.unwrap();
    put.error_for_status().unwrap();
    drop(server);
    let mut connection = AnyConnection::connect(url).await.unwrap();
    let count = "SELECT COUNT(*) FROM runs WHERE outcome = CASE WHEN number % 3 = 0 THEN 'failed' ELSE 'passed' END AND duration = 7";
    let migrated: i64 = sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap();
    assert_eq!(migrated, RUNS);
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_migration_of_a_file_that_is_killed_goes_on_with_the_next_start() {
    let Some(strace) = strace() else { return };
    let folder = tempfile::tempdir().unwrap();
    let earlier = folder.path().join("earlier.db");
    make_earlier(&format!("sqlite://{}?mode=rwc", earlier.display())).await;
    let mut killed = 0;
    for (call, times) in
        [("pwrite64", &[1, 2, 3, 9, 40, 200, 700, 1_500, 2_500][..]), ("fdatasync", &[1, 2, 3])]
    {
        for when in times {
            let file = folder.path().join(format!("{call}-{when}.db"));
            std::fs::copy(&earlier, &file).unwrap();
            let url = format!("sqlite://{}", file.display());
            let kill = format!("-e trace={call} -e inject={call}:signal=SIGKILL:when={when}");
            killed += usize::from(is_killed(&under_strace(&strace, folder.path(), &kill), &url).await);
            check(&url).await;
        }
    }
    assert!(killed >= 6, "the program was killed only {killed} times");
}

#[tokio::test]
async fn a_migration_of_postgres_that_is_killed_goes_on_with_the_next_start() {
    let Some(strace) = strace() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut killed = 0;
    for when in [4, 8, 12, 16, 24, 32] {
        let Some(url) = fresh_database().await else { return };
        make_earlier(&url).await;
        let kill = format!("-e trace=sendto -e inject=sendto:signal=SIGKILL:when={when}");
        killed += usize::from(is_killed(&under_strace(&strace, folder.path(), &kill), &url).await);
        check(&url).await;
    }
    assert!(killed >= 3, "the program was killed only {killed} times");
}

#[tokio::test]
async fn a_file_of_a_newer_program_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    refuses_a_newer_database(&format!("sqlite://{}", folder.path().join("newer.db").display())).await;
}

#[tokio::test]
async fn a_postgres_of_a_newer_program_is_refused_and_stays_as_it_is() {
    if let Some(database) = fresh_database().await {
        refuses_a_newer_database(&database).await;
    }
}

/// The commands that would work on it say that it is newer; afterwards, the newer program finds everything.
async fn refuses_a_newer_database(url: &str) {
    sqlx::any::install_default_drivers();
    let client = crate::client();
    let server = Served::start(program(), url, &[]).await;
    assert_eq!(crate::full_disk::store(&client, &server, 0).await, [true; 2]);
    drop(server);
    let mut connection = AnyConnection::connect(url).await.unwrap();
    let insert = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                  VALUES (9999, 'later', true, $1, 0)";
    connection.execute(sqlx::query(insert).bind(vec![7_u8; 48])).await.unwrap();
    connection.execute("ALTER TABLE runs ADD COLUMN later BIGINT NOT NULL DEFAULT 0").await.unwrap();
    connection.close().await.unwrap();

    let backup = tempfile::tempdir().unwrap();
    let backup = backup.path().join("backup");
    let commands: [(&[&str], i32, &str); 4] = [
        (
            &QUIET,
            1,
            "it was written by a newer version of qualitytrace; start that version, or name another database",
        ),
        (&[], 2, "which is newer than this program"),
        (&[backup.to_str().unwrap()], 1, "newer"),
        (&["forget", "--yes"], 1, "newer"),
    ];
    for (name, (arguments, code, expected)) in ["serve", "verify", "backup", "secrets"].iter().zip(commands) {
        let mut command = Command::new(program());
        command.arg(name).args(arguments).args(["--database-url", url]).kill_on_drop(true);
        let ended = within(DEADLINE, format!("`{name}` ends"), command.output()).await.unwrap();
        let told =
            [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert_eq!(ended.status.code(), Some(code), "{name}: {told}");
        assert!(told.contains(expected), "{name}: {told}");
    }

    let mut connection = AnyConnection::connect(url).await.unwrap();
    connection.execute("DELETE FROM _sqlx_migrations WHERE version = 9999").await.unwrap();
    connection.execute("ALTER TABLE runs DROP COLUMN later").await.unwrap();
    connection.close().await.unwrap();
    let server = Served::start(program(), url, &[]).await;
    crate::full_disk::all_is_there(&client, &server, &[[true; 2]]).await;
}
