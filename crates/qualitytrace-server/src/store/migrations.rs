//! The migrations of the tables, part of the program.
//!
//! `sqlx::migrate!` would do the same, but its macros compile both database drivers once more for the build host.

use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Embeds files of the folder `migrations` by their names without extension.
macro_rules! embedded {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../migrations/", $name, ".sql")))),+]
    };
}

/// The name and the SQL text of each migration. What was released is never changed: databases keep its checksum.
const MIGRATIONS: [(&str, &str); 5] = embedded![
    "0001_traces_tests_runs",
    "0002_removals_and_counts",
    "0003_secret_outputs",
    "0004_never_run",
    "0005_clients_and_audit",
];

/// All migrations, in order.
pub(super) fn migrator() -> Migrator {
    Migrator::with_migrations(MIGRATIONS.into_iter().filter_map(migration).collect())
}

/// The latest migration that this program knows.
pub(super) fn latest() -> i64 {
    migrator().iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Reads version and description off the name, as sqlx does: `0004_never_run` is version 4, `never run`.
fn migration((name, sql): (&'static str, &'static str)) -> Option<Migration> {
    let (version, description) = name.split_once('_')?;
    let (version, description) = (version.parse().ok()?, description.replace('_', " ").into());
    Some(Migration::new(version, description, MigrationType::Simple, SqlStr::from_static(sql), false))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_embedded_and_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let files: BTreeSet<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let embedded: BTreeSet<String> = MIGRATIONS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(embedded, files);
        let versions: Vec<i64> = migrator().iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=latest()).collect::<Vec<_>>());
        assert_eq!(versions.len(), files.len());
    }
}
