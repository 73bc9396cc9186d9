//! Databases that cannot be opened: the error says why, and what to do.

use std::error::Error as _;
use std::path::Path;

use qualitytrace_server::storage::store::Store;
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::databases::Database;

async fn check(url: &str, expected: &str) {
    let error = Store::open(url).await.unwrap_err();
    assert!(error.source().is_none(), "nothing is said twice");
    assert_eq!(error.to_string(), format!("the database {url} cannot be opened: {expected}"));
}

fn file(folder: &Path) -> String {
    format!("sqlite://{}", folder.join("test.db").display())
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("test.db"), "no database ".repeat(1000)).unwrap();
    let expected =
        "file is not a database; name another file, or put back a backup with `qualitytrace restore --force`";
    check(&file(folder.path()), expected).await;
    let expected = "unable to open database file; check that its folder is there, and that the server's user may \
                    write to it";
    check(&file(&folder.path().join("nowhere")), expected).await;
}

#[tokio::test]
async fn a_damaged_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    Store::open(&file(folder.path())).await.unwrap().close().await;
    let path = folder.path().join("test.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100..].fill(0xaa);
    std::fs::write(&path, bytes).unwrap();
    let expected = "database disk image is malformed; it is damaged: check the disk, see with `qualitytrace verify` how far it \
                    goes, and put back a backup with `qualitytrace restore --force`";
    check(&file(folder.path()), expected).await;
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_named() {
    let newer =
        "it was written by a newer version of qualitytrace; start that version, or name another database";
    let file = Database::file();
    for database in [Some(file), Database::postgres().await].into_iter().flatten() {
        database.open().await.close().await;
        let mut connection = sqlx::AnyConnection::connect(&database.url).await.unwrap();
        let none = if database.url.starts_with("sqlite") { "x''" } else { "''" };
        let text = format!(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (99999999999999, 'later', true, {none}, 0)"
        );
        connection.execute(AssertSqlSafe(text)).await.unwrap();
        connection.close().await.unwrap();
        check(&database.url, newer).await;
    }
}

#[tokio::test]
async fn a_postgresql_that_is_not_there_is_named() {
    let url = format!("postgres://me@127.0.0.1:{}/x", qualitytrace_testing::port());
    check(&url, "nothing listens there; start PostgreSQL, or correct the address").await;
    let Some(database) = Database::postgres().await else { return };
    let (server, _) = database.url.rsplit_once('/').unwrap();
    let expected = "database \"nowhere\" does not exist; create it with `createdb NAME`, or correct the name";
    check(&format!("{server}/nowhere"), expected).await;
}

#[cfg(unix)]
#[tokio::test]
async fn files_that_the_server_makes_are_its_owners_alone_and_others_stay_as_they_are() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&file(folder.path())).await.unwrap();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    names.sort_unstable();
    assert_eq!(names, ["test.db", "test.db-lock", "test.db-shm", "test.db-wal"]);
    store.close().await;
    let path = folder.path().join("test.db");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let again = Store::open(&file(folder.path())).await.unwrap();
    assert_eq!(mode(&path), 0o640);
    again.close().await;
}
