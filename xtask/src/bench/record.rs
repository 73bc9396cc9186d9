//! Results of a benchmark: a printed table, a JSON file, and a block in docs/performance.md.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{process, workspace};

/// The page with the results.
const PAGE: &str = "docs/performance.md";

/// The results of one benchmark.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) name: &'static str,
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Sentences below the table.
    pub(crate) notes: Vec<String>,
    /// All measurements, including rounds that are not in the table.
    pub(crate) raw: Vec<Value>,
}

impl Record {
    /// Prints the table, writes the JSON file and, with `write_docs`, the page.
    pub(crate) fn publish(&self, write_docs: bool) -> Result<()> {
        let about = about();
        let text = format!("{}\n{}", table(&self.header, &self.rows), self.notes.join("\n\n"));
        println!("\n{text}\n{about}");
        let dir = workspace::target().join("bench");
        fs::create_dir_all(&dir).with_context(|| format!("failed to make the folder {}", dir.display()))?;
        let path = dir.join(format!("{}.json", self.name));
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| self.header.iter().cloned().zip(row.iter().cloned()).collect())
            .collect();
        let document = json!({ "benchmark": self.name, "about": about, "rows": rows, "raw": self.raw });
        fs::write(&path, format!("{document:#}\n"))
            .with_context(|| format!("failed to write {}", path.display()))?;
        println!("written to {}", path.display());
        if write_docs {
            let path = workspace::root().join(PAGE);
            let page = fs::read_to_string(&path).with_context(|| format!("failed to read {PAGE}"))?;
            let block = format!("{}\n\n{about}\n", text.trim_end());
            let page = with_block(&page, self.name, &block)
                .with_context(|| format!("{PAGE} has no block for `{}`", self.name))?;
            fs::write(&path, page).with_context(|| format!("failed to write {PAGE}"))?;
            println!("written to {PAGE}");
        }
        Ok(())
    }
}

/// The machine, the day and the commit, in a sentence.
fn about() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let say = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        let said = process::output(command.args(args).current_dir(workspace::root()));
        said.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
    };
    let day = say("date", &["-u", "+%Y-%m-%d"]);
    let commit = say("git", &["describe", "--always"]);
    // The tables of other benchmarks change nothing that is measured.
    let changes =
        say("git", &["status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/performance.md"]);
    let dirty = if changes.is_empty() { "" } else { "-dirty" };
    format!("Measured {day} at commit {commit}{dirty} on {cores} cores of {model}.")
}

/// A Markdown table with aligned columns; every column but the first is right-aligned.
fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let wide = |column: usize| {
        let cells =
            std::iter::once(header).chain(rows.iter().map(Vec::as_slice)).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..header.len()).map(wide).collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("| {cell:<width$} "),
            _ => format!("| {cell:>width$} "),
        });
        cells.collect::<String>() + "|\n"
    };
    let rule = widths.iter().enumerate().map(|(column, width)| match column {
        0 => format!("|{}", "-".repeat(width + 2)),
        _ => format!("|{}:", "-".repeat(width + 1)),
    });
    line(header) + &rule.collect::<String>() + "|\n" + &rows.iter().map(|row| line(row)).collect::<String>()
}

/// The page with the block of this name replaced; `None` if it has no such block.
fn with_block(page: &str, name: &str, block: &str) -> Option<String> {
    let (start, end) = (format!("<!-- bench:{name} -->\n"), format!("<!-- /bench:{name} -->"));
    let (before, rest) = page.split_once(&start)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{start}{block}{end}{after}"))
}

/// Formats a number with separators: `216,000`.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::from(if number < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The median; of an even number of values, the lower one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = table(&row(["system", "spans/s"]), &[row(["ours", "1,200"]), row(["Collector", "900"])]);
        let expected = "\
| system    | spans/s |
|-----------|--------:|
| ours      |   1,200 |
| Collector |     900 |
";
        assert_eq!(text, expected);
    }

    #[test]
    fn only_the_named_block_of_a_page_is_replaced() {
        let page = "a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb\n";
        let expected = "a\n<!-- bench:x -->\nnew\n<!-- /bench:x -->\nb\n";
        assert_eq!(with_block(page, "x", "new\n").as_deref(), Some(expected));
        assert_eq!(with_block(page, "y", "new\n"), None);
    }

    #[test]
    fn numbers_are_told_as_people_read_them() {
        assert_eq!([0.0, 999.0, 216_000.4, 1_000_000.0].map(thousands), ["0", "999", "216,000", "1,000,000"]);
        assert_eq!(thousands(median(vec![3.0, 1.0, 2.0])), "2");
    }
}
