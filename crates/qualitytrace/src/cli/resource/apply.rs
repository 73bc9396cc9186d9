//! `qualitytrace apply`: sends a file to a server, with the files that it names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use qualitytrace_core::definition::{self, Document, Kind, Resource};
use serde_json::Value;

use super::{Name, form, show};
use crate::cli::Exit;
use crate::cli::files::ids;
use crate::cli::files::references;
use crate::cli::files::regular;
use crate::cli::files::{self, File};
use crate::cli::target::Output;
use crate::client::Client;
use crate::client::resources::Form;
use crate::terminal;

/// Applies files and the files of folders: what others refer to first.
pub(super) async fn apply_all(
    client: &Client,
    name: Option<Name>,
    paths: &[PathBuf],
    output: Output,
) -> anyhow::Result<Exit> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let found = files::find(std::slice::from_ref(path))?
                .iter()
                .map(|path| read(path))
                .collect::<Result<Vec<_>, _>>()?;
            files.extend(found.into_iter().filter(|file| !file.reading.documents.is_empty()));
        } else {
            files.push(read(path)?);
        }
    }
    files.sort_by_key(|file| {
        file.reading.documents.first().map(|document| match document.resource.kind() {
            Kind::Test => 1,
            Kind::TestSuite => 2,
            _ => 0,
        })
    });
    for file in &files {
        if apply(client, name, file, output).await? != Exit::Passed {
            return Ok(Exit::Error);
        }
    }
    Ok(Exit::Passed)
}

/// Applies every document of a file and prints the responses.
async fn apply(client: &Client, name: Option<Name>, file: &File, output: Output) -> anyhow::Result<Exit> {
    if let Some(name) = name
        && let Some(kind) = stated_kind(file).filter(|kind| Kind::named(kind) != Some(name.kind))
    {
        let is_old_word = kind == "Environment" && name.kind == Kind::VariableSet;
        if !is_old_word {
            bail!("cannot apply {kind} to {} resource", name.kind.as_str());
        }
    }
    terminal::err(&file.complaints());
    if !file.is_usable() {
        return Ok(Exit::Error);
    }
    if file.reading.documents.is_empty() {
        bail!("cannot find type in yaml: {} holds no definition", file.path.display());
    }
    let mut kinds = file.reading.documents.iter().map(|document| document.resource.kind());
    if let Some(name) = name
        && let Some(other) = kinds.find(|kind| *kind != name.kind)
    {
        bail!("cannot apply {} to {} resource", other.as_str(), name.kind.as_str());
    }
    let mut source = file.source.clone();
    for (index, document) in file.reading.documents.iter().enumerate() {
        let body = send(client, file, document, form(output)).await?;
        // At once: a later document may fail, and what was stored must be found again.
        source = write_id(file, source, index, &id_in(&body, output)?)?;
        show(client, document.resource.kind(), &body, output).await?;
    }
    Ok(Exit::Passed)
}

/// Applies the variable set of a file and returns its id.
pub(in crate::cli) async fn variable_set(client: &Client, path: &Path) -> anyhow::Result<String> {
    let file = read(path)?;
    terminal::err(&file.complaints());
    let [document] = file.reading.documents.as_slice() else {
        bail!("{} must hold exactly one variable set; one has `type: VariableSet`", path.display());
    };
    if !file.is_usable() || document.resource.kind() != Kind::VariableSet {
        bail!("{} is no variable set that can be used; one has `type: VariableSet`", path.display());
    }
    let id = id_in(&send(client, &file, document, Form::Json).await?, Output::Json)?;
    write_id(&file, file.source.clone(), 0, &id)?;
    Ok(id)
}

/// Sends a document, after the tests that a suite names by file.
async fn send(client: &Client, file: &File, document: &Document, form: Form) -> anyhow::Result<String> {
    let text = match &document.resource {
        Resource::TestSuite(suite) => {
            let mut ids = HashMap::new();
            for step in suite.all_steps() {
                if let Some(path) = references::step_path(&file.path, step)
                    && !ids.contains_key(&path)
                {
                    let id = send_step(client, &path).await?;
                    ids.insert(path, id);
                }
            }
            references::suite(file, document, suite, &ids)?
        }
        _ => references::inlined(file, document)?,
    };
    client.apply(document.resource.kind(), text, file.format, form).await
}

/// Sends the test of a step's file and returns its id.
async fn send_step(client: &Client, path: &Path) -> anyhow::Result<String> {
    let file = read(path)?;
    terminal::err(&file.complaints());
    let [document] = file.reading.documents.as_slice() else {
        bail!("{} must hold exactly one test to be a step", path.display());
    };
    if !file.is_usable() || document.resource.kind() != Kind::Test {
        bail!("{} cannot be a step: it is not a test that can be used", path.display());
    }
    let text = references::inlined(&file, document)?;
    let id = id_in(&client.apply(Kind::Test, text, file.format, Form::Json).await?, Output::Json)?;
    write_id(&file, file.source.clone(), 0, &id)?;
    Ok(id)
}

/// Writes the id of a document that has none into its file, and returns the text of the file. `source` is its text as
/// it is known.
fn write_id(file: &File, source: String, index: usize, id: &str) -> anyhow::Result<String> {
    if definition::has_id(&source, file.format, index) {
        return Ok(source);
    }
    let written = ids::write_back(&file.path, file.format, &source, index, id).with_context(|| {
        format!("{} is applied, but its new id cannot be written into it", file.path.display())
    })?;
    if written.is_none() {
        terminal::err(&ids::without_place(&file.path, id));
    }
    Ok(written.unwrap_or(source))
}

fn read(path: &Path) -> anyhow::Result<File> {
    let source = regular::read_text(path).with_context(|| format!("cannot read file {}", path.display()))?;
    if source.trim().is_empty() {
        bail!("cannot find type in yaml: {} is empty", path.display());
    }
    let mut file = File::parse(path, source);
    let missing = references::missing_steps(&file, |_| false);
    file.reading.diagnostics.extend(missing);
    Ok(file)
}

/// The `type` of the first document, as written.
fn stated_kind(file: &File) -> Option<String> {
    let value: Value = serde_saphyr::from_str(&file.source).ok()?;
    value.get("type")?.as_str().map(ToOwned::to_owned)
}

fn id_in(body: &str, output: Output) -> anyhow::Result<String> {
    let shown: Value = match output {
        Output::Yaml => serde_saphyr::from_str(body).context("the server's answer is not YAML")?,
        Output::Json | Output::Pretty => super::parsed(body)?,
    };
    let id = shown["spec"]["id"].as_str();
    id.map(ToOwned::to_owned).context("the server's answer has no id")
}
