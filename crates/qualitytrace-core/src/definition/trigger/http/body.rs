//! The body of an HTTP request.

use std::ops::Range;

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Fields;
use crate::definition::shape::is_blank;
use crate::definition::text::Text;
use crate::definition::trigger::files::FileUse;
use crate::definition::trigger::header::{self, Header};
use crate::lang::Diagnostic;

/// The body of an HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A text; empty means no body.
    Text(Text),
    /// A file: its path, or its bytes as a `data:` URL once the command line has read it.
    File(Text),
    /// URL-encoded form fields.
    Form(Vec<Header>),
    /// Multipart parts, each with its own content type.
    Multipart(Vec<Part>),
}

impl Default for Body {
    fn default() -> Self {
        Self::Text(Text::default())
    }
}

impl Body {
    /// The content of files is not searched for expressions.
    pub(super) fn mapped<E>(&self, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        Ok(match self {
            Self::Text(body) => Self::Text(text(body)?),
            Self::File(file) => Self::File(file.clone()),
            Self::Form(fields) => Self::Form(header::mapped(fields, text)?),
            Self::Multipart(parts) => Self::Multipart(
                parts
                    .iter()
                    .map(|part| {
                        Ok(Part {
                            name: text(&part.name)?,
                            value: text(&part.value)?,
                            file: part.file.clone(),
                            filename: text(&part.filename)?,
                            content_type: text(&part.content_type)?,
                        })
                    })
                    .collect::<Result<_, _>>()?,
            ),
        })
    }

    pub(super) fn each_file<E>(
        &mut self,
        change: &mut impl FnMut(FileUse, &mut Text) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Text(text) => change(FileUse::Body, text),
            Self::File(file) => change(FileUse::Bytes, file),
            Self::Form(_) => Ok(()),
            Self::Multipart(parts) => {
                parts.iter_mut().try_for_each(|part| change(FileUse::Bytes, &mut part.file))
            }
        }
    }
}

/// A part of a multipart body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// The field's name.
    pub name: Text,
    /// The value, unless it is a file.
    pub value: Text,
    /// A file: its path, or its bytes as a `data:` URL once the command line has read it.
    pub file: Text,
    /// The file name for the receiver; empty means the file's own.
    pub filename: Text,
    /// The content type; empty means that none is sent.
    pub content_type: Text,
}

/// The one body that is given.
pub(super) fn read(fields: &mut Fields<'_, '_>) -> Body {
    let reader = fields.reader;
    let mut given: Vec<(&str, Range<usize>, Body)> = Vec::new();
    let mut note = |key, node: Option<&Node>, body: Option<Body>| {
        if let (Some(node), Some(body)) = (node, body) {
            given.push((key, node.span.clone(), body));
        }
    };
    let node = fields.get("body");
    note("body", node, fields.text("body").filter(|text| !text.is_empty()).map(Body::Text));
    let node = fields.get("bodyFile");
    note("bodyFile", node, fields.text("bodyFile").filter(|text| !text.is_empty()).map(Body::File));
    let node = fields.get("form");
    let form = header::read(fields, "form");
    note("form", node, (!form.is_empty()).then_some(Body::Form(form)));
    let node = fields.get("multipart");
    let parts = parts(fields);
    note("multipart", node, (!parts.is_empty()).then_some(Body::Multipart(parts)));
    if let [(first, ..), (second, span, _), ..] = given.as_slice() {
        let message = format!("a request has one body, but both `{first}` and `{second}` are given");
        let diagnostic = Diagnostic::error("conflicting-keys", span.clone(), message);
        reader.report(diagnostic.helped("keep one of `body`, `bodyFile`, `form` and `multipart`"));
    }
    given.into_iter().next().map(|(_, _, body)| body).unwrap_or_default()
}

fn parts(fields: &mut Fields<'_, '_>) -> Vec<Part> {
    let reader = fields.reader;
    let part = |node: &Node| {
        let mut fields = reader.fields(node, "a part of a multipart body")?;
        let part = Part {
            name: fields.text("name").unwrap_or_default(),
            value: fields.text("value").unwrap_or_default(),
            file: fields.text("file").unwrap_or_default(),
            filename: fields.text("filename").unwrap_or_default(),
            content_type: fields.text("contentType").unwrap_or_default(),
        };
        fields.finish();
        if part.name.is_empty() {
            reader.error("no-name", node.span.clone(), "a part of a multipart body needs a `name`");
        }
        if !part.value.is_empty() && !part.file.is_empty() {
            let message = "a part has either a `value` or a `file`, but both are given";
            reader.error("conflicting-keys", node.span.clone(), message);
        }
        Some(part)
    };
    fields.items("multipart").iter().filter_map(part).collect()
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PartSpec<'a> {
    /// The name of the part.
    name: &'a str,
    /// Its content as text.
    #[serde(skip_serializing_if = "is_blank")]
    value: &'a str,
    /// A file whose bytes are its content.
    #[serde(skip_serializing_if = "is_blank")]
    file: &'a str,
    /// The file name that is sent with it.
    #[serde(skip_serializing_if = "is_blank")]
    filename: &'a str,
    /// Its media type, like `image/png`.
    #[serde(skip_serializing_if = "is_blank")]
    content_type: &'a str,
}

impl<'a> PartSpec<'a> {
    pub(super) fn of(part: &'a Part) -> Self {
        Self {
            name: &part.name.value,
            value: &part.value.value,
            file: &part.file.value,
            filename: &part.filename.value,
            content_type: &part.content_type.value,
        }
    }
}
