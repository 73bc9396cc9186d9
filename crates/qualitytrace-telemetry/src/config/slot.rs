//! Typed slots of settings: accepted values, parsing and display.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{
    Aggregation, Compression, DefaultHistogram, ExemplarFilter, InstrumentType, Level, Sampler, Sync, Target,
    Temporality, metrics, value,
};
use crate::propagation::{Propagator, Propagators};

/// A typed reference to a field of the configuration.
#[derive(Debug)]
pub(super) enum Slot<'d> {
    /// A boolean.
    Switch(&'d mut bool),
    /// A number above 0.
    Count(&'d mut usize),
    /// The same as `u32`.
    Attempts(&'d mut u32),
    /// A size in bytes, with an optional unit.
    Size(&'d mut u64),
    /// A size of memory.
    Memory(&'d mut usize),
    /// Any duration above 0.
    Time(&'d mut Duration),
    /// A duration of at least a millisecond.
    Pause(&'d mut Duration),
    /// An interval at which metrics are collected.
    Interval(&'d mut Duration),
    /// Any text.
    Text(&'d mut String),
    /// Any text, or none.
    OptionalText(&'d mut Option<String>),
    /// A file or folder; a relative one is resolved against the file that names it.
    File(&'d mut Option<PathBuf>),
    /// A list of texts.
    List(&'d mut Vec<String>),
    /// A list of texts, or none.
    OptionalList(&'d mut Option<Vec<String>>),
    /// Levels of single targets.
    Targets(&'d mut Vec<Target>),
    /// Names of propagators.
    Propagators(&'d mut Propagators),
    /// The least severe level that is taken.
    Level(&'d mut Level),
    /// A percentage of traces.
    Sampling(&'d mut Sampler),
    /// A temporality.
    Temporality(&'d mut Temporality),
    /// A compression.
    Compression(&'d mut Compression),
    /// When spooled bytes are forced to the disk.
    Sync(&'d mut Sync),
    /// A number of series.
    Cardinality(&'d mut usize),
    /// A number of series, or none.
    OptionalCardinality(&'d mut Option<usize>),
    /// The default aggregation of histograms.
    DefaultHistogram(&'d mut DefaultHistogram),
    /// A filter of exemplars.
    ExemplarFilter(&'d mut ExemplarFilter),
    /// A type of instruments.
    InstrumentType(&'d mut Option<InstrumentType>),
    /// An aggregation, without its parameters.
    Aggregation(&'d mut Option<Aggregation>),
    /// A number of exponential buckets.
    MaxSize(&'d mut u32),
    /// The resolution of exponential buckets.
    MaxScale(&'d mut i8),
}

impl Slot<'_> {
    /// Describes the accepted values, for messages and for the documentation.
    pub(super) fn expected(&self) -> &'static str {
        match self {
            Self::Switch(_) => "true|false",
            Self::Count(_) | Self::Attempts(_) => "a whole number above 0",
            Self::Size(_) | Self::Memory(_) => "a size such as `64MiB`",
            Self::Time(_) | Self::Pause(_) => "a duration such as `1s` or `1m30s`",
            Self::Interval(_) => "a duration such as `30s`, at least `10ms`",
            Self::Text(_) | Self::OptionalText(_) => "a text",
            Self::File(_) => "a file name",
            Self::List(_) | Self::OptionalList(_) => "a list",
            Self::Targets(_) => "a list of `TARGET=LEVEL`, such as `h2=debug`",
            Self::Propagators(_) => Propagators::WORDS,
            Self::Level(_) => Level::WORDS,
            Self::Sampling(_) => "a percentage between 0 and 100",
            Self::Temporality(_) => Temporality::WORDS,
            Self::Compression(_) => Compression::WORDS,
            Self::Sync(_) => Sync::WORDS,
            Self::Cardinality(_) | Self::OptionalCardinality(_) => metrics::CARDINALITY,
            Self::DefaultHistogram(_) => metrics::DEFAULT_HISTOGRAM,
            Self::ExemplarFilter(_) => metrics::EXEMPLAR_FILTER,
            Self::InstrumentType(_) => metrics::INSTRUMENT_TYPE,
            Self::Aggregation(_) => metrics::AGGREGATION,
            Self::MaxSize(_) => metrics::MAX_SIZE,
            Self::MaxScale(_) => metrics::MAX_SCALE,
        }
    }

    /// Whether it holds several values.
    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::List(_) | Self::OptionalList(_) | Self::Targets(_) | Self::Propagators(_))
    }

    /// Parses and sets a value; `None` if it is invalid. A list is separated by commas.
    pub(super) fn set(self, text: &str, base: Option<&Path>) -> Option<()> {
        match self {
            Self::Switch(target) => *target = value::boolean(text)?,
            Self::Count(target) => *target = text.parse().ok().filter(|count| *count > 0)?,
            Self::Attempts(target) => *target = text.parse().ok().filter(|count| *count > 0)?,
            Self::Size(target) => *target = value::bytes(text)?,
            Self::Memory(target) => *target = usize::try_from(value::bytes(text)?).ok()?,
            Self::Time(target) => *target = value::duration(text)?,
            Self::Pause(target) => *target = value::pause(text)?,
            Self::Interval(target) => *target = value::interval(text)?,
            Self::Text(target) => text.clone_into(target),
            Self::OptionalText(target) => *target = Some(text.to_owned()),
            Self::File(target) => {
                *target = Some(base.map_or_else(|| PathBuf::from(text), |base| base.join(text)));
            }
            Self::List(_) | Self::OptionalList(_) | Self::Targets(_) | Self::Propagators(_) => {
                return self.set_all(&split(text)).is_empty().then_some(());
            }
            Self::Level(target) => *target = Level::parse(text)?,
            Self::Sampling(target) => *target = value::percent(text)?,
            Self::Temporality(target) => *target = Temporality::parse(text)?,
            Self::Compression(target) => *target = Compression::parse(text)?,
            Self::Sync(target) => *target = Sync::parse(text)?,
            Self::Cardinality(target) => *target = metrics::cardinality(text)?,
            Self::OptionalCardinality(target) => *target = Some(metrics::cardinality(text)?),
            Self::DefaultHistogram(target) => *target = DefaultHistogram::parse(text)?,
            Self::ExemplarFilter(target) => *target = ExemplarFilter::parse(text)?,
            Self::InstrumentType(target) => *target = Some(InstrumentType::parse(text)?),
            Self::Aggregation(target) => *target = Some(Aggregation::named(text)?),
            Self::MaxSize(target) => *target = metrics::max_size(text)?,
            Self::MaxScale(target) => *target = metrics::max_scale(text)?,
        }
        Some(())
    }

    /// Sets a list to the valid ones of these items; returns the indexes of the others. All items are invalid for a slot
    /// that holds a single value.
    pub(super) fn set_all(self, items: &[String]) -> Vec<usize> {
        let mut invalid = Vec::new();
        match self {
            Self::List(target) => *target = items.to_vec(),
            Self::OptionalList(target) => *target = Some(items.to_vec()),
            Self::Targets(target) => {
                target.clear();
                for (index, item) in items.iter().enumerate() {
                    match Target::parse(item) {
                        Some(parsed) => target.push(parsed),
                        None => invalid.push(index),
                    }
                }
            }
            Self::Propagators(Propagators(target)) => {
                target.clear();
                for (index, item) in items.iter().enumerate() {
                    let found = Propagator::ALL.into_iter().find(|propagator| propagator.name() == *item);
                    match found {
                        Some(propagator) if !target.contains(&propagator) => target.push(propagator),
                        Some(_) => {}
                        None if item == "none" || item.is_empty() => {}
                        None => invalid.push(index),
                    }
                }
            }
            _ => invalid.extend(0..items.len()),
        }
        invalid
    }

    /// Returns the value as `config show` prints it; empty if there is none.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Time(time) | Self::Pause(time) | Self::Interval(time) => format!("{time:?}"),
            _ => self.written(),
        }
    }

    /// Returns the value as it may be written; empty if there is none.
    pub(super) fn written(&self) -> String {
        match self {
            Self::Switch(on) => on.to_string(),
            Self::Count(number) | Self::Cardinality(number) => number.to_string(),
            Self::Attempts(number) | Self::MaxSize(number) => number.to_string(),
            Self::Size(size) => value::shown_bytes(**size),
            Self::Memory(size) => value::shown_bytes(**size as u64),
            Self::Time(time) | Self::Pause(time) | Self::Interval(time) => value::shown_duration(**time),
            Self::Text(text) => (*text).clone(),
            Self::OptionalText(text) => (*text).clone().unwrap_or_default(),
            Self::File(file) => file.as_ref().map(|file| file.display().to_string()).unwrap_or_default(),
            Self::List(items) => items.join(", "),
            Self::OptionalList(items) => items.as_ref().map(|items| items.join(", ")).unwrap_or_default(),
            Self::Targets(targets) => Target::written(targets),
            Self::Propagators(propagators) => propagators.to_string(),
            Self::Level(level) => level.name().to_owned(),
            Self::Sampling(sampler) => sampler.percent().to_string(),
            Self::Temporality(temporality) => temporality.name().to_owned(),
            Self::Compression(compression) => compression.name().to_owned(),
            Self::Sync(sync) => sync.name().to_owned(),
            Self::OptionalCardinality(limit) => limit.map(|limit| limit.to_string()).unwrap_or_default(),
            Self::DefaultHistogram(histogram) => histogram.name().to_owned(),
            Self::ExemplarFilter(filter) => filter.name().to_owned(),
            Self::InstrumentType(kind) => kind.map(InstrumentType::name).unwrap_or_default().to_owned(),
            Self::Aggregation(aggregation) => {
                aggregation.as_ref().map(Aggregation::name).unwrap_or_default().to_owned()
            }
            Self::MaxScale(scale) => scale.to_string(),
        }
    }
}

/// The items of a comma-separated text.
pub(super) fn split(text: &str) -> Vec<String> {
    text.split(',').map(|part| part.trim().to_owned()).collect()
}
