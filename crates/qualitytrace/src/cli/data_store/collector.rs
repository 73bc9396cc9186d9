//! Configurations of the OpenTelemetry Collector: spans go to a data store, and a copy comes to us.

/// An exporter for a type of data store.
struct Exporter {
    kind: &'static str,
    /// Its name in the Collector, with the lines below it. Empty where spans are only sent to us.
    name: &'static str,
    lines: &'static [&'static str],
}

const fn exporter(kind: &'static str, name: &'static str, lines: &'static [&'static str]) -> Exporter {
    Exporter { kind, name, lines }
}

/// Every type. What a user must fill in is a variable of the environment.
const EXPORTERS: [Exporter; 20] = [
    exporter("jaeger", "otlp/jaeger", &["endpoint: jaeger:4317", "tls: { insecure: true }"]),
    exporter(
        "tempo",
        "otlp/tempo",
        &["endpoint: tempo:4317", "tls: { insecure: true }", "# headers: { x-scope-orgid: TENANT }"],
    ),
    exporter("zipkin", "zipkin", &["endpoint: http://zipkin:9411/api/v2/spans"]),
    exporter(
        "opensearch",
        "opensearch",
        &[
            "# Of the contrib distribution. The index is ss4o_traces-default-namespace.",
            "http:",
            "  endpoint: http://opensearch:9200",
        ],
    ),
    exporter(
        "elasticapm",
        "otlp/elastic",
        &[
            "endpoint: apm-server:8200",
            "headers: { authorization: \"Bearer ${env:ELASTIC_APM_SECRET_TOKEN}\" }",
        ],
    ),
    exporter(
        "signalfx",
        "otlphttp/signalfx",
        &[
            "traces_endpoint: https://ingest.${env:SPLUNK_REALM}.signalfx.com/v2/trace/otlp",
            "headers: { x-sf-token: \"${env:SPLUNK_ACCESS_TOKEN}\" }",
        ],
    ),
    exporter("awsxray", "awsxray", &["# Of the contrib distribution.", "region: ${env:AWS_REGION}"]),
    exporter(
        "azureappinsights",
        "azuremonitor",
        &[
            "# Of the contrib distribution.",
            "connection_string: ${env:APPLICATIONINSIGHTS_CONNECTION_STRING}",
        ],
    ),
    exporter("sumologic", "otlphttp/sumologic", &["endpoint: ${env:SUMOLOGIC_OTLP_URL}"]),
    exporter(
        "clickhouse",
        "clickhouse",
        &[
            "# Of the contrib distribution.",
            "endpoint: tcp://clickhouse:9000",
            "database: default",
            "traces_table_name: otel_traces",
        ],
    ),
    exporter(
        "datadog",
        "datadog",
        &["# Of the contrib distribution.", "api: { key: \"${env:DD_API_KEY}\" }"],
    ),
    exporter(
        "dynatrace",
        "otlphttp/dynatrace",
        &[
            "endpoint: ${env:DYNATRACE_URL}/api/v2/otlp",
            "headers: { authorization: \"Api-Token ${env:DYNATRACE_TOKEN}\" }",
        ],
    ),
    exporter(
        "honeycomb",
        "otlp/honeycomb",
        &["endpoint: api.honeycomb.io:443", "headers: { x-honeycomb-team: \"${env:HONEYCOMB_KEY}\" }"],
    ),
    exporter(
        "instana",
        "otlp/instana",
        &["endpoint: ${env:INSTANA_ENDPOINT}", "headers: { x-instana-key: \"${env:INSTANA_KEY}\" }"],
    ),
    exporter(
        "lightstep",
        "otlp/lightstep",
        &[
            "endpoint: ingest.lightstep.com:443",
            "headers: { lightstep-access-token: \"${env:LIGHTSTEP_TOKEN}\" }",
        ],
    ),
    exporter(
        "newrelic",
        "otlp/newrelic",
        &["endpoint: otlp.nr-data.net:4317", "headers: { api-key: \"${env:NEW_RELIC_KEY}\" }"],
    ),
    exporter("signoz", "otlp/signoz", &["endpoint: signoz-otel-collector:4317", "tls: { insecure: true }"]),
    exporter(
        "dash0",
        "otlp/dash0",
        &["endpoint: ${env:DASH0_ENDPOINT}", "headers: { authorization: \"Bearer ${env:DASH0_TOKEN}\" }"],
    ),
    exporter("otlp", "", &[]),
    exporter("agent", "", &[]),
];

/// The types that have a configuration.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    EXPORTERS.iter().map(|exporter| exporter.kind)
}

/// Returns the configuration for a type of data store; `None` if it is unknown. `endpoint` is where we take OTLP.
pub(super) fn configuration(kind: &str, endpoint: &str) -> Option<String> {
    let Exporter { name, lines, .. } = EXPORTERS.iter().find(|exporter| exporter.kind == kind)?;
    let (mut store, mut names) = (String::new(), "otlp/qualitytrace".to_owned());
    if !name.is_empty() {
        store = format!("  {name}:\n");
        for line in *lines {
            store.extend(["    ", *line, "\n"]);
        }
        names = format!("{name}, {names}");
    }
    Some(format!(
        "\
# Spans of the system under test go to the data store ({kind}), and a copy to Qualitytrace.
receivers:
  otlp:
    protocols:
      grpc: {{ endpoint: 0.0.0.0:4317 }}
      http: {{ endpoint: 0.0.0.0:4318 }}
processors:
  batch: {{ timeout: 100ms }}
exporters:
{store}  otlp/qualitytrace:
    endpoint: {endpoint}
    tls: {{ insecure: true }}
service:
  pipelines:
    traces:
      receivers: [otlp]
      processors: [batch]
      exporters: [{names}]
"
    ))
}
