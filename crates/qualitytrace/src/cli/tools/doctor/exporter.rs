//! The exporter settings of an environment, as the OpenTelemetry specification names them.

use super::Finding;

/// The subject of these findings.
const WHAT: &str = "exporter";
/// A longer delay of batches makes every test wait for it.
const LONG_DELAY_MS: u64 = 5_000;

/// Looks at the variables that make a system send no spans, too few, or to the wrong place.
pub(super) fn findings(variable: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let mut found = Vec::new();
    let is = |name: &str, value: &str| variable(name).is_some_and(|given| given.eq_ignore_ascii_case(value));
    if is("OTEL_SDK_DISABLED", "true") {
        found.push(Finding::bad(
            WHAT,
            "OTEL_SDK_DISABLED is `true`: no span is made",
            "unset OTEL_SDK_DISABLED",
        ));
    }
    if let Some(exporters) = variable("OTEL_TRACES_EXPORTER")
        && !exporters.split(',').any(|exporter| exporter.trim() == "otlp")
    {
        let text = format!("OTEL_TRACES_EXPORTER is `{exporters}`: spans are not sent over OTLP");
        found.push(Finding::bad(WHAT, text, "set OTEL_TRACES_EXPORTER=otlp"));
    }
    found.push(endpoint(&variable));
    found.extend(sampler(&variable));
    if let Some(propagators) = variable("OTEL_PROPAGATORS")
        && !propagators.split(',').any(|known| known.trim() == "tracecontext")
    {
        let text =
            format!("OTEL_PROPAGATORS is `{propagators}`: services do not continue the trace of a test");
        found.push(Finding::bad(
            WHAT,
            text,
            "add `tracecontext`, as in OTEL_PROPAGATORS=tracecontext,baggage",
        ));
    }
    if let Some(delay) = variable("OTEL_BSP_SCHEDULE_DELAY").and_then(|delay| delay.parse::<u64>().ok())
        && delay > LONG_DELAY_MS
    {
        let text = format!("OTEL_BSP_SCHEDULE_DELAY is {delay} ms: every test waits for it");
        found.push(Finding::doubtful(WHAT, text, "set OTEL_BSP_SCHEDULE_DELAY=500 where tests run"));
    }
    if let Some(headers) = variable("OTEL_EXPORTER_OTLP_HEADERS")
        && headers.split(',').any(|header| !header.contains('='))
    {
        let text = "OTEL_EXPORTER_OTLP_HEADERS is no list of NAME=VALUE";
        found.push(Finding::bad(WHAT, text, "write it as NAME=VALUE,NAME=VALUE"));
    }
    found
}

/// Whether the endpoint fits the protocol.
fn endpoint(variable: &impl Fn(&str) -> Option<String>) -> Finding {
    let of = |rest: &str| {
        let name = format!("OTEL_EXPORTER_OTLP_TRACES_{rest}");
        let general = format!("OTEL_EXPORTER_OTLP_{rest}");
        variable(&name).map(|value| (name, value)).or_else(|| Some((general.clone(), variable(&general)?)))
    };
    let Some((name, endpoint)) = of("ENDPOINT") else {
        let text = "no endpoint is set in this environment: exporters send to localhost:4317 or 4318";
        return Finding::good(WHAT, text);
    };
    let protocol = of("PROTOCOL").map(|(_, protocol)| protocol);
    let Ok(url) = reqwest::Url::parse(&endpoint) else {
        let text = format!("{name} is no address: `{}`", without_password(&endpoint));
        return Finding::bad(WHAT, text, format!("write {name}=http://localhost:4318"));
    };
    let shown = without_password(&endpoint);
    let is_grpc = protocol.as_deref().map(|protocol| protocol == "grpc");
    match (url.port(), is_grpc) {
        (Some(4318), Some(true)) => Finding::bad(
            WHAT,
            format!("{name} is {shown}, and port 4318 speaks HTTP, not gRPC"),
            "use port 4317, or set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        ),
        (Some(4317), Some(false)) => Finding::bad(
            WHAT,
            format!("{name} is {shown}, and port 4317 speaks gRPC, not HTTP"),
            "use port 4318, or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
        ),
        (Some(4317), None) => Finding::doubtful(
            WHAT,
            format!("{name} is {shown}, and no protocol is set: most SDKs speak HTTP by default"),
            "set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or use port 4318",
        ),
        _ => Finding::good(WHAT, format!("{name} is {shown}")),
    }
}

/// Whether all spans are kept.
fn sampler(variable: &impl Fn(&str) -> Option<String>) -> Option<Finding> {
    let sampler = variable("OTEL_TRACES_SAMPLER")?;
    let ratio = variable("OTEL_TRACES_SAMPLER_ARG").and_then(|ratio| ratio.parse::<f64>().ok());
    let next = "set OTEL_TRACES_SAMPLER=parentbased_always_on: tests mark their traces as sampled";
    match (sampler.as_str(), ratio) {
        ("always_off", _) => {
            Some(Finding::bad(WHAT, "OTEL_TRACES_SAMPLER is `always_off`: no span is kept", next))
        }
        ("traceidratio", Some(ratio)) if ratio < 1.0 => {
            let text = format!("OTEL_TRACES_SAMPLER keeps {ratio} of all traces, whatever a test asks for");
            Some(Finding::bad(WHAT, text, next))
        }
        _ => None,
    }
}

fn without_password(endpoint: &str) -> String {
    match reqwest::Url::parse(endpoint) {
        Ok(mut url) if url.password().is_some() => {
            // Fails for addresses without a host, which have no password either.
            let _ = url.set_password(Some("***"));
            url.to_string()
        }
        _ => endpoint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    fn check(variables: &[(&str, &str)], expected: &[(Status, &str)]) {
        let value = |name: &str| {
            let known = variables.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| (*value).to_owned())
        };
        let found = findings(value);
        assert_eq!(found.len(), expected.len(), "{variables:?}: {found:?}");
        for (found, (status, part)) in found.iter().zip(expected) {
            assert_eq!(found.status, *status, "{found:?}");
            assert!(found.text.contains(part), "{found:?}");
            assert!(found.status == Status::Good || !found.next.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn each_setting_that_loses_spans_is_found() {
        let quiet = (Status::Good, "no endpoint");
        check(&[], &[quiet]);
        check(&[("OTEL_SDK_DISABLED", "true")], &[(Status::Bad, "OTEL_SDK_DISABLED"), quiet]);
        check(&[("OTEL_TRACES_EXPORTER", "console")], &[(Status::Bad, "`console`"), quiet]);
        check(&[("OTEL_TRACES_EXPORTER", "console, otlp")], &[quiet]);
        check(&[("OTEL_TRACES_SAMPLER", "always_off")], &[quiet, (Status::Bad, "always_off")]);
        let sampled = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.1")];
        check(&sampled, &[quiet, (Status::Bad, "0.1")]);
        check(&[("OTEL_PROPAGATORS", "b3")], &[quiet, (Status::Bad, "b3")]);
        check(&[("OTEL_BSP_SCHEDULE_DELAY", "30000")], &[quiet, (Status::Doubtful, "30000")]);
    }

    #[test]
    fn a_port_must_fit_its_protocol() {
        let at = |port: &'static str| ("OTEL_EXPORTER_OTLP_ENDPOINT", port);
        let protocol = |name: &'static str| ("OTEL_EXPORTER_OTLP_PROTOCOL", name);
        let (grpc, http) = ("http://localhost:4317", "http://localhost:4318");
        check(&[at(grpc), protocol("grpc")], &[(Status::Good, "4317")]);
        check(&[at(http), protocol("grpc")], &[(Status::Bad, "speaks HTTP")]);
        check(&[at(grpc), protocol("http/protobuf")], &[(Status::Bad, "speaks gRPC")]);
        check(&[at(grpc)], &[(Status::Doubtful, "no protocol")]);
        check(&[at("localhost")], &[(Status::Bad, "no address")]);
        check(&[at("http://u:secret@host:4318")], &[(Status::Good, "***")]);
    }
}
