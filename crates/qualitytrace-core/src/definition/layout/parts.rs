//! Reads a YAML file into parts: each key and each item of a list with its comments and its text.
//!
//! The tree tells where keys and values are. What is between them is walked byte by byte: blanks, comments, colons and
//! dashes. Anything else there, such as an anchor, is refused.

use qualitytrace_config::tree::{Entry, Node, Scalar, Shape, Style};
use qualitytrace_config::yaml::{self, AliasSpan, Limits};

use super::LayoutError;
use crate::definition::Kind;
use crate::lang::limits::{MAX_DEFINITION_DEPTH, MAX_DEFINITION_NODES};

/// A file.
pub(super) struct File {
    /// Whether lines end with a carriage return, too.
    pub(super) has_returns: bool,
    /// Comments before the first `---`.
    pub(super) before: Vec<Comment>,
    /// Its documents; empty ones are left out.
    pub(super) documents: Vec<Document>,
    /// The texts of all comments.
    pub(super) comments: Vec<String>,
}

/// A document.
pub(super) struct Document {
    /// Whether it begins with `---`.
    pub(super) is_marked: bool,
    /// Comments at its beginning that are not about its first key.
    pub(super) head: Vec<Comment>,
    pub(super) content: Content,
}

impl Document {
    /// The kind that its `type` names.
    pub(super) fn kind(&self) -> Option<Kind> {
        let Content::Map { parts, .. } = &self.content else { return None };
        let named = parts.iter().find(|part| part.name == "type")?;
        match &named.content {
            Content::Inline(lines) => Kind::named(lines.first()?.trim_matches(['"', '\''])),
            _ => None,
        }
    }
}

/// A comment on a line of its own.
#[derive(Debug, Clone)]
pub(super) struct Comment {
    /// Its text, with `#`.
    pub(super) text: String,
    pub(super) is_after_blank: bool,
}

/// A key with its value, or an item of a list.
pub(super) struct Part {
    /// The key; empty for an item.
    pub(super) name: String,
    /// The key as it is written.
    pub(super) key: String,
    /// Comments above it.
    pub(super) above: Vec<Comment>,
    pub(super) is_after_blank: bool,
    /// The comment on its line.
    pub(super) beside: Option<String>,
    pub(super) content: Content,
}

/// A value.
pub(super) enum Content {
    Nothing,
    /// A text in one or more lines, which may be indented at will.
    Inline(Vec<String>),
    /// A list or mapping in brackets: its lines, and how much deeper than the first each of them is.
    Flow {
        lines: Vec<(isize, String)>,
    },
    /// A literal or folded text: its lines without their indentation.
    Block {
        header: String,
        lines: Vec<String>,
    },
    Map {
        parts: Vec<Part>,
        below: Vec<Comment>,
    },
    List {
        parts: Vec<Part>,
        below: Vec<Comment>,
    },
}

const UNUSUAL: LayoutError =
    LayoutError::Unusual { why: "it has anchors, tags, directives or a layout that is not known" };

type Read<T> = Result<T, LayoutError>;

pub(super) fn read(source: &str) -> Read<File> {
    let has_directives = source.lines().any(|line| line.starts_with('%') || line.trim_end() == "...");
    if has_directives || source.starts_with('\u{feff}') {
        return Err(UNUSUAL);
    }
    let limits = Limits { depth: MAX_DEFINITION_DEPTH, nodes: MAX_DEFINITION_NODES };
    let mut walk = Walk { source, at: 0, kept_to: 0, pending: Vec::new(), comments: Vec::new() };
    let mut file = File {
        has_returns: source.contains("\r\n"),
        before: Vec::new(),
        documents: Vec::new(),
        comments: Vec::new(),
    };
    for (number, document) in yaml::documents(source, limits, AliasSpan::Alias).into_iter().enumerate() {
        let root = document.root.map_err(|_| UNUSUAL)?;
        let is_marked = !document.start.is_empty();
        if is_marked {
            walk.gap(document.start.start)?;
            // Comments below an empty document go with the next.
            if number == 0 {
                file.before.append(&mut walk.pending);
            }
            walk.at = document.start.end;
        }
        if root.is_null() {
            continue;
        }
        let content = walk.content(&root, None)?;
        let head = head_of(&content);
        let mut read = Document { is_marked, head: Vec::new(), content };
        if let Content::Map { parts, .. } = &mut read.content
            && let Some(first) = parts.first_mut()
        {
            read.head = first.above.drain(..head).collect();
        }
        file.documents.push(read);
    }
    walk.gap(source.len())?;
    if !walk.pending.is_empty() {
        // Only empty documents follow: what is written there belongs to nothing.
        let Some(Document { content: Content::Map { below, .. }, .. }) = file.documents.last_mut() else {
            return Err(UNUSUAL);
        };
        below.append(&mut walk.pending);
    }
    file.comments = walk.comments;
    Ok(file)
}

/// The number of comments at the beginning of a document that are about the file: those above a blank line, and the
/// line that names the schema.
fn head_of(content: &Content) -> usize {
    let Content::Map { parts, .. } = content else { return 0 };
    let Some(first) = parts.first() else { return 0 };
    if first.is_after_blank {
        return first.above.len();
    }
    let after_blank = first.above.iter().rposition(|comment| comment.is_after_blank).unwrap_or(0);
    let is_schema = |comment: &Comment| comment.text.contains("yaml-language-server:");
    let after_schema = first.above.iter().rposition(is_schema).map_or(0, |at| at + 1);
    after_blank.max(after_schema)
}

struct Walk<'s> {
    source: &'s str,
    at: usize,
    /// Blank lines before this byte are part of a text.
    kept_to: usize,
    /// Comments that were passed and belong to what follows.
    pending: Vec<Comment>,
    comments: Vec<String>,
}

impl<'s> Walk<'s> {
    /// Passes blanks and comments up to `end`; anything else is refused.
    fn gap(&mut self, end: usize) -> Read<()> {
        while self.at < end {
            match self.source.as_bytes()[self.at] {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                b'#' => {
                    let comment = self.comment();
                    self.pending.push(comment);
                }
                _ => return Err(UNUSUAL),
            }
        }
        if self.at == end { Ok(()) } else { Err(UNUSUAL) }
    }

    /// Passes the comment that begins here.
    fn comment(&mut self) -> Comment {
        let is_after_blank = self.is_after_blank(self.at);
        let rest = &self.source[self.at..];
        let line = rest.split('\n').next().unwrap_or_default();
        self.at += line.len();
        let text = line.trim_end().to_owned();
        self.comments.push(text.clone());
        Comment { text, is_after_blank }
    }

    /// Where the next text begins that is neither blank nor a comment.
    fn next_text(&self) -> usize {
        let bytes = self.source.as_bytes();
        let mut at = self.at;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => at += 1,
                b'#' => at += self.source[at..].find('\n').unwrap_or(self.source.len() - at),
                _ => break,
            }
        }
        at
    }

    /// Passes the comment on the rest of this line, if there is one.
    fn beside(&mut self) -> Option<String> {
        let rest = &self.source[self.at..];
        let solid = rest.trim_start_matches([' ', '\t']);
        if !solid.starts_with('#') {
            return None;
        }
        self.at += rest.len() - solid.len();
        Some(self.comment().text)
    }

    fn content(&mut self, node: &Node, parent: Option<usize>) -> Read<Content> {
        let start = self.next_text();
        match &node.shape {
            Shape::Null => {
                let written = self.source.get(node.span.clone()).unwrap_or_default().trim();
                if written.is_empty() || node.span.start != start {
                    return Ok(Content::Nothing);
                }
                let text = written.to_owned();
                self.gap(start)?;
                self.at = node.span.end;
                Ok(Content::Inline(vec![text]))
            }
            Shape::Scalar(Scalar { style: Style::Block, .. }) => {
                self.gap(start)?;
                self.block(parent)
            }
            Shape::Scalar(_) => {
                let lines = self.written(node, start)?;
                Ok(Content::Inline(lines.into_iter().map(|line| line.trim().to_owned()).collect()))
            }
            Shape::List(_) | Shape::Map(_) if self.source[start..].starts_with(['[', '{']) => {
                let base = self.indentation(start);
                let lines = self.written(node, start)?;
                let shifted = lines.into_iter().enumerate().map(|(number, line)| {
                    let solid = line.trim_start_matches([' ', '\t']);
                    let depth = if number == 0 { base } else { line.len() - solid.len() };
                    (depth.cast_signed() - base.cast_signed(), solid.trim_end().to_owned())
                });
                Ok(Content::Flow { lines: shifted.collect() })
            }
            Shape::List(items) => self.list(items, parent),
            Shape::Map(entries) => self.map(entries),
        }
    }

    /// Passes a value that is written as it is, and returns its lines.
    fn written(&mut self, node: &Node, start: usize) -> Read<Vec<&'s str>> {
        if node.span.start != start || node.span.end <= start {
            return Err(UNUSUAL);
        }
        self.gap(start)?;
        self.at = node.span.end;
        let text = self.source.get(node.span.clone()).ok_or(UNUSUAL)?;
        Ok(text.split('\n').map(|line| line.trim_end_matches('\r')).collect())
    }

    fn map(&mut self, entries: &[Entry]) -> Read<Content> {
        let mut parts = Vec::new();
        let mut column = 0;
        for entry in entries {
            let start = entry.key_span.start;
            self.gap(start)?;
            column = self.column(start);
            let mut part = Part {
                name: entry.key.clone(),
                key: self.source.get(entry.key_span.clone()).ok_or(UNUSUAL)?.to_owned(),
                above: std::mem::take(&mut self.pending),
                is_after_blank: self.is_after_blank(start),
                beside: None,
                content: Content::Nothing,
            };
            self.at = entry.key_span.end;
            let rest = &self.source[self.at..];
            let solid = rest.trim_start_matches([' ', '\t']);
            if !solid.starts_with(':') || part.key.contains('\n') {
                return Err(UNUSUAL);
            }
            self.at += rest.len() - solid.len() + 1;
            self.value(&mut part, &entry.value, column)?;
            parts.push(part);
        }
        let below = self.below(column, false);
        Ok(Content::Map { parts, below })
    }

    fn list(&mut self, items: &[Node], parent: Option<usize>) -> Read<Content> {
        let mut parts = Vec::new();
        let mut column = 0;
        for item in items {
            let start = self.next_text();
            let rest = &self.source[start..];
            if !rest.starts_with('-') || rest[1..].starts_with(|c: char| !c.is_whitespace()) {
                return Err(UNUSUAL);
            }
            self.gap(start)?;
            column = self.column(start);
            let mut part = Part {
                name: String::new(),
                key: String::new(),
                above: std::mem::take(&mut self.pending),
                is_after_blank: self.is_after_blank(start),
                beside: None,
                content: Content::Nothing,
            };
            self.at = start + 1;
            self.value(&mut part, item, column)?;
            parts.push(part);
        }
        // The dashes of a list may be in the column of its key: a comment there is about the next key, unless it is an
        // item that was commented out.
        let is_flush = parent.is_some_and(|parent| parent >= column);
        let below = self.below(column, is_flush);
        Ok(Content::List { parts, below })
    }

    /// Reads the value of a part, and the comments around it.
    fn value(&mut self, part: &mut Part, node: &Node, column: usize) -> Read<()> {
        part.beside = self.beside();
        part.content = self.content(node, Some(column))?;
        let comment = match &part.content {
            Content::Nothing | Content::Map { .. } | Content::List { .. } => return Ok(()),
            // The comment on the line of the header.
            Content::Block { .. } => self.pending.pop().map(|comment| comment.text),
            Content::Inline(_) | Content::Flow { .. } => self.beside(),
        };
        part.above.append(&mut self.pending);
        if comment.is_some()
            && let Some(first) = std::mem::replace(&mut part.beside, comment)
        {
            part.above.push(Comment { text: first, is_after_blank: false });
        }
        Ok(())
    }

    /// Passes the comments below a list or mapping that are indented like it or deeper.
    fn below(&mut self, column: usize, is_flush: bool) -> Vec<Comment> {
        let mut found = Vec::new();
        loop {
            let rest = &self.source[self.at..];
            let solid = rest.trim_start();
            let at = self.at + rest.len() - solid.len();
            let is_item = solid.starts_with("# - ") || solid.starts_with("#- ");
            let least = column + usize::from(is_flush && !is_item);
            if !solid.starts_with('#') || self.column(at) < least {
                return found;
            }
            self.at = at;
            found.push(self.comment());
        }
    }

    /// Reads the literal or folded text that begins here.
    fn block(&mut self, parent: Option<usize>) -> Read<Content> {
        let rest = &self.source[self.at..];
        let length =
            rest.find(|c: char| !matches!(c, '|' | '>' | '+' | '-' | '0'..='9')).unwrap_or(rest.len());
        let header = rest[..length].to_owned();
        if !header.starts_with(['|', '>']) {
            return Err(UNUSUAL);
        }
        self.at += length;
        if let Some(comment) = self.beside() {
            self.pending.push(Comment { text: comment, is_after_blank: false });
        }
        let begin =
            self.at + self.source[self.at..].find('\n').map_or(self.source.len() - self.at, |at| at + 1);
        let body = &self.source[begin..];
        let parent_depth = parent.map_or(0, |column| column + 1);
        let explicit = header.chars().find_map(|c| c.to_digit(10)).map(|digit| digit as usize);
        let indent = match explicit {
            Some(digit) => parent.map_or(digit, |column| column + digit),
            None => body.lines().find(|line| !line.trim().is_empty()).map_or(0, depth),
        };
        if indent < parent_depth {
            self.at = begin.min(self.source.len());
            return Ok(Content::Block { header, lines: Vec::new() });
        }
        let is_kept = header.contains('+');
        let (mut lines, mut taken, mut at) = (Vec::new(), 0, begin);
        let mut end = begin;
        for line in body.split_inclusive('\n') {
            at += line.len();
            let text = line.trim_end_matches(['\r', '\n']);
            let is_blank = text.trim_matches(' ').is_empty() && text.len() <= indent;
            if !is_blank && depth(text) < indent {
                break;
            }
            lines.push(text.get(indent..).unwrap_or_default().to_owned());
            if !is_blank || is_kept {
                (taken, end) = (lines.len(), at);
            }
        }
        lines.truncate(taken);
        self.at = end;
        if is_kept {
            self.kept_to = end;
        }
        Ok(Content::Block { header, lines })
    }

    fn line_start(&self, at: usize) -> usize {
        self.source[..at].rfind('\n').map_or(0, |at| at + 1)
    }

    fn column(&self, at: usize) -> usize {
        at - self.line_start(at)
    }

    fn indentation(&self, at: usize) -> usize {
        depth(&self.source[self.line_start(at)..])
    }

    /// Whether the line above the one of this byte is blank, and something is above that.
    fn is_after_blank(&self, at: usize) -> bool {
        let start = self.line_start(at);
        let Some(above) = self.source[..start].strip_suffix('\n') else { return false };
        let line = above.rsplit('\n').next().unwrap_or_default();
        let is_own_line = self.source[start..at].trim().is_empty();
        is_own_line && line.trim().is_empty() && start > self.kept_to
    }
}

/// The number of blanks that a line begins with.
fn depth(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}
