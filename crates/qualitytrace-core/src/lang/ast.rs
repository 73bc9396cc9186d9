//! Syntax trees of the language. Two trees are equal when they mean the same, wherever they are in their texts.

use std::ops::Range;

/// The byte range of a node in its text. All ranges are equal, so that they do not affect the equality of nodes.
#[derive(Debug, Clone, Default)]
pub struct SourceRange(pub Range<usize>);

impl PartialEq for SourceRange {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SourceRange {}

impl From<Range<usize>> for SourceRange {
    fn from(range: Range<usize>) -> Self {
        Self(range)
    }
}

/// A selector: the spans of every chain, in the order of the chains. No chain at all selects every span.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector {
    /// The members of the comma list.
    pub chains: Vec<Chain>,
    /// Its range in the text.
    pub place: SourceRange,
}

impl Selector {
    /// Every step of every chain.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.chains
            .iter()
            .flat_map(|chain| std::iter::once(&chain.first).chain(chain.rest.iter().map(|(_, step)| step)))
    }
}

impl Step {
    /// Whether it selects one of the matching spans by position: `:first`, `:last`, `:nth_child(n)`.
    pub fn has_position(&self) -> bool {
        self.pseudos.iter().any(|pseudo| matches!(pseudo, Pseudo::First | Pseudo::Last | Pseudo::Nth(_)))
    }
}

/// Steps through the tree, from the outermost to the selected span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The first step, matched anywhere.
    pub first: Step,
    /// The further steps.
    pub rest: Vec<(Combinator, Step)>,
}

/// The relation of a step's spans to those of the step before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combinator {
    /// Descendants.
    Descendant,
    /// Children: `>`.
    Child,
    /// Later siblings: `~`.
    Sibling,
    /// The next sibling: `+`.
    Next,
}

/// `span[...]` with its pseudo-classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What a span must satisfy.
    pub condition: Condition,
    /// Pseudo-classes: further conditions on the span's position.
    pub pseudos: Vec<Pseudo>,
    /// Its range in the text.
    pub place: SourceRange,
}

/// A condition on a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// One test of one field.
    Clause(Clause),
    /// The negation.
    Not(Box<Condition>),
    /// All of these; an empty list always holds.
    All(Vec<Condition>),
    /// At least one of these.
    Any(Vec<Condition>),
}

/// One test of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// The field or attribute.
    pub name: Name,
    /// The test.
    pub test: Test,
    /// Its range in the text.
    pub place: SourceRange,
}

/// A field or an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Its name.
    pub text: String,
    /// Whether it was written in quotes: then it can only be an attribute.
    pub quoted: bool,
    /// Its range in the text.
    pub place: SourceRange,
}

/// A test of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// It compares like this with a literal.
    Compare(Comparator, Literal),
    /// It matches this regular expression.
    Matches {
        /// Whether the test is negated.
        negated: bool,
        /// The regular expression.
        pattern: String,
        /// Its range in the text.
        place: SourceRange,
    },
    /// It is one of these values.
    OneOf {
        /// Whether the test is negated.
        negated: bool,
        /// The values.
        choices: Vec<Literal>,
    },
    /// The span has the field.
    Exists {
        /// Whether the test is negated.
        negated: bool,
    },
}

/// A literal in a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// Text in quotes.
    Text(String),
    /// A number in decimal, as written.
    Number(String),
    /// True or false.
    Bool(bool),
    /// A duration, as written without blanks.
    Duration(String),
    /// A word without quotes: a kind or a status.
    Word(String),
}

/// A pseudo-class: a condition on the position of a span among the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pseudo {
    /// The first match.
    First,
    /// The last match.
    Last,
    /// The n-th match, counted from one.
    Nth(u64),
    /// It has no parent.
    Root,
    /// It has no children.
    Leaf,
    /// It has matching spans below it.
    Has {
        /// Their relation to it.
        combinator: Combinator,
        /// Their selector.
        selector: Selector,
    },
    /// It does not match this selector.
    Not(Selector),
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `contains`
    Contains,
    /// `not-contains`
    NotContains,
    /// `json-contains`
    JsonContains,
    /// `not-json-contains`
    NotJsonContains,
    /// `startsWith`
    StartsWith,
    /// `endsWith`
    EndsWith,
    /// `matches`
    Matches,
    /// `not-matches`
    NotMatches,
}

impl Comparator {
    /// Every comparator.
    pub const ALL: [Self; 14] = [
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::LessOrEqual,
        Self::Greater,
        Self::GreaterOrEqual,
        Self::Contains,
        Self::NotContains,
        Self::JsonContains,
        Self::NotJsonContains,
        Self::StartsWith,
        Self::EndsWith,
        Self::Matches,
        Self::NotMatches,
    ];

    /// Returns the word or sign that users write.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Contains => "contains",
            Self::NotContains => "not-contains",
            Self::JsonContains => "json-contains",
            Self::NotJsonContains => "not-json-contains",
            Self::StartsWith => "startsWith",
            Self::EndsWith => "endsWith",
            Self::Matches => "matches",
            Self::NotMatches => "not-matches",
        }
    }
}

/// An assertion on the spans of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    /// For how many of them the claim must hold.
    pub quantifier: Quantifier,
    /// The claim.
    pub claim: Claim,
    /// Its range in the text.
    pub place: SourceRange,
}

/// For how many of the selected spans a claim must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Quantifier {
    /// For each of them.
    #[default]
    All,
    /// For at least one.
    Any,
    /// For none.
    None,
    /// For exactly this many.
    Exactly(u64),
    /// For this many or more.
    AtLeast(u64),
    /// For this many or fewer.
    AtMost(u64),
}

/// A claim about a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Two values compare like this.
    Compare {
        /// The observed value.
        left: Expr,
        /// The comparator.
        comparator: Comparator,
        /// The expected value.
        right: Expr,
    },
    /// A value is an item of a list.
    OneOf {
        /// The observed value.
        left: Expr,
        /// Whether the claim is negated.
        negated: bool,
        /// The list.
        right: Expr,
    },
    /// A value exists.
    Exists {
        /// The value.
        left: Expr,
        /// Whether the claim is negated.
        negated: bool,
    },
    /// A relation in time to the spans of another selection.
    Time {
        /// The relation.
        relation: Relation,
        /// The other spans.
        selector: Selector,
    },
    /// Text that could not be parsed; a diagnostic says why.
    Hole,
}

impl Claim {
    /// Returns its expressions.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let (left, right) = match self {
            Self::Compare { left, right, .. } | Self::OneOf { left, right, .. } => (Some(left), Some(right)),
            Self::Exists { left, .. } => (Some(left), None),
            Self::Time { .. } | Self::Hole => (None, None),
        };
        left.into_iter().chain(right)
    }
}

/// The relation of a span in time to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// It ends before the first of them begins.
    Before,
    /// It begins after the last of them has ended.
    After,
    /// It overlaps at least one of them.
    Overlaps,
    /// The gap to the nearest of them is at most this long, as written.
    Within(String),
}

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expr {
    /// Its content.
    pub kind: ExprKind,
    /// Its range in the text.
    pub place: SourceRange,
}

impl Expr {
    /// Returns its direct subexpressions.
    pub(crate) fn children<'e>(&'e self) -> Vec<&'e Self> {
        match &self.kind {
            ExprKind::Text(parts) => {
                let inner = |part: &'e Part| match part {
                    Part::Interpolation(inner) => Some(inner),
                    Part::Literal(_) => None,
                };
                parts.iter().filter_map(inner).collect()
            }
            ExprKind::Array(items) | ExprKind::Call { arguments: items, .. } => items.iter().collect(),
            ExprKind::Calculation { first, rest } => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand)).collect()
            }
            ExprKind::Filtered { input, filters } => {
                let arguments = filters.iter().flat_map(|filter| &filter.arguments);
                std::iter::once(&**input).chain(arguments).collect()
            }
            ExprKind::Aggregate { over: AggregateInput::Own(Some(inner)), .. } => vec![inner],
            ExprKind::Aggregate { .. }
            | ExprKind::Number(_)
            | ExprKind::Duration(_)
            | ExprKind::Bool(_)
            | ExprKind::Attribute(_)
            | ExprKind::Variable(_)
            | ExprKind::Hole => Vec::new(),
        }
    }

    /// Visits it and all of its subexpressions, from left to right.
    pub(crate) fn visit<'e>(&'e self, visit: &mut impl FnMut(&'e Self)) {
        visit(self);
        self.children().into_iter().for_each(|child| child.visit(visit));
    }
}

/// The content of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExprKind {
    /// A number, as written.
    Number(String),
    /// A duration, as written without blanks.
    Duration(String),
    /// True or false.
    Bool(bool),
    /// Text in quotes.
    Text(Vec<Part>),
    /// An attribute of the span: `attr:`.
    Attribute(String),
    /// A variable: `var:` or `env:`.
    Variable(String),
    /// A list.
    Array(Vec<Expr>),
    /// A generator.
    Call {
        /// The name of the function.
        name: String,
        /// Its arguments.
        arguments: Vec<Expr>,
    },
    /// Arithmetic with operators of equal precedence, evaluated from left to right; any number of them.
    Calculation {
        /// The first operand.
        first: Box<Expr>,
        /// The operators with their operands; at least one.
        rest: Vec<(Operator, Expr)>,
    },
    /// Filters applied to a value, one after the other.
    Filtered {
        /// The value.
        input: Box<Expr>,
        /// The filters; at least one.
        filters: Vec<Filter>,
    },
    /// One value computed from many spans.
    Aggregate {
        /// The aggregate function.
        function: Aggregate,
        /// Its input.
        over: AggregateInput,
    },
    /// Text that could not be parsed; a diagnostic says why.
    Hole,
}

/// `| name arguments`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Its name.
    pub name: String,
    /// The place of the name.
    pub place: SourceRange,
    /// Its arguments.
    pub arguments: Vec<Expr>,
}

/// A part of a text in quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Literal characters.
    Literal(String),
    /// `${...}`
    Interpolation(Expr),
}

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

impl Operator {
    /// Returns the sign that users write.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
        }
    }
}

/// An aggregate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// The number of values.
    Count,
    /// The sum.
    Sum,
    /// The mean.
    Avg,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The number of distinct values.
    Distinct,
    /// The first one.
    First,
    /// The last one.
    Last,
    /// The value that this percentage of values does not exceed.
    Percentile(u8),
}

impl Aggregate {
    /// Parses the name of an aggregate.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "sum" => Self::Sum,
            "avg" => Self::Avg,
            "min" => Self::Min,
            "max" => Self::Max,
            "distinct" => Self::Distinct,
            "first" => Self::First,
            "last" => Self::Last,
            _ => {
                let percent = name.strip_prefix('p')?;
                let percent =
                    percent.parse().ok().filter(|p: &u8| (1..=99).contains(p) && p.to_string() == percent)?;
                Self::Percentile(percent)
            }
        })
    }
}

/// The input of an aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AggregateInput {
    /// An expression on each span of the assertion's own selection; `None` means the spans themselves.
    Own(Option<Box<Expr>>),
    /// The spans of another selection, or an attribute of theirs.
    Selection {
        /// Their selector.
        selector: Selector,
        /// The attribute.
        attribute: Option<String>,
    },
}
