//! The backup file: written from a consistent snapshot of a database that may be in use, read into an empty one.
//!
//! The format is the same for SQLite and PostgreSQL. The first line is a header; the rest is zstd with a checksum:
//! tables with their column names, rows, and the number of rows at the end. Secrets stay sealed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt as _;
use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Executor as _, Row as _};

use super::check::Check;
use super::tables::{TABLES, Type, Value};
use crate::base::private_files;

/// The magic at the beginning of the first line.
const MAGIC: &str = "qualitytrace-backup 1 ";
/// The longest first line.
const LONGEST_HEADER: u64 = 4_096;
/// The longest value in bytes: no row comes near it, and a damaged length must not exhaust the memory.
const LONGEST_VALUE: u32 = 1 << 30;
/// The most columns of a table.
const MOST_COLUMNS: u16 = 64;
/// Rows between two progress reports.
const PROGRESS_ROWS: u64 = 1_000;
/// The compression level: traces are compressed already.
const LEVEL: i32 = 1;

/// Errors of writing or reading a backup.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The file cannot be written or read.
    #[error("failed to {operation} {}", path.display())]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The file exists already.
    #[error("{} is there already; name another file, or remove it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a backup.
    #[error("{} is no backup of qualitytrace; name a file that `qualitytrace backup` wrote", path.display())]
    NoBackup {
        /// The file.
        path: PathBuf,
    },
    /// The backup is incomplete or damaged.
    #[error("the backup {} is damaged: {why}; take another one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The backup was written by a newer version.
    #[error(
        "the backup {} was written by a newer version of qualitytrace ({version}); restore it with that version",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version that wrote it.
        version: String,
    },
    /// The database failed.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

/// The header of a backup.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Header {
    /// The version of the program that wrote it.
    pub version: String,
    /// The latest migration of its tables.
    pub migration: i64,
    /// When it was taken, in seconds since 1970.
    pub created: u64,
}

/// The number of rows of each table.
pub type Counts = BTreeMap<String, u64>;

/// A file that gets its name when it is complete. Dropped before that, it is removed.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    draft: PathBuf,
    is_done: bool,
}

impl Partial {
    fn create(path: &Path) -> Result<(Self, File), DumpError> {
        if path.exists() {
            return Err(DumpError::Exists { path: path.to_owned() });
        }
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{:08x}.partial", rand::random::<u32>()));
        let draft = PathBuf::from(draft);
        let failed = |source| DumpError::File { operation: "create", path: path.to_owned(), source };
        let file = private_files::file(&draft).map_err(failed)?;
        Ok((Self { path: path.to_owned(), draft, is_done: false }, file))
    }

    fn complete(mut self, file: &File) -> Result<(), DumpError> {
        let failed = |source| DumpError::File { operation: "write", path: self.path.clone(), source };
        file.sync_all().map_err(failed)?;
        // A hard link fails when another process created the file meanwhile.
        std::fs::hard_link(&self.draft, &self.path).map_err(failed)?;
        private_files::sync_folder(self.path.parent().unwrap_or(Path::new(""))).map_err(failed)?;
        let _ = std::fs::remove_file(&self.draft);
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = std::fs::remove_file(&self.draft);
        }
    }
}

/// A backup that is written, and has no name yet.
#[derive(Debug)]
pub(super) struct WrittenDump {
    partial: Partial,
    file: File,
    counts: Counts,
}

impl WrittenDump {
    /// Gives the file its name: then there is a backup. Nothing may be awaited afterwards, as an interrupt there would say
    /// that there is none.
    pub(super) fn complete(self) -> Result<Counts, DumpError> {
        self.partial.complete(&self.file)?;
        Ok(self.counts)
    }
}

/// Writes everything that this connection sees into a new file. The caller has begun the transaction.
pub(super) async fn write(
    connection: &mut AnyConnection,
    header: &Header,
    path: &Path,
    check: &mut Check,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<WrittenDump, DumpError> {
    let failed = |source| DumpError::File { operation: "write", path: path.to_owned(), source };
    let (partial, mut file) = Partial::create(path)?;
    let line = format!("{MAGIC}{}\n", serde_json::to_string(header).unwrap_or_default());
    file.write_all(line.as_bytes()).map_err(failed)?;
    let mut out = zstd::Encoder::new(BufWriter::new(file), LEVEL).map_err(failed)?;
    out.include_checksum(true).map_err(failed)?;
    let (mut counts, mut total) = (Counts::new(), 0);
    for table in TABLES {
        let columns = table.columns();
        write_table(&mut out, table.name, &columns).map_err(failed)?;
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        // Only names from [`TABLES`] become part of this SQL.
        let text = AssertSqlSafe(format!("SELECT {} FROM {}", names.join(", "), table.name));
        let mut rows = sqlx::query(text).fetch(&mut *connection);
        let count = counts.entry(table.name.to_owned()).or_default();
        while let Some(row) = rows.try_next().await? {
            let values = values(&row, &columns)?;
            check.row(table.name, &columns, &values);
            write_row(&mut out, &values).map_err(failed)?;
            *count += 1;
            total += 1;
            if total % PROGRESS_ROWS == 0 {
                progress(total);
            }
        }
    }
    let end = |out: &mut zstd::Encoder<'_, _>| {
        out.write_all(b"E")?;
        out.write_all(&total.to_le_bytes())
    };
    end(&mut out).map_err(failed)?;
    let file = out.finish().and_then(|out| out.into_inner().map_err(std::io::IntoInnerError::into_error));
    Ok(WrittenDump { partial, file: file.map_err(failed)?, counts })
}

fn write_table(out: &mut impl Write, name: &str, columns: &[(String, Type)]) -> std::io::Result<()> {
    let short = |length: usize| u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes();
    out.write_all(b"T")?;
    out.write_all(&short(name.len()))?;
    out.write_all(name.as_bytes())?;
    out.write_all(&short(columns.len()))?;
    for (name, kind) in columns {
        out.write_all(&[kind.code()])?;
        out.write_all(&short(name.len()))?;
        out.write_all(name.as_bytes())?;
    }
    Ok(())
}

fn values(row: &AnyRow, columns: &[(String, Type)]) -> Result<Vec<Value>, sqlx::Error> {
    let value = |(at, (_, kind)): (usize, &(String, Type))| match kind {
        Type::Integer => row.try_get(at).map(Value::Integer),
        Type::Text => row.try_get(at).map(Value::Text),
        Type::Bytes => row.try_get(at).map(Value::Bytes),
    };
    columns.iter().enumerate().map(value).collect()
}

fn write_row(out: &mut impl Write, values: &[Value]) -> std::io::Result<()> {
    out.write_all(b"R")?;
    for value in values {
        let bytes = match value {
            Value::Integer(number) => {
                out.write_all(&number.to_le_bytes())?;
                continue;
            }
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
        };
        out.write_all(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes())?;
        out.write_all(bytes)?;
    }
    Ok(())
}

/// The items of a backup, in order.
#[derive(Debug)]
pub(super) enum Item {
    Table(String, Vec<(String, Type)>),
    Row(Vec<Value>),
}

/// Reads a backup, item by item.
pub(super) struct Reader {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    input: BufReader<zstd::Decoder<'static, BufReader<File>>>,
    columns: Vec<(String, Type)>,
    rows: u64,
    is_over: bool,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Self, DumpError> {
        let failed = |source| DumpError::File { operation: "read", path: path.to_owned(), source };
        let no_backup = || DumpError::NoBackup { path: path.to_owned() };
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let mut line = Vec::new();
        (&mut file).take(LONGEST_HEADER).read_until(b'\n', &mut line).map_err(failed)?;
        let line = String::from_utf8(line).map_err(|_| no_backup())?;
        let header = line.strip_prefix(MAGIC).ok_or_else(no_backup)?;
        let header: Header = serde_json::from_str(header).map_err(|_| no_backup())?;
        let input = BufReader::new(zstd::Decoder::with_buffer(file).map_err(failed)?);
        Ok(Self { path: path.to_owned(), header, input, columns: Vec::new(), rows: 0, is_over: false })
    }

    /// Returns the next item; `None` after the last one, an error when anything is missing.
    pub(super) fn next(&mut self) -> Result<Option<Item>, DumpError> {
        if self.is_over {
            return Ok(None);
        }
        let item = self.read();
        item.map_err(|source| self.damaged(&source.to_string()))
    }

    pub(super) fn damaged(&self, why: &str) -> DumpError {
        DumpError::Damaged { path: self.path.clone(), why: why.to_owned() }
    }

    fn read(&mut self) -> std::io::Result<Option<Item>> {
        let odd = |why: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, why.to_owned());
        match self.array::<1>()?[0] {
            b'T' => {
                let name = self.name()?;
                let count = u16::from_le_bytes(self.array()?);
                if count > MOST_COLUMNS {
                    return Err(odd("a table has too many columns"));
                }
                let mut columns = Vec::new();
                for _ in 0..count {
                    let kind = Type::of(self.array::<1>()?[0]).ok_or_else(|| odd("a column has no type"))?;
                    columns.push((self.name()?, kind));
                }
                self.columns.clone_from(&columns);
                Ok(Some(Item::Table(name, columns)))
            }
            b'R' => {
                self.rows += 1;
                let kinds: Vec<Type> = self.columns.iter().map(|(_, kind)| *kind).collect();
                let values = kinds.into_iter().map(|kind| self.value(kind)).collect::<Result<_, _>>()?;
                Ok(Some(Item::Row(values)))
            }
            b'E' => {
                let expected = u64::from_le_bytes(self.array()?);
                if expected != self.rows {
                    return Err(odd("rows are missing"));
                }
                // Reading to the end verifies the checksum.
                let mut rest = [0; 1];
                if self.input.read(&mut rest)? != 0 {
                    return Err(odd("something follows its end"));
                }
                self.is_over = true;
                Ok(None)
            }
            _ => Err(odd("it holds something that is neither a table nor a row")),
        }
    }

    fn value(&mut self, kind: Type) -> std::io::Result<Value> {
        if kind == Type::Integer {
            return Ok(Value::Integer(i64::from_le_bytes(self.array()?)));
        }
        let length = u32::from_le_bytes(self.array()?);
        let bytes = self.bytes(length)?;
        let text = |bytes| String::from_utf8(bytes).map_err(std::io::Error::other);
        if kind == Type::Text { Ok(Value::Text(text(bytes)?)) } else { Ok(Value::Bytes(bytes)) }
    }

    fn name(&mut self) -> std::io::Result<String> {
        let length = u16::from_le_bytes(self.array()?);
        let bytes = self.bytes(u32::from(length))?;
        let name = String::from_utf8(bytes).map_err(std::io::Error::other)?;
        // The name becomes part of an SQL statement.
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if is_name { Ok(name) } else { Err(std::io::Error::other("a name is not one of ours")) }
    }

    fn bytes(&mut self, length: u32) -> std::io::Result<Vec<u8>> {
        if length > LONGEST_VALUE {
            return Err(std::io::Error::other("a value is too long"));
        }
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(u64::from(length)).read_to_end(&mut bytes)?;
        if read < length as usize { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
    }

    fn array<const N: usize>(&mut self) -> std::io::Result<[u8; N]> {
        let mut array = [0; N];
        self.input.read_exact(&mut array)?;
        Ok(array)
    }
}

/// Replaces the content of the tables with the rest of a backup.
pub(super) async fn read(
    connection: &mut AnyConnection,
    reader: &mut Reader,
    numbered: bool,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Counts, DumpError> {
    // An older backup is read into tables of its own version: later ones are not there yet.
    let known = if numbered {
        "SELECT CAST(table_name AS TEXT) FROM information_schema.tables WHERE table_schema = current_schema()"
    } else {
        "SELECT name FROM sqlite_master WHERE type = 'table'"
    };
    let known: Vec<String> = sqlx::query_scalar(known).fetch_all(&mut *connection).await?;
    for table in TABLES.iter().rev().filter(|table| known.iter().any(|name| name == table.name)) {
        let text = AssertSqlSafe(format!("DELETE FROM {}", table.name));
        connection.execute(text).await?;
    }
    let (mut counts, mut total) = (Counts::new(), 0);
    let (mut current, mut insert) = (String::new(), String::new());
    while let Some(item) = reader.next()? {
        match item {
            Item::Table(name, columns) => {
                if !TABLES.iter().any(|table| table.name == name) {
                    return Err(reader.damaged(&format!("its table `{name}` is not known")));
                }
                let mark = |at: usize| if numbered { format!("${at}") } else { "?".to_owned() };
                let marks: Vec<String> = (1..=columns.len()).map(mark).collect();
                let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
                // Only checked names become part of this SQL.
                insert = format!("INSERT INTO {name} ({}) VALUES ({})", names.join(", "), marks.join(", "));
                counts.insert(name.clone(), 0);
                current = name;
            }
            Item::Row(values) => {
                let query = sqlx::query(AssertSqlSafe(insert.clone()));
                let query = values.into_iter().fold(query, |query, value| match value {
                    Value::Integer(number) => query.bind(number),
                    Value::Text(text) => query.bind(text),
                    Value::Bytes(bytes) => query.bind(bytes),
                });
                query.execute(&mut *connection).await?;
                *counts.entry(current.clone()).or_default() += 1;
                total += 1;
                if total % PROGRESS_ROWS == 0 {
                    progress(total);
                }
            }
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::*;

    #[tokio::test]
    async fn every_table_and_column_is_in_a_backup() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let mut tables: Vec<String> = sqlx::query_scalar(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('servers', '_sqlx_migrations') ORDER BY name",
        )
        .fetch_all(&store.read)
        .await
        .unwrap();
        for table in TABLES {
            let text = AssertSqlSafe(format!("SELECT name FROM pragma_table_info('{}')", table.name));
            let mut columns: Vec<String> = sqlx::query_scalar(text).fetch_all(&store.read).await.unwrap();
            let mut known: Vec<String> = table.columns().into_iter().map(|(name, _)| name).collect();
            columns.sort_unstable();
            known.sort_unstable();
            assert_eq!(columns, known, "{}", table.name);
            tables.retain(|name| name != table.name);
        }
        assert_eq!(tables, Vec::<String>::new(), "no backup holds these tables");
    }
}
