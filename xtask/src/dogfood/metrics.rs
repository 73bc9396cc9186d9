//! The metrics of the subject in Prometheus, which gets them in three ways: it scrapes the subject, it scrapes the
//! Collector, and the subject sends OTLP to it. All have the names that the conventions give to the metrics of the
//! Collector's file, valid histograms, and the same values.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::ledger;
use crate::process;

/// The job that scrapes the subject.
pub(crate) const SERVER_JOB: &str = "server";
/// The job that scrapes the Collector.
pub(crate) const COLLECTOR_JOB: &str = "collector";
/// The name that the OTLP receiver gives to the metrics of a service.
const OTLP_JOB: &str = "qualitytrace";
/// Made by Prometheus and the Collector themselves.
const ABOUT_TARGETS: [&str; 3] = ["up", "target_info", "otel_scope_info"];
const ABOUT_SCRAPES: &str = "scrape_";
/// A name of the Collector and of the OTLP receiver, and the one of `/metrics`, where only a histogram may end in `_count`.
const RENAMED: [&str; 2] = ["process_unix_file_descriptor_count", "process_unix_file_descriptor"];
/// Labels that say which way a series came.
const WAYS: [&str; 4] = ["job", "instance", "exported_job", "exported_instance"];
const SCOPE: &str = "otel_scope_";
/// Counted when a run ends, so that they stand still between suites.
const STILL: [&str; 2] = ["qualitytrace_runs_total", "qualitytrace_run_phase_duration_seconds_count"];

/// A series: its name and the labels that the metric has.
type Series = (String, BTreeMap<String, String>);

/// Returns what is wrong, which may be right a moment later.
pub(crate) fn check(prometheus: &str, file: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).context("failed to read the Collector's file")?;
    let mut expected = Written::read(&text)?;
    let mut wrong = Vec::new();
    for job in [COLLECTOR_JOB, OTLP_JOB, SERVER_JOB] {
        let [others, ours] = RENAMED;
        if job == SERVER_JOB && expected.names.remove(others) {
            expected.names.insert(ours.to_owned());
        }
        let series = stored(prometheus, job)?;
        wrong.extend(compare(&expected, &series).into_iter().map(|what| format!("job {job}: {what}")));
    }
    wrong.extend(failing_rules(prometheus)?);
    Ok(wrong)
}

/// The metrics of the Collector's file, as Prometheus names them.
#[derive(Debug, Default, PartialEq)]
struct Written {
    names: BTreeSet<String>,
    /// The last values of those that stand still.
    still: BTreeMap<Series, f64>,
}

impl Written {
    fn read(text: &str) -> Result<Self> {
        let mut written = Self::default();
        for document in ledger::documents(text) {
            for (_, metric) in ledger::items(&document?, ["resourceMetrics", "scopeMetrics", "metrics"]) {
                written.take(metric);
            }
        }
        Ok(written)
    }

    fn take(&mut self, metric: &Value) {
        let word = |key: &str| metric[key].as_str().unwrap_or_default();
        let base = conventional(word("name"), word("unit"));
        let points = |kind: &str| metric[kind]["dataPoints"].as_array().into_iter().flatten();
        if metric["histogram"].is_object() {
            self.names.extend(["bucket", "sum", "count"].map(|part| format!("{base}_{part}")));
            for point in points("histogram") {
                self.keep(format!("{base}_count"), point, "count");
            }
        } else if metric["sum"]["isMonotonic"] == true {
            self.names.insert(format!("{base}_total"));
            for point in points("sum") {
                self.keep(format!("{base}_total"), point, "asInt");
            }
        } else {
            self.names.insert(base);
        }
    }

    fn keep(&mut self, name: String, point: &Value, key: &str) {
        if !STILL.contains(&name.as_str()) {
            return;
        }
        let attributes = point["attributes"].as_array().into_iter().flatten();
        let labels = attributes.map(|attribute| {
            let key = attribute["key"].as_str().unwrap_or_default().replace('.', "_");
            (key, attribute["value"]["stringValue"].as_str().unwrap_or_default().to_owned())
        });
        // OTLP has these numbers as texts.
        let value = point[key].as_str().and_then(|number| number.parse().ok()).unwrap_or(f64::NAN);
        self.still.insert((name, labels.collect()), value);
    }
}

/// The name of a metric in Prometheus, by the conventions of OpenTelemetry: dots are underscores, and the unit comes last
/// unless it is an annotation or in the name already.
fn conventional(name: &str, unit: &str) -> String {
    let name = name.replace('.', "_");
    let unit = match unit {
        "s" => "seconds",
        "By" => "bytes",
        _ => return name,
    };
    if name.ends_with(unit) { name } else { format!("{name}_{unit}") }
}

/// The current values of a job.
fn stored(prometheus: &str, job: &str) -> Result<BTreeMap<Series, f64>> {
    let answer = process::get(&format!("{prometheus}/api/v1/query?query=%7Bjob%3D%22{job}%22%7D"))?;
    let answer: Value = serde_json::from_str(&answer)?;
    let series = answer["data"]["result"].as_array().context("the answer has no result")?;
    let mut stored = BTreeMap::new();
    for one in series {
        let mut labels: BTreeMap<String, String> = serde_json::from_value(one["metric"].clone())?;
        let name = labels.remove("__name__").unwrap_or_default();
        labels.retain(|label, _| !WAYS.contains(&label.as_str()) && !label.starts_with(SCOPE));
        let value = one["value"][1].as_str().context("a series has no value")?;
        stored.insert((name, labels), value.parse()?);
    }
    Ok(stored)
}

/// Compares the series of one job with the file.
fn compare(expected: &Written, series: &BTreeMap<Series, f64>) -> Vec<String> {
    let is_metric =
        |name: &&String| !ABOUT_TARGETS.contains(&name.as_str()) && !name.starts_with(ABOUT_SCRAPES);
    let names: BTreeSet<String> = series.keys().map(|(name, _)| name).filter(is_metric).cloned().collect();
    let mut wrong = Vec::new();
    wrong.extend(expected.names.difference(&names).map(|name| format!("{name} is missing")));
    wrong.extend(names.difference(&expected.names).map(|name| format!("{name} is no name by convention")));
    let still: BTreeMap<Series, f64> = series
        .iter()
        .filter(|((name, _), _)| STILL.contains(&name.as_str()))
        .map(|(series, value)| (series.clone(), *value))
        .collect();
    if still != expected.still {
        wrong.push(format!("the values are {still:?}, and those of the file are {:?}", expected.still));
    }
    wrong.extend(invalid_histograms(series));
    wrong
}

/// Checks that buckets are cumulative, that the last one holds all values, and that there is a sum.
fn invalid_histograms(series: &BTreeMap<Series, f64>) -> Vec<String> {
    let mut histograms: BTreeMap<Series, Vec<(f64, f64)>> = BTreeMap::new();
    for ((name, labels), count) in series {
        if let (Some(base), Some(bound)) = (name.strip_suffix("_bucket"), labels.get("le")) {
            let mut labels = labels.clone();
            let bound = bound.parse().unwrap_or(f64::NAN);
            labels.remove("le");
            histograms.entry((base.to_owned(), labels)).or_default().push((bound, *count));
        }
    }
    let mut wrong = Vec::new();
    for ((base, labels), mut buckets) in histograms {
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        let part = |part: &str| series.get(&(format!("{base}_{part}"), labels.clone()));
        let all = buckets.last().filter(|(bound, _)| *bound == f64::INFINITY).map(|(_, count)| count);
        let is_valid = buckets.is_sorted_by(|one, other| one.1 <= other.1)
            && all.is_some()
            && all == part("count")
            && part("sum").is_some();
        if !is_valid {
            wrong.push(format!("the histogram {base} {labels:?} is not valid: {buckets:?}"));
        }
    }
    wrong
}

/// The rules that Prometheus has not evaluated, or not without an error.
fn failing_rules(prometheus: &str) -> Result<Vec<String>> {
    let answer: Value = serde_json::from_str(&process::get(&format!("{prometheus}/api/v1/rules"))?)?;
    let groups = answer["data"]["groups"].as_array().context("the answer has no groups")?;
    let rules: Vec<&Value> =
        groups.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten()).collect();
    if rules.is_empty() {
        return Ok(vec!["Prometheus has no rules".to_owned()]);
    }
    let failing = rules.into_iter().filter(|rule| rule["health"] != "ok");
    Ok(failing
        .map(|rule| format!("the rule {} is {}: {}", rule["name"], rule["health"], rule["lastError"]))
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Reads lines of a name, perhaps a label, and a value.
    fn series(text: &str) -> BTreeMap<Series, f64> {
        let lines = text.lines().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let labels = words.iter().filter_map(|word| word.split_once('='));
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            ((words[0].to_owned(), labels), words[words.len() - 1].parse().unwrap())
        });
        lines.collect()
    }

    fn written() -> Written {
        let metrics = json!([
            { "name": "qualitytrace.runs", "unit": "{run}", "sum": { "isMonotonic": true, "dataPoints": [
                { "attributes": [{ "key": "state", "value": { "stringValue": "FINISHED" } }], "asInt": "3" }] } },
            { "name": "wait", "unit": "s", "histogram": { "dataPoints": [] } },
            { "name": "store.retained_bytes", "unit": "By", "gauge": {} },
        ]);
        let document = json!({ "resourceMetrics": [{ "scopeMetrics": [{ "metrics": metrics }] }] });
        Written::read(&format!("{document}\n")).unwrap()
    }

    #[test]
    fn names_values_and_histograms_are_compared() {
        let right = "\
up 1
scrape_duration_seconds 0.1
qualitytrace_runs_total state=FINISHED 3
store_retained_bytes 9
wait_seconds_bucket le=0.5 1
wait_seconds_bucket le=+Inf 2
wait_seconds_count 2
wait_seconds_sum 2.5";
        assert_eq!(compare(&written(), &series(right)), [""; 0]);
        for (line, other, part) in [
            ("FINISHED 3", "FINISHED 2", "the values are"),
            ("store_retained_bytes", "store_retained", "store_retained is no name by convention"),
            ("le=0.5 1", "le=0.5 3", "wait_seconds {} is not valid"),
            ("count 2", "count 1", "wait_seconds {} is not valid"),
            ("le=+Inf 2", "le=9 2", "wait_seconds {} is not valid"),
        ] {
            let told = compare(&written(), &series(&right.replace(line, other))).join("\n");
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}
