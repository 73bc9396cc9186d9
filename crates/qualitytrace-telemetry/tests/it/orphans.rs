//! Spools beside folders of other programs, and what is stored about their sinks.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use qualitytrace_telemetry::{Telemetry, config::Signal};
use qualitytrace_testing::{DEADLINE, eventually_blocking};

use crate::outage::{NOWHERE, balance, leave, named, owners, segments, settle, spans};

/// Writes files below a folder, whose names are paths.
fn write(folder: &Path, names: &[&str]) {
    for name in names {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "mine").unwrap();
    }
}

/// Waits for the end of a search for orphans: it finds the one that is there.
fn search(folder: &Path, orphan: &str) -> Telemetry {
    let telemetry = Telemetry::start(named(folder, "tracer.new", "http://127.0.0.1:2")).unwrap();
    eventually_blocking(DEADLINE, "the orphan is found", || {
        telemetry.status().orphans.iter().any(|found| found.sink.as_deref() == Some(orphan))
    });
    telemetry
}

#[test]
fn a_folder_of_another_program_beside_the_spools_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    leave(folder.path(), "tracer.old", 0..10);
    // Their names end like those of spools.
    let foreign = [
        "backup-20261117/pg/base",
        "backup-20261117/0/base",
        "backup-20261117/1/lock",
        "cache-deadbeef/16/lock",
    ];
    write(folder.path(), &foreign);
    fs::create_dir(folder.path().join("empty-20261117")).unwrap();
    fs::create_dir(folder.path().join("backup-20261117/2")).unwrap();
    let telemetry = search(folder.path(), "tracer.old");
    for name in foreign {
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap_or_default(), "mine", "{name}");
    }
    for name in ["empty-20261117", "backup-20261117/2"] {
        assert_eq!(fs::read_dir(folder.path().join(name)).unwrap().count(), 0, "{name}");
    }
    assert_eq!(fs::read_dir(folder.path().join("backup-20261117/0")).unwrap().count(), 1);
    telemetry.shutdown(Duration::ZERO);
}

#[test]
fn a_file_of_another_program_in_an_expired_spool_stays() {
    let folder = tempfile::tempdir().unwrap();
    leave(folder.path(), "tracer.old", 0..10);
    let slot = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path().join("0");
    for file in fs::read_dir(&slot).unwrap().map(|entry| entry.unwrap().path()) {
        let old = SystemTime::now() - Duration::from_hours(25);
        fs::File::options().write(true).open(file).unwrap().set_modified(old).unwrap();
    }
    write(&slot, &["notes", "dump/a.seg"]);
    let telemetry = Telemetry::start(named(folder.path(), "tracer.new", "http://127.0.0.1:2")).unwrap();
    eventually_blocking(DEADLINE, "the expired items are gone", || segments(&slot) == 1);
    eventually_blocking(DEADLINE, "the files of the spool are gone", || {
        fs::read_dir(&slot).unwrap().count() == 2
    });
    assert!(slot.join("notes").exists() && slot.join("dump/a.seg").exists());
    telemetry.shutdown(Duration::ZERO);
}

#[test]
fn the_file_that_names_a_sink_has_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let at = |id: &str, key: &str| {
        let mut config = named(folder.path(), id, NOWHERE);
        let url = format!("{NOWHERE}/v1/traces?api-key={key}");
        config.sinks[0].endpoints = [(Signal::Traces, url)].into();
        config
    };
    let telemetry = Telemetry::start(at("tracer.old", "hush")).unwrap();
    spans(&telemetry, 0..10);
    settle(&telemetry, 10);
    eventually_blocking(DEADLINE, "the spool has an owner", || owners(folder.path()) == 1);
    telemetry.shutdown(Duration::ZERO);
    drop(telemetry);
    let owner = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path().join("sink.json");
    let text = fs::read_to_string(owner).unwrap();
    assert!(text.contains("/v1/traces") && !text.contains("hush"), "{text}");
    // Addresses that differ in the secret are still different.
    let telemetry = Telemetry::start(at("tracer.other", "another")).unwrap();
    eventually_blocking(DEADLINE, "the orphan is found", || telemetry.status().orphans.len() == 1);
    telemetry.shutdown(Duration::ZERO);
    drop(telemetry);
    let telemetry = Telemetry::start(at("tracer.new", "hush")).unwrap();
    eventually_blocking(DEADLINE, "10 items are recovered", || balance(&telemetry).recovered == 10);
    telemetry.shutdown(Duration::ZERO);
}
