//! The credentials for a Kafka broker.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;
use crate::definition::shape::is_blank;
use crate::definition::text::Text;
use crate::definition::trigger::auth::UserSpec;
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

/// The SASL credentials for a broker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sasl {
    /// The SASL mechanism.
    pub mechanism: Mechanism,
    /// The user name.
    pub username: Text,
    /// The password.
    pub password: Text,
}

impl Sasl {
    pub(super) fn mapped<E>(&self, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        let Self { mechanism, username, password } = self;
        Ok(Self { mechanism: *mechanism, username: text(username)?, password: text(password)? })
    }
}

/// A SASL mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mechanism {
    /// Password in plain text.
    #[default]
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

impl Mechanism {
    /// Every mechanism.
    pub const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// Returns the name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::ScramSha256 => "scramSha256",
            Self::ScramSha512 => "scramSha512",
        }
    }
}

/// Reads the credentials for a broker: the block named by `type`.
pub(super) fn read(reader: &Reader<'_>, node: &Node) -> Option<Sasl> {
    let mut fields = reader.fields(node, "Kafka credentials")?;
    let kind = fields.text("type").filter(|kind| !kind.is_empty());
    let blocks = Mechanism::ALL.map(|mechanism| (mechanism, fields.get(mechanism.as_str())));
    fields.finish();
    let mechanism = match &kind {
        None => Mechanism::Plain,
        Some(kind) => match Mechanism::ALL.into_iter().find(|known| known.as_str() == kind.value) {
            Some(known) => known,
            None => {
                let words = Mechanism::ALL.map(Mechanism::as_str);
                let message = format!("`{}` is not a way to log in to Kafka", kind.value);
                let help = match nearest(&kind.value, words) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("use `{}`", words.join("`, `")),
                };
                let span = kind.place(0..kind.value.len());
                reader.report(Diagnostic::error("unknown-auth", span, message).helped(help));
                return None;
            }
        },
    };
    let (_, block) = blocks.into_iter().find(|(known, _)| *known == mechanism)?;
    let Some(block) = block else {
        // Exports have the type alone.
        if mechanism != Mechanism::Plain {
            let word = mechanism.as_str();
            let message = format!("`authentication` is of type `{word}` but has no `{word}`");
            reader.error("no-auth-block", node.span.clone(), message);
        }
        return None;
    };
    let mut fields = reader.fields(block, "Kafka credentials")?;
    let sasl = Sasl {
        mechanism,
        username: fields.text("username").unwrap_or_default(),
        password: fields.text("password").unwrap_or_default(),
    };
    fields.finish();
    (!sasl.username.is_empty() || !sasl.password.is_empty()).then_some(sasl)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SaslSpec<'a> {
    /// How to log in; the block of the same name has the details.
    #[serde(rename = "type")]
    kind: &'static str,
    /// User and password, sent as they are.
    #[serde(skip_serializing_if = "is_blank")]
    plain: Option<UserSpec<'a>>,
    /// User and password, proven by SCRAM-SHA-256.
    #[serde(skip_serializing_if = "is_blank")]
    scram_sha256: Option<UserSpec<'a>>,
    /// User and password, proven by SCRAM-SHA-512.
    #[serde(skip_serializing_if = "is_blank")]
    scram_sha512: Option<UserSpec<'a>>,
}

impl<'a> SaslSpec<'a> {
    pub(super) fn of(sasl: &'a Sasl) -> Self {
        let user = |mechanism: Mechanism| {
            (sasl.mechanism == mechanism).then(|| UserSpec::of(&sasl.username, &sasl.password))
        };
        Self {
            kind: sasl.mechanism.as_str(),
            plain: user(Mechanism::Plain),
            scram_sha256: user(Mechanism::ScramSha256),
            scram_sha512: user(Mechanism::ScramSha512),
        }
    }
}
