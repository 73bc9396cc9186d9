//! Sealed values of a database: resealed when the key changes, dropped when the key is lost.

use qualitytrace_core::definition::{Format, Kind, read_as};
use serde_json::{Map, Value, json};
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::chunks::{signed, unsigned};
use super::sealing::{self, MARK, MARKED};
use super::{Error, NewDefinition, Store, failed, unscoped};
use crate::storage::vault::Vault;

/// Cells per query.
const STEP: i64 = 200;

/// How a column holds sealed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The whole text is sealed.
    Whole,
    /// An object whose secret members are sealed: each has one sealed text, or a list of them.
    Members,
}

/// A column that may hold sealed values. Kind, id and number name a row of its table.
#[derive(Debug)]
pub(super) struct Column {
    table: &'static str,
    /// The id column and the number column.
    key: (&'static str, &'static str),
    name: &'static str,
    form: Form,
}

/// Every column that may hold sealed values.
pub(super) const COLUMNS: &[Column] = &[
    Column { table: "definitions", key: ("id", "version"), name: "text", form: Form::Whole },
    Column { table: "resources", key: ("id", "version"), name: "spec", form: Form::Whole },
    Column { table: "runs", key: ("test_id", "number"), name: "variables", form: Form::Members },
    Column { table: "runs", key: ("test_id", "number"), name: "secrets", form: Form::Members },
    Column { table: "suite_runs", key: ("suite_id", "number"), name: "variables", form: Form::Members },
];

/// A value of such a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    kind: String,
    id: String,
    number: i64,
    body: String,
}

impl Column {
    fn select(&self, condition: &str) -> String {
        let Self { table, key: (id, number), name, form } = self;
        let is_sealed = match form {
            Form::Whole => format!("{name} LIKE 'sealed:%'"),
            Form::Members => {
                format!(r#"({name} LIKE '%"secret":"sealed:%' OR {name} LIKE '%"secret":["sealed:%')"#)
            }
        };
        format!("SELECT kind, {id}, {number}, {name} FROM {table} WHERE {is_sealed} {condition}")
    }

    pub(super) fn select_all(&self) -> String {
        self.select("")
    }

    pub(super) fn cell(row: &AnyRow) -> Result<Cell, sqlx::Error> {
        Ok(Cell {
            kind: row.try_get(0)?,
            id: row.try_get(1)?,
            number: row.try_get(2)?,
            body: row.try_get(3)?,
        })
    }

    /// The context that values of this cell are sealed with.
    pub(super) fn place(&self, cell: &Cell) -> String {
        match self.form {
            Form::Whole => format!("{}/{}", cell.kind, cell.id),
            Form::Members => sealing::run_place(&cell.id),
        }
    }

    /// The name of the cell in messages to the user.
    pub(super) fn name_of(&self, Cell { kind, id, number, .. }: &Cell) -> String {
        let id = unscoped(id);
        match (self.table, self.name) {
            ("definitions", _) => format!("version {number} of {kind} `{id}`"),
            ("resources", _) => format!("{kind} `{id}`"),
            (_, "secrets") => format!("the secret outputs of run {number} of {kind} `{id}`"),
            (_, _) => format!("the secret variables of run {number} of {kind} `{id}`"),
        }
    }
}

/// Returns the sealed texts of a cell.
pub(super) fn secrets_of(column: &Column, cell: &Cell) -> Vec<String> {
    match column.form {
        Form::Whole => vec![cell.body.clone()],
        Form::Members => {
            let members: Map<String, Value> = serde_json::from_str(&cell.body).unwrap_or_default();
            let sealed = members.values().flat_map(|member| match &member["secret"] {
                Value::Array(several) => several.as_slice(),
                one => std::slice::from_ref(one),
            });
            sealed.filter_map(|sealed| sealed.as_str().map(str::to_owned)).collect()
        }
    }
}

impl Store {
    /// Reseals everything that a previous key sealed with the current key, and returns how many values changed.
    ///
    /// Each value is changed by itself, with compare-and-set. The key mark is replaced at the end: after an
    /// interruption, the next call continues, and both keys are needed until then.
    pub async fn reseal(&self, progress: &mut (dyn FnMut(u64) + Send)) -> Result<u64, Error> {
        let (mut changed, mut seen) = (0, 0);
        for column in COLUMNS {
            let mut after = None;
            loop {
                let cells = self.sealed_cells(column, after.as_ref()).await?;
                let Some(last) = cells.last().cloned() else { break };
                for cell in cells {
                    seen += 1;
                    progress(seen);
                    let place = column.place(&cell);
                    let anew = |sealed: String| -> Result<Option<String>, Error> {
                        if self.vault.opens(&place, &sealed) {
                            return Ok(None);
                        }
                        let open = self.vault.unseal(&place, sealed)?;
                        Ok(Some(self.vault.seal(&place, &open)?))
                    };
                    if let Some(body) = rewritten(column, &cell, anew)? {
                        changed += u64::from(self.replace_cell(column, &cell, &body).await?);
                    }
                }
                after = Some(last);
            }
        }
        if let Some(mark) = self.document(MARK).await?
            && !self.vault.opens(MARK, &mark)
        {
            let mark = self.vault.seal(MARK, MARKED)?;
            self.put_document(MARK, &mark).await?;
        }
        if changed > 0 {
            self.audit_own("reseal", "secrets", &format!("{changed} values")).await?;
        }
        Ok(changed)
    }

    /// Lists the names of all values that no key opens.
    pub async fn lost_secrets(&self) -> Result<Vec<String>, Error> {
        let mut lost = Vec::new();
        for column in COLUMNS {
            let mut after = None;
            loop {
                let cells = self.sealed_cells(column, after.as_ref()).await?;
                let Some(last) = cells.last().cloned() else { break };
                lost.extend(
                    cells.iter().filter(|cell| self.is_lost(column, cell)).map(|cell| column.name_of(cell)),
                );
                after = Some(last);
            }
        }
        Ok(lost)
    }

    /// Drops the values that no key opens, and returns their names.
    ///
    /// A definition is sealed as a whole: an empty one replaces it, so that its runs stay. A run loses the values
    /// of its secret variables, and the spans of its trace: the secrets in them could no longer be redacted.
    pub async fn forget_lost_secrets(&self) -> Result<Vec<String>, Error> {
        let mut forgotten = Vec::new();
        for column in COLUMNS {
            let mut after = None;
            loop {
                let cells = self.sealed_cells(column, after.as_ref()).await?;
                let Some(last) = cells.last().cloned() else { break };
                for cell in cells.iter().filter(|cell| self.is_lost(column, cell)) {
                    if column.name == "variables" && column.table == "runs" {
                        self.forget_trace(&cell.id, unsigned(cell.number)).await?;
                    }
                    let body = match column.form {
                        Form::Whole => empty_definition(column, cell),
                        Form::Members => without_secrets(&cell.body),
                    };
                    if self.replace_cell(column, cell, &body).await? {
                        forgotten.push(column.name_of(cell));
                    }
                }
                after = Some(last);
            }
        }
        if let Some(mark) = self.document(MARK).await?
            && self.vault.unseal(MARK, mark).is_err()
        {
            sqlx::query("DELETE FROM documents WHERE name = $1")
                .bind(MARK)
                .execute(&self.write)
                .await
                .map_err(failed("forget the key"))?;
        }
        for name in &forgotten {
            self.audit_own("forget", "secrets", name).await?;
        }
        Ok(forgotten)
    }

    fn is_lost(&self, column: &Column, cell: &Cell) -> bool {
        let place = column.place(cell);
        secrets_of(column, cell).into_iter().any(|sealed| self.vault.unseal(&place, sealed).is_err())
    }

    /// Loads the next cells of a column with sealed values, in order.
    async fn sealed_cells(&self, column: &Column, after: Option<&Cell>) -> Result<Vec<Cell>, Error> {
        let failed = failed("read what is sealed");
        let (id, number) = column.key;
        let beyond =
            format!("AND (kind, {id}, {number}) > ($1, $2, $3) ORDER BY kind, {id}, {number} LIMIT $4");
        let (kind, id, number) =
            after.map_or(("", "", 0), |cell| (cell.kind.as_str(), cell.id.as_str(), cell.number));
        // Only names of our own become part of this SQL.
        let query = sqlx::query(AssertSqlSafe(column.select(&beyond))).bind(kind).bind(id).bind(number);
        let rows = query.bind(STEP).fetch_all(&self.read).await.map_err(&failed)?;
        rows.iter().map(Column::cell).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Replaces the text of a cell. `false` when it changed meanwhile.
    async fn replace_cell(&self, column: &Column, cell: &Cell, body: &str) -> Result<bool, Error> {
        let Column { table, key: (id, number), name, .. } = column;
        let text = format!(
            "UPDATE {table} SET {name} = $1 WHERE kind = $2 AND {id} = $3 AND {number} = $4 AND {name} = $5"
        );
        let query = sqlx::query(AssertSqlSafe(text)).bind(body).bind(&cell.kind).bind(&cell.id);
        let done = query.bind(cell.number).bind(&cell.body).execute(&self.write).await;
        Ok(done.map_err(failed("store what is sealed"))?.rows_affected() == 1)
    }

    async fn forget_trace(&self, test: &str, number: u64) -> Result<(), Error> {
        let failed = failed("forget the trace of a run");
        let mut transaction = self.begin_removal().await.map_err(&failed)?;
        let gone: Vec<i64> = sqlx::query_scalar(
            "DELETE FROM chunks WHERE trace_id IN (SELECT trace_id FROM runs WHERE test_id = $1 AND number = $2)
             RETURNING size",
        )
        .bind(test)
        .bind(signed(number))
        .fetch_all(&mut *transaction)
        .await
        .map_err(&failed)?;
        sqlx::query("UPDATE totals SET value = value - $1 WHERE name = 'retained_bytes'")
            .bind(gone.iter().sum::<i64>())
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        transaction.commit().await.map_err(&failed)
    }
}

/// Applies `change` to the sealed values of a cell; `None` when none changed.
fn rewritten(
    column: &Column,
    cell: &Cell,
    change: impl Fn(String) -> Result<Option<String>, Error>,
) -> Result<Option<String>, Error> {
    if column.form == Form::Whole {
        return change(cell.body.clone());
    }
    let mut members: Map<String, Value> = serde_json::from_str(&cell.body).unwrap_or_default();
    let mut is_changed = false;
    for secret in members.values_mut().filter_map(|member| member.get_mut("secret")) {
        let texts = match secret {
            Value::Array(several) => several.as_mut_slice(),
            one => std::slice::from_mut(one),
        };
        for text in texts {
            let Some(sealed) = text.as_str().map(str::to_owned) else { continue };
            if let Some(anew) = change(sealed)? {
                *text = anew.into();
                is_changed = true;
            }
        }
    }
    Ok(is_changed.then(|| Value::Object(members).to_string()))
}

/// The variables of a run without the values of the secret ones: they show as masked. Credentials, which have no name
/// to show, are left out.
fn without_secrets(kept: &str) -> String {
    let mut members: Map<String, Value> = serde_json::from_str(kept).unwrap_or_default();
    members.retain(|_, member| !member["secret"].is_array());
    for value in members.values_mut().filter(|value| value["secret"].is_string()) {
        *value = json!({ "lost": true });
    }
    Value::Object(members).to_string()
}

/// The replacement for the text or spec of a definition that no key opens.
fn empty_definition(column: &Column, cell: &Cell) -> String {
    let id = unscoped(&cell.id);
    let description = "Its definition was encrypted with a key that is lost; apply it again.";
    let mut spec = json!({ "id": id, "name": id, "description": description });
    match Kind::named(&cell.kind) {
        Some(Kind::DataStore) => spec = json!({ "id": id, "name": "OTLP", "type": "otlp", "default": true }),
        Some(Kind::VariableSet) => spec["values"] = json!([]),
        Some(Kind::Demo) => spec = json!({ "id": id, "name": id, "type": "pokeshop", "enabled": false }),
        _ => {}
    }
    let text = json!({ "type": cell.kind, "spec": spec }).to_string();
    if column.name == "text" {
        return text;
    }
    let kind = Kind::named(&cell.kind).unwrap_or(Kind::Test);
    let reading = read_as(&text, Format::Json, kind);
    let resource = reading.documents.first().map(|document| &document.resource);
    resource.map_or_else(|| spec.to_string(), |found| NewDefinition::of(found, id, Format::Json, &text).spec)
}

impl Vault {
    /// Whether the current key opens a sealed text.
    fn opens(&self, belongs_to: &str, sealed: &str) -> bool {
        self.unseal_with_current(belongs_to, sealed).is_some()
    }
}
