//! File permissions: the data of a server is readable by its owner only, since spans are stored as received, secrets
//! included.

use std::os::unix::fs::PermissionsExt as _;

use crate::late_spans_load::program::Served;
use crate::program;

#[tokio::test]
async fn the_data_folder_and_the_files_in_it_are_their_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("new").join("data");
    let database = format!("sqlite://{}", data.join("qualitytrace.db").display());
    let server = Served::start(program(), &database, &["--data-dir", data.to_str().unwrap()]).await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for name in ["qualitytrace.db", "qualitytrace.db-wal", "qualitytrace.db-shm"] {
        assert_eq!(mode(&data.join(name)), 0o600, "{name}");
    }
    drop(server);
}
