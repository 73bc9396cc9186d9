//! Operation of a server: backups, damage, full disks, and keys that change or are lost.

use std::path::Path;
use std::process::Output;

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::StatusCode;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use crate::kill::fresh_database;
use crate::late_spans_load::program::Served;
use crate::{client, program};

/// Runs the program to its end.
async fn run(arguments: &[&str]) -> (Output, String) {
    let mut command = tokio::process::Command::new(program());
    let output = command.args(arguments).env("NO_COLOR", "1").kill_on_drop(true).output().await.unwrap();
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, told)
}

/// The same; checks the exit code.
async fn ends(code: i32, arguments: &[&str]) -> String {
    let (output, told) = run(arguments).await;
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
    told
}

async fn put(server: &Served, path: &str, body: &Value) {
    let answer = client().put(server.url(path)).json(body).send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
}

/// Stores a set with a secret, a test, a finished run with a secret variable, and a trace; and a run of a test with a
/// password in its text, which fails.
async fn fill(server: &Served) {
    let value = json!({ "key": "K", "value": "hunter2-hunter2", "type": "secret" });
    let set = json!({ "type": "VariableSet", "spec": { "id": "set", "name": "set", "values": [value] } });
    put(server, "/api/variablesets", &set).await;
    let trigger = json!({ "type": "traceid", "traceid": { "id": "${var:TRACE}" } });
    let spec = json!({ "id": "t", "name": "T", "trigger": trigger, "skipTraceCollection": true });
    put(server, "/api/tests", &json!({ "type": "Test", "spec": spec })).await;
    let span = json!({
        "traceId": TRACE, "spanId": "00f067aa0ba902b7", "name": "work", "kind": 2,
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000100000000",
    });
    let spans = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    let sent = client().post(server.url("/v1/traces")).json(&spans).send().await.unwrap();
    assert_eq!(sent.status(), StatusCode::OK);
    let variables = json!([
        { "key": "TRACE", "value": TRACE }, { "key": "PASSWORD", "value": "hunter3-hunter3", "type": "secret" },
    ]);
    let run = client().post(server.url("/api/tests/t/run")).json(&json!({ "variables": variables }));
    assert_eq!(run.send().await.unwrap().status(), StatusCode::OK);
    let auth = json!({ "type": "basic", "basic": { "username": "me", "password": "hunter4-hunter4" } });
    let request = json!({ "method": "GET", "url": "http://127.0.0.1:1/", "auth": auth });
    let trigger = json!({ "type": "http", "httpRequest": request });
    let spec = json!({ "id": "u", "name": "U", "trigger": trigger, "skipTraceCollection": true });
    put(server, "/api/tests", &json!({ "type": "Test", "spec": spec })).await;
    let run = client().post(server.url("/api/tests/u/run")).json(&json!({}));
    assert_eq!(run.send().await.unwrap().status(), StatusCode::OK);
    for test in ["t", "u"] {
        let events = client().get(server.url(&format!("/api/tests/{test}/run/1/events/stream"))).send().await;
        events.unwrap().text().await.unwrap();
    }
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const FILLED: [&str; 6] = [
    "/api/variablesets/set",
    "/api/tests/t",
    "/api/tests/t/run/1",
    "/api/tests/u",
    "/api/tests/u/run/1",
    "/api/traces/0af7651916cd43dd8448eb211c80319c",
];

/// The responses of a server as JSON, without volatile times.
async fn answers(server: &Served) -> Vec<Value> {
    let mut answers = Vec::new();
    for path in FILLED {
        let answer = client().get(server.url(path)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        answers.push(answer.json().await.unwrap());
    }
    answers
}

fn url(folder: &Path, name: &str) -> String {
    format!("sqlite://{}", folder.join(name).display())
}

#[tokio::test]
async fn a_backup_of_a_running_server_is_restored_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (url(folder.path(), "from.db"), url(folder.path(), "to.db"));
    moves(folder.path(), &from, &to).await;
}

#[tokio::test]
async fn a_backup_of_sqlite_is_restored_to_postgres_and_back() {
    let Some(postgres) = fresh_database().await else { return };
    let folder = tempfile::tempdir().unwrap();
    moves(folder.path(), &url(folder.path(), "from.db"), &postgres).await;
    let Some(postgres) = fresh_database().await else { return };
    let folder = tempfile::tempdir().unwrap();
    moves(folder.path(), &postgres, &url(folder.path(), "to.db")).await;
}

async fn moves(folder: &Path, from: &str, to: &str) {
    let key = folder.join("secrets.key");
    let key = ["--secrets.keyFile", key.to_str().unwrap()];
    let file = folder.join("backup");
    let file = file.to_str().unwrap();
    let server = Served::start(program(), from, &key).await;
    fill(&server).await;
    let before = answers(&server).await;
    let told = ends(0, &["backup", file, "--database-url", from]).await;
    assert!(told.contains("3 definitions, 2 runs, 1 parts of traces"), "{told}");
    let told = ends(1, &["backup", file, "--database-url", from]).await;
    assert!(told.contains("is there already"), "{told}");
    let told = ends(1, &["restore", file, "--force", "--database-url", from]).await;
    assert!(told.contains("work on the database"), "{told}");
    ends(0, &["verify", "--backup", file, "--database-url", from]).await;
    drop(server);

    ends(0, &["restore", file, "--database-url", to, key[0], key[1]]).await;
    let told = ends(1, &["restore", file, "--database-url", to]).await;
    assert!(told.contains("is not empty; --force replaces"), "{told}");
    let told = ends(0, &["verify", "--database-url", to, key[0], key[1]]).await;
    assert!(told.contains("✔ secrets"), "{told}");
    let server = Served::start(program(), to, &key).await;
    assert_eq!(answers(&server).await, before);
    drop(server);
    ends(0, &["restore", file, "--force", "--database-url", to, key[0], key[1]]).await;
    let names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.contains("partial") || name.contains("restoring")), "{names:?}");
}

#[tokio::test]
async fn a_damaged_backup_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (url(folder.path(), "from.db"), url(folder.path(), "to.db"));
    let server = Served::start(program(), &from, &[]).await;
    fill(&server).await;
    let file = folder.path().join("backup");
    ends(0, &["backup", file.to_str().unwrap(), "--database-url", &from]).await;
    let whole = std::fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() - 40] ^= 0xff;
    for (name, bytes, expected) in [
        ("half", &whole[..whole.len() / 2], "is damaged"),
        ("cut", &whole[..whole.len() - 1], "is damaged"),
        ("flipped", &flipped, "is damaged"),
        ("other", b"SQLite format 3\0", "is no backup of qualitytrace"),
        ("empty", b"", "is no backup of qualitytrace"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let told = ends(1, &["restore", path.to_str().unwrap(), "--database-url", &to]).await;
        assert!(told.contains(expected), "{name}: {told}");
        // Found damage is a result; a file that never was a backup cannot be checked.
        let code = if expected == "is damaged" { 2 } else { 1 };
        let told = ends(code, &["verify", "--backup", path.to_str().unwrap(), "--database-url", &to]).await;
        assert!(told.contains(expected), "{name}: {told}");
        assert!(!folder.path().join("to.db").exists(), "{name}");
    }
    let told = ends(1, &["backup", "/nowhere/backup", "--database-url", &from]).await;
    assert!(told.contains("failed to create /nowhere/backup"), "{told}");
    let told = ends(1, &["backup", "b", "--database-url", &url(folder.path(), "none.db")]).await;
    assert!(told.contains("there is no database"), "{told}");
    let told = ends(1, &["backup", "b", "--database-url", "sqlite::memory:"]).await;
    assert!(told.contains("a database in memory ends with its server"), "{told}");
    std::fs::write(folder.path().join("odd.db"), "no database at all").unwrap();
    let told = ends(2, &["verify", "--database-url", &url(folder.path(), "odd.db")]).await;
    assert!(told.contains("✘") && told.contains("not a database"), "{told}");
}

#[tokio::test]
async fn a_backup_of_damaged_rows_is_told_of_when_it_is_made_and_when_it_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let database = url(folder.path(), "d.db");
    let server = Served::start(program(), &database, &[]).await;
    fill(&server).await;
    drop(server);
    // The process that closes the file last checkpoints the WAL.
    ends(0, &["verify", "--database-url", &database]).await;
    let file = folder.path().join("d.db");
    let whole = std::fs::read(&file).unwrap();
    let place = |part: &[u8]| whole.windows(part.len()).position(|window| window == part).unwrap();
    let trace: Vec<u8> =
        (0..32).step_by(2).map(|at| u8::from_str_radix(&TRACE[at..at + 2], 16).unwrap()).collect();
    // The length before the stored chunk of the trace, and the beginning of an event.
    let span = place(&[&[0x0a, 16][..], &trace].concat());
    let event = place(b"\"what\":\"created\"");
    let harms = [
        (span - 12..span, 0, "what arrived of trace 0af7651916cd43dd8448eb211c80319c cannot be unpacked"),
        (event..event + 8, b'~', "is no JSON"),
    ];
    for (number, (range, byte, expected)) in harms.into_iter().enumerate() {
        let mut bytes = whole.clone();
        bytes[range].fill(byte);
        std::fs::write(&file, bytes).unwrap();
        let backup = folder.path().join(format!("backup{number}"));
        let backup = backup.to_str().unwrap();
        let database = ["--database-url", &*database];
        for command in [&["backup", backup][..], &["verify", "--backup", backup]] {
            let arguments = [command, &database[..]].concat();
            let told = ends(2, &arguments).await;
            assert!(told.contains(expected), "{told}");
        }
    }
}

#[tokio::test]
async fn a_restore_without_the_key_is_in_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (url(folder.path(), "from.db"), url(folder.path(), "to.db"));
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (key, other, backup) = (path("right.key"), path("other.key"), path("backup"));
    let server = Served::start(program(), &from, &["--secrets.keyFile", &key]).await;
    fill(&server).await;
    ends(0, &["backup", &backup, "--database-url", &from]).await;
    drop(server);
    let told = ends(0, &["restore", &backup, "--database-url", &to, "--secrets.keyFile", &other]).await;
    assert!(told.contains("warning"), "{told}");
    let server = Served::start(program(), &to, &["--secrets.keyFile", &key]).await;
    let changes = client().get(server.url("/api/audit")).send().await.unwrap().text().await.unwrap();
    assert!(changes.contains("\"restore\"") && changes.contains(&backup), "{changes}");
}

#[tokio::test]
async fn a_damaged_page_is_told_at_the_start_and_by_verify() {
    let folder = tempfile::tempdir().unwrap();
    let database = url(folder.path(), "damaged.db");
    let file = folder.path().join("damaged.db");
    let backup = folder.path().join("backup");
    let server = Served::start(program(), &database, &[]).await;
    for number in 0..200 {
        let id = format!("set{number}");
        let values = [json!({ "key": "K", "value": "x".repeat(2_000) })];
        let set = json!({ "type": "VariableSet", "spec": { "id": id, "name": id, "values": values } });
        put(&server, "/api/variablesets", &set).await;
    }
    ends(0, &["backup", backup.to_str().unwrap(), "--database-url", &database]).await;
    drop(server);
    // The process that closes the file last checkpoints the WAL.
    ends(0, &["verify", "--database-url", &database]).await;
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 8192 / 2 * 8192;
    bytes[middle..middle + 64].fill(0xff);
    std::fs::write(&file, bytes).unwrap();
    let quiet = ["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    let told = ends(1, &[&["serve"][..], &quiet, &["--database-url", &database]].concat()).await;
    assert!(told.contains("it is damaged"), "{told}");
    assert!(told.contains("qualitytrace verify") && told.contains("qualitytrace restore"), "{told}");
    let told = ends(2, &["verify", "--database-url", &database]).await;
    assert!(told.contains("✘ pages"), "{told}");
    let restored =
        ends(0, &["restore", backup.to_str().unwrap(), "--force", "--database-url", &database]).await;
    assert!(restored.contains("is kept as"), "{restored}");
    let server = Served::start(program(), &database, &[]).await;
    let got = client().get(server.url("/api/variablesets/set199")).send().await.unwrap();
    assert_eq!(got.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_full_disk_is_not_ready_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("full.db");
    let server = Served::start(program(), &url(folder.path(), "full.db"), &[]).await;
    let ready = async || client().get(server.url("/readyz")).send().await.unwrap().status();
    let limit = |bytes| {
        let id = Pid::from_raw(i32::try_from(server.child.id().unwrap()).unwrap());
        prlimit(id, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    };
    assert_eq!(ready().await, StatusCode::OK);
    let log = std::fs::metadata(format!("{}-wal", database.display())).unwrap().len();
    limit(Some(log));
    // A successful write counts for a second.
    eventually(DEADLINE, "a server with a full disk is not ready", async || ready().await != StatusCode::OK)
        .await;
    limit(None);
    assert_eq!(ready().await, StatusCode::OK);
}

#[tokio::test]
async fn sqlite_keys_are_changed_and_lost() {
    let folder = tempfile::tempdir().unwrap();
    keys(folder.path(), &url(folder.path(), "keys.db")).await;
}

#[tokio::test]
async fn a_mistyped_key_file_is_no_lost_key() {
    let folder = tempfile::tempdir().unwrap();
    let database = url(folder.path(), "qualitytrace.db");
    let data = folder.path().to_str().unwrap();
    let server = Served::start(program(), &database, &["--data-dir", data]).await;
    fill(&server).await;
    drop(server);
    assert!(folder.path().join("secrets.key").exists());
    let place = ["--database-url", &database, "--data-dir", data];
    let mistyped = ["--secrets.keyFile", "typo.key"];
    let told = ends(1, &[&["secrets", "forget", "--yes"], &place[..], &mistyped[..]].concat()).await;
    assert!(told.contains("the key file typo.key is not there, but"), "{told}");
    let told = ends(0, &[&["secrets", "forget", "--yes"], &place[..]].concat()).await;
    assert!(told.contains("every encrypted value can be decrypted"), "{told}");
}

#[tokio::test]
async fn postgres_keys_are_changed_and_lost() {
    let Some(database) = fresh_database().await else { return };
    let folder = tempfile::tempdir().unwrap();
    keys(folder.path(), &database).await;
}

async fn keys(folder: &Path, database: &str) {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (first, second, third) = (path("first.key"), path("second.key"), path("third.key"));
    let server = Served::start(program(), database, &["--secrets.keyFile", &first]).await;
    fill(&server).await;
    let before = answers(&server).await;
    drop(server);

    // A running server reseals everything; afterwards the first key is not needed.
    let both = ["--secrets.keyFile", &second, "--secrets.previousKeyFile", &first];
    let mut server = Served::start(program(), database, &both).await;
    server.logged("everything is encrypted with the current key").await;
    assert_eq!(answers(&server).await, before);
    drop(server);
    let server = Served::start(program(), database, &["--secrets.keyFile", &second]).await;
    assert_eq!(answers(&server).await, before);
    drop(server);
    let told = ends(2, &["verify", "--database-url", database, "--secrets.keyFile", &first]).await;
    assert!(told.contains("VariableSet `set` was encrypted with another key"), "{told}");

    // The command does the same.
    let told =
        ends(1, &["secrets", "reseal", "--database-url", database, "--secrets.keyFile", &second]).await;
    assert!(told.contains("no previous key is named"), "{told}");
    let arguments = ["--secrets.keyFile", &third, "--secrets.previousKeyFile", &second];
    ends(0, &[&["secrets", "reseal", "--database-url", database], &arguments[..]].concat()).await;
    ends(0, &["verify", "--database-url", database, "--secrets.keyFile", &third]).await;

    // The key is lost: what it seals is named, then dropped, and all else stays.
    std::fs::remove_file(&third).unwrap();
    let lost = ["--database-url", database, "--secrets.keyFile", &third];
    let told = ends(0, &[&["secrets", "forget"], &lost[..]].concat()).await;
    assert!(told.contains("lost VariableSet `set`"), "{told}");
    for test in ["t", "u"] {
        assert!(told.contains(&format!("lost the secret variables of run 1 of Test `{test}`")), "{told}");
    }
    ends(0, &[&["secrets", "forget", "--yes"], &lost[..]].concat()).await;
    ends(0, &[&["verify"], &lost[..]].concat()).await;
    let server = Served::start(program(), database, &lost[2..]).await;
    for (path, expected) in FILLED.iter().zip([200, 200, 200, 200, 200, 404]) {
        let got = client().get(server.url(path)).send().await.unwrap();
        assert_eq!(got.status().as_u16(), expected, "{path}: {}", got.text().await.unwrap());
    }
    fill(&server).await;
}

#[tokio::test]
async fn a_backup_that_is_interrupted_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let database = url(folder.path(), "big.db");
    let server = Served::start(program(), &database, &[]).await;
    for number in 0..40 {
        let id = format!("set{number}");
        // Hardly compressible.
        let value = (0..20_000).map(|_| format!("{:x}", rand_digit())).collect::<Vec<_>>().concat();
        let values = [json!({ "key": "K", "value": value })];
        let set = json!({ "type": "VariableSet", "spec": { "id": id, "name": id, "values": values } });
        put(&server, "/api/variablesets", &set).await;
    }
    let file = folder.path().join("out").join("backup");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    let mut child = tokio::process::Command::new(program())
        .args(["backup", file.to_str().unwrap(), "--database-url", &database])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let id = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    // It may end before it is interrupted: then the file is complete, else there is none.
    eventually(DEADLINE, "the backup begins", async || {
        std::fs::read_dir(file.parent().unwrap()).unwrap().next().is_some()
    })
    .await;
    let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
    let code = child.wait().await.unwrap().code();
    let left: Vec<_> = std::fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert!(code == Some(0) && left.len() == 1 || code == Some(130) && left.is_empty(), "{code:?} {left:?}");
}

fn rand_digit() -> u8 {
    uuid::Uuid::new_v4().as_bytes()[0] & 15
}
