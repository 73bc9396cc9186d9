//! The table of values of a suite: its type, reader and JSON.

use std::ops::Range;

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use super::place;
use crate::definition::reader::Reader;
use crate::definition::shape::{Pairs, is_blank};
use crate::definition::text::{Text, is_path};
use crate::lang::Diagnostic;

/// Maximum number of rows of a data table. Each row runs every step.
const MOST_ROWS: usize = 1_000;

/// A table of values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Data {
    /// Its rows: names and values.
    pub rows: Vec<Vec<(String, Text)>>,
    /// Further rows as CSV with the names in the first line; a path for the command line.
    pub csv: Option<Text>,
}

impl Data {
    /// Returns the path from which the command line reads the CSV; `None` when the text is the CSV itself.
    pub fn file(&self) -> Option<&Text> {
        self.csv.as_ref().filter(|csv| is_path(&csv.value) && !csv.value.contains('\n'))
    }

    /// Returns every row, those of the CSV included. A file is not read, and invalid CSV is left out.
    pub fn values(&self) -> Vec<Vec<(String, String)>> {
        let written = self
            .rows
            .iter()
            .map(|row| row.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect());
        let csv = self.csv.as_ref().filter(|_| self.file().is_none());
        let csv = csv.and_then(|csv| table(&csv.value).ok()).map(|(_, rows)| rows);
        written.chain(csv.into_iter().flatten()).collect()
    }

    /// Checks a CSV text that belongs to this table; diagnostics point at `place`.
    pub fn check_csv(&self, text: &str, place: &Range<usize>) -> Vec<Diagnostic> {
        let wrong = |message: String, help: &str| {
            vec![Diagnostic::error("wrong-csv", place.clone(), message).helped(help)]
        };
        let columns = match table(text) {
            Ok((columns, _)) => columns,
            Err(error) => {
                let help = "write the names in the first line and as many values in every other one";
                return wrong(format!("this is no CSV: {error}"), help);
            }
        };
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        if let Some((_, twice)) = columns.iter().enumerate().find(|(at, name)| columns[..*at].contains(name))
        {
            return wrong(
                format!("the CSV has the column `{twice}` twice"),
                "give each column a name of its own",
            );
        }
        self.columns().map(|first| uneven("the CSV", &columns, &first, place)).unwrap_or_default()
    }

    /// Returns the names of the first row in `rows`.
    fn columns(&self) -> Option<Vec<&str>> {
        Some(self.rows.first()?.iter().map(|(name, _)| name.as_str()).collect())
    }
}

/// Reports names that `row` lacks or has in addition, compared with the first row.
fn uneven(row: &str, names: &[&str], first: &[&str], place: &Range<usize>) -> Vec<Diagnostic> {
    let lacks = first.iter().filter(|name| !names.contains(name));
    let has = names.iter().filter(|name| !first.contains(name));
    lacks
        .map(|name| format!("{row} has no `{name}`, which the first row has"))
        .chain(has.map(|name| format!("{row} has `{name}`, which the first row has not")))
        .map(|message| {
            Diagnostic::error("uneven-row", place.clone(), message).helped("give every row the same names")
        })
        .collect()
}

/// The columns of a CSV text, which its first line names.
type Columns = Vec<String>;
/// Names and values of each row.
type Rows = Vec<Vec<(String, String)>>;

/// Parses a CSV text.
fn table(text: &str) -> Result<(Columns, Rows), csv::Error> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(text.as_bytes());
    let names: Columns = reader.headers()?.iter().map(ToOwned::to_owned).collect();
    let row =
        |record: csv::StringRecord| names.iter().cloned().zip(record.iter().map(ToOwned::to_owned)).collect();
    let rows = reader.records().map(|record| Ok(row(record?))).collect::<Result<Rows, csv::Error>>()?;
    Ok((names, rows))
}

pub(super) fn read(reader: &Reader<'_>, node: &Node) -> Option<Data> {
    let mut fields = reader.fields(node, "`data`")?;
    let rows = fields.items("rows");
    let data = Data {
        rows: rows.iter().map(|row| reader.pairs(row, "a row")).collect(),
        csv: fields.text("csv").filter(|csv| !csv.is_empty()),
    };
    fields.finish();
    if let Some(csv) = data.csv.as_ref().filter(|_| data.file().is_none()) {
        for found in data.check_csv(&csv.value, &place(csv)) {
            reader.report(found);
        }
    }
    let count = data.values().len();
    if count > MOST_ROWS {
        let message = format!("a table has at most {MOST_ROWS} rows, and this one has {count}");
        reader.error("too-large", node.span.clone(), message);
    }
    let columns = data.columns().unwrap_or_default();
    for (row, place) in data.rows.iter().zip(rows).skip(1) {
        let names: Vec<&str> = row.iter().map(|(name, _)| name.as_str()).collect();
        for found in uneven("this row", &names, &columns, &place.span) {
            reader.report(found);
        }
    }
    if data.rows.is_empty() && data.csv.is_none() {
        let diagnostic = Diagnostic::error("empty-data", node.span.clone(), "the table has no rows");
        reader.report(diagnostic.helped("give it `rows` or `csv`"));
    }
    Some(data)
}

/// The values that a suite is run with, one row after the other.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TableSpec<'a> {
    /// The rows, each a mapping from variables to values.
    #[serde(skip_serializing_if = "is_blank")]
    rows: Vec<Pairs<'a>>,
    /// The rows as CSV with a head line, or a path.
    #[serde(skip_serializing_if = "is_blank")]
    csv: &'a str,
}

impl<'a> TableSpec<'a> {
    pub(super) fn of(data: &'a Data) -> Self {
        Self {
            rows: data.rows.iter().map(|row| Pairs::of(row)).collect(),
            csv: data.csv.as_ref().map_or("", |csv| &csv.value),
        }
    }
}
