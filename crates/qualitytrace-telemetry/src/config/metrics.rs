//! The metrics configuration: views, limits on series, exemplars. The words are OpenTelemetry's.

/// How measurements are aggregated into metrics. All sinks and the Prometheus exposition share it; it is fixed when the
/// telemetry starts.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Views replace the default streams of instruments. Every view that selects an instrument makes a stream of its
    /// own; an instrument that no view selects keeps its default stream.
    pub views: Vec<MetricView>,
    /// How histograms are aggregated unless a view says otherwise.
    pub default_histogram: DefaultHistogram,
    /// How many series an instrument may have.
    pub cardinality: CardinalityLimits,
    /// Which measurements are kept as exemplars.
    pub exemplars: ExemplarFilter,
}

/// A view: a selector of instruments and the stream that they get.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct MetricView {
    /// Which instruments it selects.
    pub selector: Selector,
    /// The stream that they get.
    pub stream: Stream,
}

/// The criteria of a view. `None` matches all; the others must all match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Selector {
    /// The name, ignoring case; `*` matches any text, `?` any character.
    pub instrument_name: Option<String>,
    /// The type of the instrument.
    pub instrument_type: Option<InstrumentType>,
    /// The unit.
    pub unit: Option<String>,
    /// The name of the meter.
    pub meter_name: Option<String>,
    /// The version of the meter.
    pub meter_version: Option<String>,
    /// The schema of the meter.
    pub meter_schema_url: Option<String>,
}

/// The stream of a view. `None` keeps what the instrument asks for.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Stream {
    /// The name of the metric.
    pub name: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// How measurements are aggregated.
    pub aggregation: Option<Aggregation>,
    /// How many series there may be.
    pub cardinality_limit: Option<usize>,
    /// Which attributes are kept.
    pub attributes: AttributeKeys,
}

/// Which attributes of measurements are kept. Keys are compared case-sensitively; `*` matches any text, `?` any
/// character.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AttributeKeys {
    /// Those that are kept; `None` keeps all.
    pub included: Option<Vec<String>>,
    /// Those that are dropped, whatever `included` says.
    pub excluded: Vec<String>,
}

/// How measurements are aggregated.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Aggregation {
    /// The default of the instrument.
    Default,
    /// Not at all.
    Drop,
    /// As their sum.
    Sum,
    /// As the last of them.
    LastValue,
    /// As counts between these boundaries.
    ExplicitBucketHistogram {
        /// In ascending order.
        boundaries: Vec<f64>,
        /// Whether the minimum and the maximum are recorded.
        record_min_max: bool,
    },
    /// As counts in buckets that grow exponentially.
    Base2ExponentialBucketHistogram {
        /// Buckets above zero, and as many below.
        max_size: u32,
        /// The finest resolution, from -10 to 20.
        max_scale: i8,
        /// Whether the minimum and the maximum are recorded.
        record_min_max: bool,
    },
}

/// The type of an instrument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstrumentType {
    /// Adds up what is added.
    Counter,
    /// Keeps the last value.
    Gauge,
    /// Counts values in buckets.
    Histogram,
    /// Is read for a sum that only grows.
    ObservableCounter,
    /// Is read for a value.
    ObservableGauge,
    /// Is read for a sum.
    ObservableUpDownCounter,
    /// Adds up what is added and subtracted.
    UpDownCounter,
}

/// How histograms are aggregated unless a view says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DefaultHistogram {
    /// With the boundaries that the instrument asks for, else those of the specification.
    #[default]
    ExplicitBucketHistogram,
    /// With up to 160 buckets that grow exponentially.
    Base2ExponentialBucketHistogram,
}

/// Which measurements are kept as exemplars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ExemplarFilter {
    /// Those inside a sampled span.
    #[default]
    TraceBased,
    /// All.
    AlwaysOn,
    /// None.
    AlwaysOff,
}

/// How many series an instrument may have; further ones are added to one with the attribute `otel.metric.overflow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CardinalityLimits {
    /// The limit of every type without one of its own.
    pub default: usize,
    own: [Option<usize>; InstrumentType::ALL.len()],
}

impl Default for CardinalityLimits {
    fn default() -> Self {
        Self { default: 2_000, own: [None; InstrumentType::ALL.len()] }
    }
}

impl CardinalityLimits {
    /// The limit of a type.
    pub fn of(&self, kind: InstrumentType) -> usize {
        self.own[kind as usize].unwrap_or(self.default)
    }

    /// Gives a type a limit of its own.
    pub fn set(&mut self, kind: InstrumentType, limit: usize) {
        self.own[kind as usize] = Some(limit);
    }

    /// The larger limit of each type.
    pub(crate) fn larger(self, other: Self) -> Self {
        let mut both = Self { default: self.default.max(other.default), ..self };
        for kind in InstrumentType::ALL {
            both.set(kind, self.of(kind).max(other.of(kind)));
        }
        both
    }
}

impl InstrumentType {
    /// All types, in the order of their names.
    pub const ALL: [Self; 7] = [
        Self::Counter,
        Self::Gauge,
        Self::Histogram,
        Self::ObservableCounter,
        Self::ObservableGauge,
        Self::ObservableUpDownCounter,
        Self::UpDownCounter,
    ];

    /// Its name in the declarative configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::ObservableCounter => "observable_counter",
            Self::ObservableGauge => "observable_gauge",
            Self::ObservableUpDownCounter => "observable_up_down_counter",
            Self::UpDownCounter => "up_down_counter",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }

    /// Whether the instrument supports the aggregation.
    pub(crate) fn fits(self, aggregation: &Aggregation) -> bool {
        let is_gauge = matches!(self, Self::Gauge | Self::ObservableGauge);
        match aggregation {
            Aggregation::Sum => !is_gauge,
            Aggregation::LastValue => is_gauge,
            Aggregation::Default
            | Aggregation::Drop
            | Aggregation::ExplicitBucketHistogram { .. }
            | Aggregation::Base2ExponentialBucketHistogram { .. } => true,
        }
    }
}

pub(crate) const AGGREGATION: &str =
    "default|drop|sum|last_value|explicit_bucket_histogram|base2_exponential_bucket_histogram";
pub(crate) const INSTRUMENT_TYPE: &str =
    "counter|gauge|histogram|observable_counter|observable_gauge|observable_up_down_counter|up_down_counter";
pub(crate) const EXEMPLAR_FILTER: &str = "trace_based|always_on|always_off";
pub(crate) const DEFAULT_HISTOGRAM: &str = "explicit_bucket_histogram|base2_exponential_bucket_histogram";

/// The default boundaries of the specification.
const BOUNDARIES: [f64; 15] = [
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1_000.0, 2_500.0, 5_000.0, 7_500.0,
    10_000.0,
];

/// The default parameters of histograms, by the specification.
pub(crate) const DEFAULT_MAX_SIZE: u32 = 160;
pub(crate) const DEFAULT_MAX_SCALE: i8 = 20;
pub(crate) const DEFAULT_RECORD_MIN_MAX: bool = true;

impl Aggregation {
    /// An aggregation with the parameters of the specification.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "default" => Self::Default,
            "drop" => Self::Drop,
            "sum" => Self::Sum,
            "last_value" => Self::LastValue,
            "explicit_bucket_histogram" => Self::ExplicitBucketHistogram {
                boundaries: BOUNDARIES.to_vec(),
                record_min_max: DEFAULT_RECORD_MIN_MAX,
            },
            "base2_exponential_bucket_histogram" => Self::exponential(),
            _ => return None,
        })
    }

    /// Buckets that grow exponentially, with the parameters of the specification.
    pub fn exponential() -> Self {
        Self::Base2ExponentialBucketHistogram {
            max_size: DEFAULT_MAX_SIZE,
            max_scale: DEFAULT_MAX_SCALE,
            record_min_max: DEFAULT_RECORD_MIN_MAX,
        }
    }

    /// Its name in the declarative configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Drop => "drop",
            Self::Sum => "sum",
            Self::LastValue => "last_value",
            Self::ExplicitBucketHistogram { .. } => "explicit_bucket_histogram",
            Self::Base2ExponentialBucketHistogram { .. } => "base2_exponential_bucket_histogram",
        }
    }
}

impl DefaultHistogram {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let all = [Self::ExplicitBucketHistogram, Self::Base2ExponentialBucketHistogram];
        all.into_iter().find(|one| one.name() == text)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ExplicitBucketHistogram => "explicit_bucket_histogram",
            Self::Base2ExponentialBucketHistogram => "base2_exponential_bucket_histogram",
        }
    }
}

impl ExemplarFilter {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::TraceBased, Self::AlwaysOn, Self::AlwaysOff].into_iter().find(|filter| filter.name() == text)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TraceBased => "trace_based",
            Self::AlwaysOn => "always_on",
            Self::AlwaysOff => "always_off",
        }
    }
}

impl MetricView {
    /// Returns the invalid part of the stream, and why it is invalid.
    pub(crate) fn wrong(&self) -> Option<(&'static str, String)> {
        let name = self.selector.instrument_name.as_deref();
        if self.stream.name.is_some() && name.is_none_or(|name| name.contains(['*', '?'])) {
            let why = "several instruments would have one name: select a single instrument by its name";
            return Some(("name", why.to_owned()));
        }
        let kind = self.selector.instrument_type;
        if let (Some(kind), Some(aggregation)) = (kind, &self.stream.aggregation)
            && !kind.fits(aggregation)
        {
            return Some(("aggregation", format!("a `{}` cannot be aggregated so", kind.name())));
        }
        None
    }
}

/// Whether the numbers are finite and in ascending order.
pub(crate) fn are_boundaries(numbers: &[f64]) -> bool {
    numbers.iter().all(|number| number.is_finite()) && numbers.is_sorted_by(|a, b| a < b)
}

/// Parses a number of buckets.
pub(crate) fn max_size(text: &str) -> Option<u32> {
    text.parse().ok().filter(|size| (2..=MAX_BUCKETS).contains(size))
}

/// Parses the finest resolution of an exponential histogram.
pub(crate) fn max_scale(text: &str) -> Option<i8> {
    text.parse().ok().filter(|scale| (-10..=20).contains(scale))
}

/// Parses a number of series.
pub(crate) fn cardinality(text: &str) -> Option<usize> {
    text.parse().ok().filter(|limit| (1..=MAX_CARDINALITY).contains(limit))
}

/// The SDK allocates this many series at once.
const MAX_CARDINALITY: usize = 1_000_000;
const MAX_BUCKETS: u32 = 16_384;

pub(crate) const CARDINALITY: &str = "a whole number from 1 to 1000000";
pub(crate) const MAX_SIZE: &str = "a whole number from 2 to 16384";
pub(crate) const MAX_SCALE: &str = "a whole number from -10 to 20";
pub(crate) const BOUNDARY_LIST: &str = "numbers in ascending order";
