//! The trees of the language. Two trees are equal when they say the same, wherever they stand.

use std::ops::Range;

/// Where a node stands in its text, in bytes. It never makes two nodes differ.
#[derive(Debug, Clone, Default)]
pub struct Place(pub Range<usize>);

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Place {}

impl From<Range<usize>> for Place {
    fn from(range: Range<usize>) -> Self {
        Self(range)
    }
}

/// Which spans: those of every chain, in the order of the chains. No chain at all means every span.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector {
    /// The members of the comma list.
    pub chains: Vec<Chain>,
    /// Where it stands.
    pub place: Place,
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
    /// Whether it means one of the spans found: `:first`, `:last`, `:nth_child(n)`.
    pub fn has_position(&self) -> bool {
        self.pseudos.iter().any(|pseudo| matches!(pseudo, Pseudo::First | Pseudo::Last | Pseudo::Nth(_)))
    }
}

/// Steps through the tree, from the outermost to the span that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The spans to begin with, found anywhere.
    pub first: Step,
    /// Where to go from there.
    pub rest: Vec<(Combinator, Step)>,
}

/// How the next step's spans stand to those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combinator {
    /// Anywhere below.
    Descendant,
    /// Directly below: `>`.
    Child,
    /// Under the same parent and later: `~`.
    Sibling,
    /// Under the same parent and the very next: `+`.
    Next,
}

/// `span[...]` with what follows its bracket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What a span must satisfy.
    pub condition: Condition,
    /// Further conditions on the span's place.
    pub pseudos: Vec<Pseudo>,
    /// Where it stands.
    pub place: Place,
}

/// What a span must satisfy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// One test of one field.
    Clause(Clause),
    /// The opposite.
    Not(Box<Condition>),
    /// Every one of these; an empty list always holds.
    All(Vec<Condition>),
    /// At least one of these.
    Any(Vec<Condition>),
}

/// One test of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// What to look at.
    pub name: Name,
    /// What must be true of it.
    pub test: Test,
    /// Where it stands.
    pub place: Place,
}

/// A field or an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Its name.
    pub text: String,
    /// Whether it was written in quotes: then it is an attribute and nothing else.
    pub quoted: bool,
    /// Where it stands.
    pub place: Place,
}

/// What must be true of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// It compares like this with a literal.
    Compare(Comparator, Literal),
    /// It matches this regular expression.
    Matches {
        /// Or rather does not.
        negated: bool,
        /// The expression.
        pattern: String,
        /// Where the expression stands.
        place: Place,
    },
    /// It is one of these.
    OneOf {
        /// Or rather none of them.
        negated: bool,
        /// The choices.
        choices: Vec<Literal>,
    },
    /// The span has it.
    Exists {
        /// Or rather does not.
        negated: bool,
    },
}

/// A value written in a selector.
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

/// A condition on the place of a span among the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pseudo {
    /// The first of those found.
    First,
    /// The last of those found.
    Last,
    /// The n-th of those found, counted from one.
    Nth(u64),
    /// It has no parent.
    Root,
    /// It has no children.
    Leaf,
    /// Spans that match are below it.
    Has {
        /// How they stand to it.
        combinator: Combinator,
        /// Which spans.
        selector: Selector,
    },
    /// It is not one of these.
    Not(Selector),
}

/// How two values are compared.
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

    /// The word or sign that users write.
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

/// What must hold for the spans of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    /// For how many of them.
    pub quantifier: Quantifier,
    /// What.
    pub claim: Claim,
    /// Where it stands.
    pub place: Place,
}

/// For how many of the selected spans a claim must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Quantifier {
    /// For each of them.
    #[default]
    All,
    /// For at least one.
    Any,
    /// For not a single one.
    None,
    /// For exactly so many.
    Exactly(u64),
    /// For so many or more.
    AtLeast(u64),
    /// For so many or fewer.
    AtMost(u64),
}

/// What is claimed of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Two values compare like this.
    Compare {
        /// The observed value.
        left: Expr,
        /// How they compare.
        comparator: Comparator,
        /// The expected value.
        right: Expr,
    },
    /// A value is an item of a list.
    OneOf {
        /// The observed value.
        left: Expr,
        /// Or rather is none of them.
        negated: bool,
        /// The list.
        right: Expr,
    },
    /// A value is there at all.
    Exists {
        /// The value.
        left: Expr,
        /// Or rather is not.
        negated: bool,
    },
    /// The span stands so in time to the spans of another selection.
    Time {
        /// How.
        relation: Relation,
        /// To which spans.
        selector: Selector,
    },
    /// Nothing that could be understood; a diagnostic says why.
    Hole,
}

impl Claim {
    /// Its expressions.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let (left, right) = match self {
            Self::Compare { left, right, .. } | Self::OneOf { left, right, .. } => (Some(left), Some(right)),
            Self::Exists { left, .. } => (Some(left), None),
            Self::Time { .. } | Self::Hole => (None, None),
        };
        left.into_iter().chain(right)
    }
}

/// How a span stands in time to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// It ends before the first of them begins.
    Before,
    /// It begins after the last of them has ended.
    After,
    /// It shares a moment with at least one of them.
    Overlaps,
    /// Between it and the nearest of them lies no more than this, as written.
    Within(String),
}

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expr {
    /// What it says.
    pub kind: ExprKind,
    /// Where it stands.
    pub place: Place,
}

impl Expr {
    /// The expressions that it is made of, without those inside of them.
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
            ExprKind::Aggregate { over: Over::Own(Some(inner)), .. } => vec![inner],
            ExprKind::Aggregate { .. }
            | ExprKind::Number(_)
            | ExprKind::Duration(_)
            | ExprKind::Bool(_)
            | ExprKind::Attribute(_)
            | ExprKind::Variable(_)
            | ExprKind::Hole => Vec::new(),
        }
    }

    /// Visits it and everything inside of it, from left to right.
    pub(crate) fn visit<'e>(&'e self, visit: &mut impl FnMut(&'e Self)) {
        visit(self);
        self.children().into_iter().for_each(|child| child.visit(visit));
    }
}

/// What an expression says.
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
        /// Its name.
        name: String,
        /// What it is given.
        arguments: Vec<Expr>,
    },
    /// Arithmetic with operators that bind equally: from left to right, however many there are.
    Calculation {
        /// The first operand.
        first: Box<Expr>,
        /// What to do with which operand; at least one.
        rest: Vec<(Operator, Expr)>,
    },
    /// Filters applied to a value, one after the other.
    Filtered {
        /// The value.
        input: Box<Expr>,
        /// The filters; at least one.
        filters: Vec<Filter>,
    },
    /// One value made from many spans.
    Aggregate {
        /// How.
        function: Aggregate,
        /// From what.
        over: Over,
    },
    /// Nothing that could be understood; a diagnostic says why.
    Hole,
}

/// `| name arguments`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Its name.
    pub name: String,
    /// Where the name stands.
    pub place: Place,
    /// What it is given.
    pub arguments: Vec<Expr>,
}

/// A piece of a text in quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Characters.
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
    /// The sign that users write.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
        }
    }
}

/// How one value is made from many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// How many there are.
    Count,
    /// All of them added.
    Sum,
    /// Their mean.
    Avg,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// How many different ones there are.
    Distinct,
    /// The first one.
    First,
    /// The last one.
    Last,
    /// The one that so many percent do not exceed.
    Percentile(u8),
}

impl Aggregate {
    /// The aggregate of this name.
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

/// What an aggregate is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// An expression on each span of the assertion's own selection; `None` stands for the spans themselves.
    Own(Option<Box<Expr>>),
    /// The spans of another selection, or an attribute of theirs.
    Selection {
        /// Which spans.
        selector: Selector,
        /// Which attribute.
        attribute: Option<String>,
    },
}
