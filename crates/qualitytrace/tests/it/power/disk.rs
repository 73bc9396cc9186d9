//! The state of a disk after a power cut, derived from the system calls of a process (`strace -ff -ttt -T -y -xx`).
//!
//! A write is on the disk once a later `fsync` or `fdatasync` of its file has returned; the name of a file is once its
//! folder was synced. Everything else is lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The system calls that change files or sync them.
pub(crate) const CALLS: &str = "openat,pwrite64,write,ftruncate,fsync,fdatasync,link,linkat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat";

/// A system call that succeeded.
#[derive(Debug, Clone)]
struct Call {
    began: f64,
    ended: f64,
    name: String,
    arguments: String,
    result: i64,
}

/// All changes of files by a process.
#[derive(Debug)]
pub(crate) struct Record(Vec<Call>);

#[derive(Debug, Clone, Default)]
struct File {
    synced: Vec<u8>,
    /// Unsynced writes: their offset and bytes. An offset without bytes is a new length.
    pending: Vec<(usize, Option<Vec<u8>>)>,
}

/// What happens to unsynced writes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unsynced {
    /// None reached the disk.
    Lost,
    /// Every second one did: disks reorder writes.
    EverySecond,
    /// Of each, the first half of its sectors did: disks write sectors, not pages.
    Torn,
}

/// The bytes that a disk writes at once.
const SECTOR: usize = 512;

impl Record {
    /// Reads the logs `PREFIX.THREAD` of strace.
    pub(crate) fn read(prefix: &Path) -> Self {
        let folder = prefix.parent().unwrap();
        let name = format!("{}.", prefix.file_name().unwrap().to_str().unwrap());
        let logs = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let logs = logs.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&name));
        let mut calls: Vec<Call> = logs
            .flat_map(|log| {
                let text = String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned();
                text.lines().filter_map(call).collect::<Vec<_>>()
            })
            .collect();
        calls.sort_by(|one, other| one.began.total_cmp(&other.began));
        Self(calls)
    }

    /// How often files below this folder were synced within this time.
    pub(crate) fn syncs(&self, folder: &Path, (from, to): (f64, f64)) -> usize {
        let syncs = self.0.iter().filter(|call| matches!(&*call.name, "fsync" | "fdatasync"));
        let inside = syncs.filter(|call| call.began >= from && call.ended <= to);
        inside.filter(|call| descriptor(&call.arguments).is_some_and(|path| path.starts_with(folder))).count()
    }

    /// When the calls that change or sync files below this folder began, in order.
    pub(crate) fn times(&self, folder: &Path) -> Vec<f64> {
        let calls = self
            .0
            .iter()
            .filter(|call| descriptor(&call.arguments).is_some_and(|path| path.starts_with(folder)));
        calls.filter(|call| call.name != "openat").map(|call| call.began).collect()
    }

    /// Writes the on-disk content of `folder` at this time to `target`.
    pub(crate) fn cut(&self, folder: &Path, at: f64, unsynced: Unsynced, target: &Path) {
        let mut files: Vec<File> = Vec::new();
        let mut names: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let mut synced_names: BTreeMap<PathBuf, usize> = BTreeMap::new();
        // A sync takes effect when it returns, all else when it begins.
        let is_sync = |call: &Call| matches!(&*call.name, "fsync" | "fdatasync");
        let effect = |call: &Call| if is_sync(call) { call.ended } else { call.began };
        let mut calls: Vec<&Call> = self.0.iter().filter(|call| effect(call) <= at).collect();
        calls.sort_by(|one, other| effect(one).total_cmp(&effect(other)));
        for call in calls {
            let texts = texts(&call.arguments);
            let path = |at: usize| PathBuf::from(String::from_utf8_lossy(&texts[at]).into_owned());
            let opened = descriptor(&call.arguments);
            match &*call.name {
                "openat" if call.arguments.contains("O_CREAT") => {
                    names.entry(path(0)).or_insert_with(|| {
                        files.push(File::default());
                        files.len() - 1
                    });
                }
                "pwrite64" | "write" | "ftruncate" => {
                    let Some(file) = opened.and_then(|path| names.get(&path)) else { continue };
                    let file = &mut files[*file];
                    let last = || call.arguments.rsplit(',').next().unwrap().trim().parse::<usize>().unwrap();
                    match &*call.name {
                        "pwrite64" => file.pending.push((last(), Some(texts[0].clone()))),
                        // Only the key file is written so, whole and once.
                        "write" => file.pending.push((0, Some(texts[0].clone()))),
                        _ => file.pending.push((last(), None)),
                    }
                }
                "fsync" | "fdatasync" => {
                    let Some(path) = opened else { continue };
                    if let Some(file) = names.get(&path) {
                        let file = &mut files[*file];
                        let (covered, later) = (std::mem::take(&mut file.pending), Vec::new());
                        file.pending = later;
                        for write in covered {
                            apply(&mut file.synced, write);
                        }
                    } else {
                        synced_names.retain(|name, _| name.parent() != Some(&path));
                        let now = names.iter().filter(|(name, _)| name.parent() == Some(&path));
                        synced_names.extend(now.map(|(name, file)| (name.clone(), *file)));
                    }
                }
                "link" | "linkat" => {
                    if let Some(file) = names.get(&path(0)).copied() {
                        names.insert(path(1), file);
                    }
                }
                "rename" | "renameat" | "renameat2" => {
                    if let Some(file) = names.remove(&path(0)) {
                        names.insert(path(1), file);
                    }
                }
                "unlink" | "unlinkat" => drop(names.remove(&path(0))),
                _ => {}
            }
        }
        for (name, file) in synced_names.iter().filter(|(name, _)| name.starts_with(folder)) {
            let File { mut synced, pending } = files[*file].clone();
            match unsynced {
                Unsynced::Lost => {}
                Unsynced::EverySecond => {
                    pending.into_iter().step_by(2).for_each(|write| apply(&mut synced, write));
                }
                Unsynced::Torn => pending.into_iter().for_each(|write| apply(&mut synced, torn(write))),
            }
            let path = target.join(name.strip_prefix(folder).unwrap());
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, synced).unwrap();
        }
    }
}

fn apply(file: &mut Vec<u8>, (place, bytes): (usize, Option<Vec<u8>>)) {
    let Some(bytes) = bytes else { return file.resize(place, 0) };
    file.resize(file.len().max(place + bytes.len()), 0);
    file[place..place + bytes.len()].copy_from_slice(&bytes);
}

/// What is left of a write that a power cut interrupted. A new length is there or not; here it is.
fn torn((place, bytes): (usize, Option<Vec<u8>>)) -> (usize, Option<Vec<u8>>) {
    let half = |bytes: Vec<u8>| {
        let sectors = bytes.len().div_ceil(SECTOR);
        let length = (sectors / 2 * SECTOR).min(bytes.len());
        bytes[..length].to_vec()
    };
    (place, bytes.map(half))
}

/// Parses a line like `1731715200.000001 fdatasync(7</d/x.db-wal>) = 0 <0.000290>`.
fn call(line: &str) -> Option<Call> {
    let (began, rest) = line.split_once(' ')?;
    let (name, rest) = rest.trim_start().split_once('(')?;
    let (arguments, rest) = rest.rsplit_once(") ")?;
    let (result, took) = rest.trim_start().strip_prefix("= ")?.rsplit_once(" <")?;
    let digits: String = result.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    let began: f64 = began.parse().ok()?;
    let result: i64 = digits.parse().ok()?;
    let ended = began + took.trim_end_matches('>').parse::<f64>().ok()?;
    Some(Call { began, ended, name: name.to_owned(), arguments: arguments.to_owned(), result })
        .filter(|call| call.result >= 0)
}

/// The path of the first argument, a file descriptor.
fn descriptor(arguments: &str) -> Option<PathBuf> {
    let path = arguments.split_once('<')?.1.split_once('>')?.0;
    if path.contains("\\x") { Some(String::from_utf8(bytes(path)).ok()?.into()) } else { Some(path.into()) }
}

/// The quoted arguments.
fn texts(arguments: &str) -> Vec<Vec<u8>> {
    arguments.split('"').skip(1).step_by(2).map(bytes).collect()
}

/// Decodes `\x2f\x61`.
fn bytes(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|pair| u8::from_str_radix(&pair[..2], 16).unwrap()).collect()
}
