//! Views of the configuration as views of the SDK, which decide the streams of an instrument.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use opentelemetry::Key;
use opentelemetry_sdk::metrics::{
    self as sdk, Instrument, InstrumentKind, MeterProviderBuilder, Stream as SdkStream,
};

use crate::{
    config::{
        Aggregation, AttributeKeys, DefaultHistogram, InstrumentType, Level, MetricView, Metrics, Selector,
    },
    pattern,
};

/// Properties of a stream besides its points.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    /// The name of the instrument.
    pub(super) instrument: String,
    /// Whether the instrument is an observable counter.
    pub(super) is_observed_counter: bool,
    /// Which attributes are kept; `None` is all of them.
    pub(super) keys: Option<AttributeKeys>,
}

/// The streams of all instruments, by scope and name.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<HashMap<(String, String), Arc<Shape>>>);

impl Streams {
    fn shapes(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<Shape>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, scope: &str, name: &str) -> Option<Arc<Shape>> {
        self.shapes().get(&(scope.to_owned(), name.to_owned())).cloned()
    }

    /// Registers a stream; returns whether it is new. The first stream of a name wins, as in the SDK.
    fn note(&self, instrument: &Instrument, name: &str, keys: Option<&AttributeKeys>) -> bool {
        let mut is_new = false;
        let id = (instrument.scope().name().to_owned(), name.to_owned());
        self.shapes().entry(id).or_insert_with(|| {
            is_new = true;
            Arc::new(Shape {
                instrument: instrument.name().to_owned(),
                is_observed_counter: instrument.kind() == InstrumentKind::ObservableCounter,
                keys: keys.cloned(),
            })
        });
        is_new
    }
}

/// Installs all views in the SDK.
pub(super) fn install(
    mut builder: MeterProviderBuilder,
    settings: &Metrics,
    log_level: Level,
    streams: &Arc<Streams>,
) -> MeterProviderBuilder {
    let settings = Arc::new(settings.clone());
    for at in 0..settings.views.len() {
        let (settings, streams) = (settings.clone(), streams.clone());
        builder = builder.with_view(move |instrument: &Instrument| {
            let view = &settings.views[at];
            let stream = || of_view(view, instrument, &settings, log_level, &streams);
            view.selector.selects(instrument).then(stream)?
        });
    }
    let streams = streams.clone();
    builder.with_view(move |instrument: &Instrument| {
        if settings.views.iter().any(|view| view.selector.selects(instrument)) {
            return None;
        }
        streams.note(instrument, instrument.name(), None);
        by_nature(instrument, &settings)
    })
}

/// The stream of an instrument that no view selects; `None` is the default of the SDK.
fn by_nature(instrument: &Instrument, settings: &Metrics) -> Option<SdkStream> {
    let kind = kind(instrument);
    let mut stream = SdkStream::builder().with_cardinality_limit(settings.cardinality.of(kind));
    if let Some(aggregation) = default_aggregation(kind, settings) {
        stream = stream.with_aggregation(aggregation);
    }
    stream.build().ok()
}

fn of_view(
    view: &MetricView,
    instrument: &Instrument,
    settings: &Metrics,
    log_level: Level,
    streams: &Streams,
) -> Option<SdkStream> {
    let (wanted, kind) = (&view.stream, kind(instrument));
    let name = wanted.name.as_deref().unwrap_or(instrument.name());
    let keys = Some(&wanted.attributes).filter(|keys| !keys.keep_all());
    let is_new = streams.note(instrument, name, keys);
    let mut stream = SdkStream::builder().with_name(name.to_owned());
    if let Some(description) = &wanted.description {
        stream = stream.with_description(description.clone());
    }
    let fitting = wanted.aggregation.as_ref().filter(|aggregation| kind.fits(aggregation));
    if let Some(aggregation) = wanted.aggregation.as_ref().filter(|_| fitting.is_none())
        && is_new
        && log_level <= Level::Warn
    {
        let (instrument, kind, aggregation) = (instrument.name(), kind.name(), aggregation.name());
        tracing::warn!(
            instrument,
            kind,
            aggregation,
            "telemetry view does not fit the instrument, which keeps its own aggregation"
        );
    }
    if let Some(aggregation) = fitting.and_then(sdk_aggregation).or(default_aggregation(kind, settings)) {
        stream = stream.with_aggregation(aggregation);
    }
    if let Some(keys) = wanted.attributes.as_list() {
        stream = stream.with_allowed_attribute_keys(keys.into_iter().map(Key::new));
    }
    let limit = wanted.cardinality_limit.unwrap_or(settings.cardinality.of(kind));
    stream.with_cardinality_limit(limit).build().ok()
}

fn default_aggregation(kind: InstrumentType, settings: &Metrics) -> Option<sdk::Aggregation> {
    match settings.default_histogram {
        DefaultHistogram::Base2ExponentialBucketHistogram if kind == InstrumentType::Histogram => {
            sdk_aggregation(&Aggregation::exponential())
        }
        DefaultHistogram::Base2ExponentialBucketHistogram | DefaultHistogram::ExplicitBucketHistogram => None,
    }
}

fn sdk_aggregation(aggregation: &Aggregation) -> Option<sdk::Aggregation> {
    Some(match aggregation {
        Aggregation::Default => return None,
        Aggregation::Drop => sdk::Aggregation::Drop,
        Aggregation::Sum => sdk::Aggregation::Sum,
        Aggregation::LastValue => sdk::Aggregation::LastValue,
        Aggregation::ExplicitBucketHistogram { boundaries, record_min_max } => {
            sdk::Aggregation::ExplicitBucketHistogram {
                boundaries: boundaries.clone(),
                record_min_max: *record_min_max,
            }
        }
        Aggregation::Base2ExponentialBucketHistogram { max_size, max_scale, record_min_max } => {
            sdk::Aggregation::Base2ExponentialHistogram {
                max_size: *max_size,
                max_scale: *max_scale,
                record_min_max: *record_min_max,
            }
        }
    })
}

fn kind(instrument: &Instrument) -> InstrumentType {
    match instrument.kind() {
        InstrumentKind::Counter => InstrumentType::Counter,
        InstrumentKind::UpDownCounter => InstrumentType::UpDownCounter,
        InstrumentKind::Histogram => InstrumentType::Histogram,
        InstrumentKind::ObservableCounter => InstrumentType::ObservableCounter,
        InstrumentKind::ObservableUpDownCounter => InstrumentType::ObservableUpDownCounter,
        InstrumentKind::Gauge => InstrumentType::Gauge,
        InstrumentKind::ObservableGauge => InstrumentType::ObservableGauge,
    }
}

impl Selector {
    fn selects(&self, instrument: &Instrument) -> bool {
        let scope = instrument.scope();
        let same =
            |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|wanted| wanted == text);
        let named = |pattern: &String| {
            pattern::matches_text(&pattern.to_lowercase(), &instrument.name().to_lowercase())
        };
        self.instrument_name.as_ref().is_none_or(named)
            && self.instrument_type.is_none_or(|wanted| wanted == kind(instrument))
            && same(&self.unit, instrument.unit())
            && same(&self.meter_name, scope.name())
            && same(&self.meter_version, scope.version().unwrap_or_default())
            && same(&self.meter_schema_url, scope.schema_url().unwrap_or_default())
    }
}

impl AttributeKeys {
    /// Whether an attribute is kept.
    pub(super) fn keep(&self, key: &str) -> bool {
        let fits = |patterns: &[String]| patterns.iter().any(|pattern| pattern::matches_text(pattern, key));
        self.included.as_deref().is_none_or(fits) && !fits(&self.excluded)
    }

    fn keep_all(&self) -> bool {
        self.included.is_none() && self.excluded.is_empty()
    }

    /// The kept keys, if they can be listed. The SDK then drops the others before it aggregates; otherwise series are
    /// merged when they are collected.
    pub(super) fn as_list(&self) -> Option<Vec<String>> {
        let included = self.included.as_ref()?;
        let is_plain = included.iter().all(|key| !key.contains(['*', '?']));
        is_plain.then(|| included.iter().filter(|key| self.keep(key)).cloned().collect())
    }
}
