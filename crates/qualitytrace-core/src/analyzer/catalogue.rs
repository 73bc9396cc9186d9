//! The table of plugins and rules, with their texts for reports.

/// The severity of a failed rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The plugin fails and loses score.
    Error,
    /// It is reported only.
    Warning,
    /// The rule is not checked.
    Disabled,
}

impl Level {
    /// Returns the name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Disabled => "disabled",
        }
    }

    /// Finds the level with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Error, Self::Warning, Self::Disabled].into_iter().find(|level| level.as_str() == name)
    }
}

/// A group of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PluginId {
    /// The semantic conventions of OpenTelemetry.
    Standards,
    /// Problems that many systems have.
    Common,
    /// Secrets in telemetry, and unencrypted calls.
    Security,
}

impl PluginId {
    /// Every plugin.
    pub const ALL: [Self; 3] = [Self::Standards, Self::Common, Self::Security];

    /// Returns the name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standards => "standards",
            Self::Common => "common",
            Self::Security => "security",
        }
    }

    /// Finds the plugin with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.as_str() == name)
    }

    /// Returns the title for the user.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Standards => "OTel Semantic Conventions",
            Self::Common => "Common Problems",
            Self::Security => "Security",
        }
    }

    /// Returns a description of what it checks.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Standards => {
                "Holds names and attributes of spans against OpenTelemetry's semantic conventions."
            }
            Self::Common => "Finds what makes many systems hard to run and to trace.",
            Self::Security => "Finds secrets in telemetry and calls that travel unprotected.",
        }
    }

    /// Its rules.
    pub const fn rules(self) -> &'static [RuleId] {
        match self {
            Self::Standards => &[
                RuleId::SpanNaming,
                RuleId::RequiredAttributes,
                RuleId::AttributeNaming,
                RuleId::NoEmptyAttributes,
            ],
            Self::Common => &[RuleId::PreferDns],
            Self::Security => &[RuleId::SecureHttpsProtocol, RuleId::NoApiKeyLeak],
        }
    }
}

/// One rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleId {
    /// Spans are named as their type requires.
    SpanNaming,
    /// Spans have the attributes that their type requires.
    RequiredAttributes,
    /// Attributes are named `namespace.name`.
    AttributeNaming,
    /// Attributes have a value.
    NoEmptyAttributes,
    /// Hosts are addressed by name.
    PreferDns,
    /// HTTP calls are encrypted.
    SecureHttpsProtocol,
    /// No credentials are recorded.
    NoApiKeyLeak,
}

/// The texts and the weight of a rule.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The name used in files.
    pub id: &'static str,
    /// The title for the user.
    pub title: &'static str,
    /// What it requires.
    pub description: &'static str,
    /// The name of a failure.
    pub fault: &'static str,
    /// What to do about a failure.
    pub tips: &'static [&'static str],
    /// A link to further documentation.
    pub link: &'static str,
    /// Its default share of the plugin's score.
    pub weight: u32,
}

const CONVENTIONS: &str = "https://opentelemetry.io/docs/specs/semconv/";

impl RuleId {
    /// Returns the rule's row of the table.
    pub const fn entry(self) -> Entry {
        match self {
            Self::SpanNaming => Entry {
                id: "span-naming",
                title: "Span Naming",
                description: "A span's name follows from a few low-cardinality attributes: the method and the route, the operation and the table.",
                // Existing clients expect these two to be empty for this rule.
                fault: "",
                tips: &[],
                link: "https://opentelemetry.io/docs/specs/semconv/general/trace/",
                weight: 25,
            },
            Self::RequiredAttributes => Entry {
                id: "required-attributes",
                title: "Required Attributes",
                description: "A span carries the attributes that its type asks for.",
                fault: "These spans lack attributes that their type asks for:",
                tips: &[
                    "Use an instrumentation library, which sets them, or set them where the span begins.",
                ],
                link: CONVENTIONS,
                weight: 25,
            },
            Self::AttributeNaming => Entry {
                id: "attribute-naming",
                title: "Attribute Naming",
                description: "An attribute's name is lower-case and has a namespace.",
                fault: "These attributes are named against the convention:",
                tips: &[
                    "Put a namespace before the name, with a dot between them, write both in lower case, and do not use the name of a namespace as a name.",
                ],
                link: "https://opentelemetry.io/docs/specs/semconv/general/naming/",
                weight: 25,
            },
            Self::NoEmptyAttributes => Entry {
                id: "no-empty-attributes",
                title: "No Empty Attributes",
                description: "An attribute has a value.",
                fault: "These attributes are empty:",
                tips: &["Leave out an attribute that has nothing to say."],
                link: "https://opentelemetry.io/docs/specs/otel/common/",
                weight: 25,
            },
            Self::PreferDns => Entry {
                id: "prefer-dns",
                title: "Prefer DNS",
                description: "Services call each other by a name that DNS knows: an address changes when the service moves.",
                fault: "These attributes hold an IP address:",
                tips: &[],
                link: "https://opentelemetry.io/docs/specs/semconv/general/attributes/",
                weight: 100,
            },
            Self::SecureHttpsProtocol => Entry {
                id: "secure-https-protocol",
                title: "Secure HTTPS Protocol",
                description: "HTTP calls are encrypted, also inside your own network.",
                fault: "These spans show plain HTTP:",
                tips: &[],
                link: "https://opentelemetry.io/docs/specs/semconv/http/http-spans/",
                weight: 30,
            },
            Self::NoApiKeyLeak => Entry {
                id: "no-api-key-leak",
                title: "No API Key Leak",
                description: "Telemetry holds no credentials: headers that carry them are not recorded, or are removed in the collector.",
                fault: "These attributes hold credentials:",
                tips: &[],
                link: "https://opentelemetry.io/docs/security/handling-sensitive-data/",
                weight: 70,
            },
        }
    }

    /// Returns the name used in files.
    pub const fn as_str(self) -> &'static str {
        self.entry().id
    }

    /// Finds the rule with this name.
    pub fn named(name: &str) -> Option<Self> {
        PluginId::ALL.iter().flat_map(|plugin| plugin.rules()).copied().find(|rule| rule.as_str() == name)
    }
}
