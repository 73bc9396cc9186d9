//! Diagnostics: errors and warnings about a text of the user, and how they are rendered.
//!
//! A diagnostic points into the text by bytes. A caller that knows the file around the text moves the span there
//! with [`Diagnostic::shifted`].

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

pub use qualitytrace_config::nearest;

/// An error or warning about a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind of mistake; stable across versions.
    pub code: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The bytes at fault; empty when something is missing there.
    pub span: Range<usize>,
    /// One sentence that says what is wrong.
    pub message: String,
    /// A short label beside the carets; empty when the message suffices.
    pub label: String,
    /// A suggestion, when there is one.
    pub help: Option<String>,
}

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The text has a meaning, but maybe not the intended one.
    Warning,
    /// The text is invalid.
    Error,
}

impl Severity {
    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Diagnostic {
    /// Makes an error at `span`.
    pub fn error(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            span,
            message: message.into(),
            label: String::new(),
            help: None,
        }
    }

    /// Makes a warning at `span`.
    pub fn warning(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, span, message) }
    }

    /// Adds a label beside the carets.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a suggestion.
    #[must_use]
    pub fn helped(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Moves it `bytes` further into the surrounding text.
    #[must_use]
    pub fn shifted(mut self, bytes: usize) -> Self {
        self.span = self.span.start + bytes..self.span.end + bytes;
        self
    }

    /// Whether it makes the text invalid.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Renders diagnostics for the user like rustc: source line, carets, label, help.
///
/// `source_name` is shown after the arrow: a file name, or a description of the text.
pub fn render(source_name: &str, text: &str, diagnostics: &[Diagnostic], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let groups: Vec<Vec<Group<'_>>> =
        diagnostics.iter().map(|diagnostic| vec![group(source_name, text, diagnostic)]).collect();
    groups.iter().map(|report| renderer.render(report)).collect::<Vec<_>>().join("\n\n")
}

fn group<'a>(source_name: &'a str, text: &'a str, diagnostic: &'a Diagnostic) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    // An empty text has no line to show; a blank is shown under the caret instead.
    let (source, span): (Cow<'_, str>, _) = if text.is_empty() {
        (" ".into(), 0..0)
    } else {
        (text.into(), on_characters(text, &diagnostic.span))
    };
    let mut annotation = AnnotationKind::Primary.span(span);
    if !diagnostic.label.is_empty() {
        annotation = annotation.label(&*diagnostic.label);
    }
    let mut group = level
        .primary_title(&*diagnostic.message)
        .id(diagnostic.code)
        .element(Snippet::source(source).path(source_name).annotation(annotation));
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(&**help));
    }
    group
}

/// Widens the span to character boundaries of the text.
fn on_characters(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start.min(text.len()));
    let end = text.ceil_char_boundary(span.end.clamp(start, text.len()));
    start..end
}
