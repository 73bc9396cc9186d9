//! The files that a trigger refers to: the command line reads them and sends their content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode};

use crate::definition::text::{Text, is_path};

/// The parts of a `data:` URL before the name of the file and before its bytes.
const DATA: [&str; 2] = ["data:application/octet-stream;name=", ";base64,"];
/// Maximum length of a text that can be a path.
const LONGEST_PATH: usize = 1024;

/// How a text that may be the path of a file is used, and how the file's content is encoded in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileUse {
    /// A body: any text that does not begin like a path is the content itself.
    Body,
    /// A source text: a `.proto` file, a query, a schema or a script.
    Source,
    /// Certificates or a key in PEM.
    Pem,
    /// Bytes in base64.
    Base64,
    /// Any bytes: the text is always a path, or the result of [`FileUse::content`].
    Bytes,
}

impl FileUse {
    /// Returns the path that a text is; `None` when it is the content itself.
    ///
    /// A text with expressions is never a path: only the server knows their values. The path is relative to the
    /// file that contains the text. Where [`FileUse::must_exist`] returns false, a text is a path only if there is
    /// such a file.
    pub fn path(self, text: &Text) -> Option<&str> {
        let written = text.value.trim();
        let is_content = match self {
            Self::Body | Self::Source | Self::Base64 => written.starts_with("//") || written.contains('{'),
            Self::Pem => written.contains("-----BEGIN"),
            Self::Bytes => written.starts_with("data:"),
        };
        let is_short = !written.is_empty() && written.len() <= LONGEST_PATH && !text.value.contains('\n');
        let may_be = is_short && !written.contains("${") && !is_content;
        let is_path = match self {
            Self::Body => is_path(written),
            Self::Source | Self::Base64 | Self::Pem | Self::Bytes => true,
        };
        (may_be && is_path).then_some(written)
    }

    /// Whether a path without a file is an error rather than a text that only looks like a path.
    pub fn must_exist(self, path: &str) -> bool {
        match self {
            Self::Pem | Self::Bytes => true,
            Self::Body | Self::Source | Self::Base64 => path.starts_with("./") || path.starts_with("../"),
        }
    }

    /// Encodes the content of the file at `path`; `None` when it should be text and is not.
    pub fn content(self, path: &str, bytes: Vec<u8>) -> Option<String> {
        match self {
            Self::Body | Self::Source | Self::Pem => String::from_utf8(bytes).ok(),
            Self::Base64 => Some(STANDARD.encode(bytes)),
            Self::Bytes => {
                let [before, after] = DATA;
                let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
                Some(format!("{before}{}{after}{}", escaped(name), STANDARD.encode(bytes)))
            }
        }
    }

    /// Decodes the bytes of a text; `None` when it is a path that was not read.
    pub fn bytes(text: &str) -> Option<Vec<u8>> {
        let (_, encoded) = text.trim().strip_prefix("data:")?.split_once(";base64,")?;
        STANDARD.decode(encoded).ok()
    }

    /// Returns the name of the file whose bytes a text encodes; empty when it is not known.
    pub fn name(text: &str) -> String {
        let [before, after] = DATA;
        let named = text.trim().strip_prefix(before).and_then(|rest| rest.split_once(after));
        named.map(|(name, _)| unescaped(name)).unwrap_or_default()
    }
}

/// What is escaped in a file's name within a `data:` URL.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

fn escaped(name: &str) -> PercentEncode<'_> {
    utf8_percent_encode(name, NAME)
}

fn unescaped(name: &str) -> String {
    percent_decode_str(name).decode_utf8_lossy().into_owned()
}
