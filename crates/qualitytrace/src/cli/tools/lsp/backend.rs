//! Answers to the requests of an editor.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::{Mutex, PoisonError};

use qualitytrace_core::definition::{Resource, formatted};
use qualitytrace_core::lang::Severity;
use tower_lsp_server::jsonrpc::Result;
use tower_lsp_server::ls_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, CodeActionParams, CodeActionProviderCapability,
    CodeActionResponse, CompletionOptions, CompletionParams, CompletionResponse, Diagnostic,
    DiagnosticSeverity, DidChangeTextDocumentParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams,
    DidSaveTextDocumentParams, DocumentFormattingParams, GotoDefinitionParams, GotoDefinitionResponse, Hover,
    HoverParams, HoverProviderCapability, InitializeParams, InitializeResult, Location, NumberOrString,
    OneOf, Position, PositionEncodingKind, Range, ServerCapabilities, ServerInfo, TextDocumentSyncCapability,
    TextDocumentSyncKind, TextEdit, Uri, WorkspaceEdit,
};
use tower_lsp_server::{Client, LanguageServer};

use super::fixes::{self, Fix};
use super::positions::Positions;
use super::recent::Recent;
use super::{completion, hover, steps};
use crate::cli::check;
use crate::cli::files::{self, File, format_of, regular};

/// The name that diagnostics carry.
const SOURCE: &str = "qualitytrace";
/// Characters after which an editor asks for completions by itself.
const TRIGGERS: [&str; 8] = ["[", ".", ":", "\"", " ", "|", "=", "$"];

/// The state of one editor.
#[derive(Debug)]
pub(super) struct Backend {
    client: Client,
    recent: Recent,
    texts: Mutex<HashMap<String, String>>,
}

impl Backend {
    pub(super) fn new(client: Client, recent: Recent) -> Self {
        Self { client, recent, texts: Mutex::default() }
    }

    fn keep(&self, uri: &Uri, text: Option<String>) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        match text {
            Some(text) => drop(texts.insert(uri.as_str().to_owned(), text)),
            None => drop(texts.remove(uri.as_str())),
        }
    }

    fn text(&self, uri: &Uri) -> Option<String> {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.get(uri.as_str()).cloned()
    }

    async fn diagnose(&self, uri: Uri, version: Option<i32>) {
        let Some(text) = self.text(&uri) else { return };
        let found = diagnostics(&examined(&uri, &text), &text);
        self.client.publish_diagnostics(uri, found, version).await;
    }
}

/// A text as `check` reads it.
fn examined(uri: &Uri, text: &str) -> File {
    let path = uri.to_file_path().map_or_else(|| PathBuf::from(uri.as_str()), std::borrow::Cow::into_owned);
    let mut file = File::expanded(&path, text.to_owned(), files::of_process);
    check::examine(&mut file);
    file
}

/// The diagnostics of a file that is a definition. Other YAML files of a project are not this server's business.
fn diagnostics(file: &File, text: &str) -> Vec<Diagnostic> {
    if !qualitytrace_core::definition::is_meant(text, file.format) {
        return Vec::new();
    }
    let positions = Positions::of(text);
    let shown = |found: qualitytrace_core::lang::Diagnostic| Diagnostic {
        range: positions.range(&found.span),
        severity: Some(match found.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
        }),
        code: Some(NumberOrString::String(found.code.to_owned())),
        source: Some(SOURCE.to_owned()),
        message: match found.help {
            Some(help) => format!("{}\n{help}", found.message),
            None => found.message,
        },
        ..Diagnostic::default()
    };
    file.placed().into_iter().map(shown).collect()
}

/// The names of the variables that a text can refer to: outputs of its tests, and those that it uses already.
fn variables(file: &File, text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for document in &file.reading.documents {
        if let Resource::Test(test) = &document.resource {
            names.extend(test.outputs.iter().map(|output| output.name.value.clone()));
        }
    }
    for used in text.split("var:").skip(1) {
        let end = used.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(used.len());
        names.push(used[..end].to_owned());
    }
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}

fn action(uri: &Uri, positions: &Positions<'_>, known: &[Diagnostic], fix: Fix) -> CodeActionOrCommand {
    let edit = TextEdit { range: positions.range(&fix.bytes), new_text: fix.new };
    let mended = known.iter().filter(
        |found| matches!(&found.code, Some(NumberOrString::String(code)) if Some(code.as_str()) == fix.code),
    );
    let changes = HashMap::from([(uri.clone(), vec![edit])]);
    CodeActionOrCommand::CodeAction(CodeAction {
        title: fix.title,
        kind: Some(CodeActionKind::QUICKFIX),
        diagnostics: Some(mended.cloned().collect()),
        edit: Some(WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }),
        ..CodeAction::default()
    })
}

fn uri_of(path: &Path) -> Option<Uri> {
    let absolute = std::path::absolute(path).ok()?;
    Uri::from_file_path(absolute).or_else(|| Uri::from_str(&format!("file://{}", path.display())).ok())
}

impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        let capabilities = ServerCapabilities {
            position_encoding: Some(PositionEncodingKind::UTF16),
            text_document_sync: Some(TextDocumentSyncCapability::Kind(TextDocumentSyncKind::FULL)),
            completion_provider: Some(CompletionOptions {
                trigger_characters: Some(TRIGGERS.map(ToOwned::to_owned).to_vec()),
                ..CompletionOptions::default()
            }),
            hover_provider: Some(HoverProviderCapability::Simple(true)),
            definition_provider: Some(OneOf::Left(true)),
            code_action_provider: Some(CodeActionProviderCapability::Simple(true)),
            document_formatting_provider: Some(OneOf::Left(true)),
            ..ServerCapabilities::default()
        };
        let info =
            ServerInfo { name: SOURCE.to_owned(), version: Some(env!("CARGO_PKG_VERSION").to_owned()) };
        Ok(InitializeResult { capabilities, server_info: Some(info), ..InitializeResult::default() })
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }

    async fn did_open(&self, params: DidOpenTextDocumentParams) {
        let document = params.text_document;
        self.keep(&document.uri, Some(document.text));
        self.diagnose(document.uri, Some(document.version)).await;
    }

    async fn did_change(&self, params: DidChangeTextDocumentParams) {
        let document = params.text_document;
        // Each change is the whole text.
        let Some(last) = params.content_changes.into_iter().next_back() else { return };
        self.keep(&document.uri, Some(last.text));
        self.diagnose(document.uri, Some(document.version)).await;
    }

    async fn did_save(&self, params: DidSaveTextDocumentParams) {
        // A file that this one names may have changed.
        self.diagnose(params.text_document.uri, None).await;
    }

    async fn did_close(&self, params: DidCloseTextDocumentParams) {
        let uri = params.text_document.uri;
        self.keep(&uri, None);
        self.client.publish_diagnostics(uri, Vec::new(), None).await;
    }

    async fn completion(&self, params: CompletionParams) -> Result<Option<CompletionResponse>> {
        let place = params.text_document_position;
        let Some(text) = self.text(&place.text_document.uri) else { return Ok(None) };
        let at = Positions::of(&text).byte(place.position);
        let trace = self.recent.trace().await;
        let file = examined(&place.text_document.uri, &text);
        let items = completion::items(&text, at, trace.as_deref(), &variables(&file, &text));
        Ok(Some(CompletionResponse::Array(items)))
    }

    async fn hover(&self, params: HoverParams) -> Result<Option<Hover>> {
        let place = params.text_document_position_params;
        let Some(text) = self.text(&place.text_document.uri) else { return Ok(None) };
        let at = Positions::of(&text).byte(place.position);
        let trace = self.recent.trace().await;
        let file = examined(&place.text_document.uri, &text);
        Ok(hover::hover(&file, &text, at, trace.as_deref()))
    }

    async fn goto_definition(&self, params: GotoDefinitionParams) -> Result<Option<GotoDefinitionResponse>> {
        let place = params.text_document_position_params;
        let Some(text) = self.text(&place.text_document.uri) else { return Ok(None) };
        let at = Positions::of(&text).byte(place.position);
        let file = examined(&place.text_document.uri, &text);
        let Some((path, bytes)) = steps::definition_of(&file, at) else { return Ok(None) };
        let Some(uri) = uri_of(&path) else { return Ok(None) };
        let other = regular::read_text(&path).unwrap_or_default();
        let range = Positions::of(&other).range(&bytes);
        Ok(Some(GotoDefinitionResponse::Scalar(Location { uri, range })))
    }

    async fn code_action(&self, params: CodeActionParams) -> Result<Option<CodeActionResponse>> {
        let uri = params.text_document.uri;
        let Some(text) = self.text(&uri) else { return Ok(None) };
        let positions = Positions::of(&text);
        let bytes = positions.byte(params.range.start)..positions.byte(params.range.end);
        let file = examined(&uri, &text);
        let mut fixes = fixes::of_diagnostics(&text, &file.placed(), &bytes);
        if let Some(trace) = self.recent.trace().await {
            fixes.extend(fixes::of_nearest(&file, &text, &bytes, &trace));
        }
        let known = diagnostics(&file, &text);
        Ok(Some(fixes.into_iter().map(|fix| action(&uri, &positions, &known, fix)).collect()))
    }

    async fn formatting(&self, params: DocumentFormattingParams) -> Result<Option<Vec<TextEdit>>> {
        let uri = params.text_document.uri;
        let Some(text) = self.text(&uri) else { return Ok(None) };
        let path = uri.to_file_path().map_or_else(PathBuf::new, std::borrow::Cow::into_owned);
        // A file that cannot be formatted stays as it is; its diagnostics say why.
        let Ok(new) = formatted(&text, format_of(&path)) else { return Ok(None) };
        if new == text {
            return Ok(Some(Vec::new()));
        }
        let whole = Range { start: Position::default(), end: Positions::of(&text).position(text.len()) };
        Ok(Some(vec![TextEdit { range: whole, new_text: new }]))
    }
}
