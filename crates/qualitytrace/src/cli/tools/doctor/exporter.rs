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

/// Whether spans go to one of the ports at which the server at `host` takes them; `None` where that cannot be told.
pub(super) fn destination(
    variable: impl Fn(&str) -> Option<String>,
    host: &str,
    ports: &[u16],
) -> Option<Finding> {
    let (name, endpoint) = setting(&variable, "ENDPOINT")?;
    let url = reqwest::Url::parse(&endpoint).ok().filter(|_| endpoint.contains("://"))?;
    let is_local = |host: &str| matches!(host, "localhost" | "127.0.0.1" | "[::1]" | "0.0.0.0");
    let named = url.host_str()?;
    let is_same = named == host || is_local(named) && is_local(host);
    let port = url.port_or_known_default()?;
    if !is_same || ports.is_empty() || ports.contains(&port) {
        return None;
    }
    let known: Vec<String> = ports.iter().map(ToString::to_string).collect();
    let text = format!(
        "{name} is {}, and port {port} is none of those that take spans for tests: {}",
        without_password(&endpoint),
        known.join(", ")
    );
    let next = format!("send spans to http://{named}:{}, or let a Collector there pass them on", ports[0]);
    Some(Finding::doubtful(WHAT, text, next))
}

/// The variable of exporters that counts for spans, by the rest of its name.
fn setting(variable: &impl Fn(&str) -> Option<String>, rest: &str) -> Option<(String, String)> {
    let name = format!("OTEL_EXPORTER_OTLP_TRACES_{rest}");
    let general = format!("OTEL_EXPORTER_OTLP_{rest}");
    variable(&name).map(|value| (name, value)).or_else(|| Some((general.clone(), variable(&general)?)))
}

/// Whether the endpoint fits the protocol.
fn endpoint(variable: &impl Fn(&str) -> Option<String>) -> Finding {
    let of = |rest: &str| setting(variable, rest);
    let Some((name, endpoint)) = of("ENDPOINT") else {
        let text = "no endpoint is set in this environment: exporters send to localhost:4317 or 4318";
        return Finding::good(WHAT, text);
    };
    let is_grpc = of("PROTOCOL").map(|(_, protocol)| protocol == "grpc");
    let shown = without_password(&endpoint);
    let is_of_traces = name.contains("_TRACES_");
    let example = |path: &str| format!("write {name}=http://localhost:4318{path}");
    let url = reqwest::Url::parse(&endpoint).ok().filter(|url| endpoint.contains("://") && url.has_host());
    let Some(url) = url.filter(|url| matches!(url.scheme(), "http" | "https")) else {
        let text = format!("{name} is `{shown}`, which does not begin with http:// or https://");
        let with_scheme = reqwest::Url::parse(&format!("http://{endpoint}")).ok();
        let advice = match with_scheme.filter(|_| !endpoint.contains("://")) {
            Some(_) => format!("write {name}=http://{shown}"),
            None => example(if is_of_traces { "/v1/traces" } else { "" }),
        };
        return Finding::bad(WHAT, text, advice);
    };
    let path = url.path().trim_end_matches('/');
    if url.scheme() == "https" && matches!(url.port(), Some(4317 | 4318)) {
        let text = format!("{name} is {shown}, and this server takes spans without TLS unless it is told to");
        return Finding::doubtful(WHAT, text, "write http://, or give the server a certificate");
    }
    // SDKs append the path to the general address, and to none other.
    match (is_of_traces, is_grpc.unwrap_or(false), path) {
        (false, false, path) if path.ends_with("/v1/traces") => {
            let text = format!("{name} is {shown}, and SDKs append /v1/traces once more");
            return Finding::bad(WHAT, text, "leave out the path, or use OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        }
        (true, false, "") if is_grpc.is_some() || url.port() == Some(4318) => {
            let text = format!("{name} is {shown}, and SDKs send spans there without appending a path");
            return Finding::bad(WHAT, text, example("/v1/traces"));
        }
        _ => {}
    }
    match (url.port(), is_grpc) {
        // Each port of this server takes both protocols; a Collector's do not.
        (Some(4318), Some(true)) => Finding::doubtful(
            WHAT,
            format!("{name} is {shown} with gRPC: a Collector takes HTTP at port 4318"),
            "use port 4317 if spans go through a Collector",
        ),
        (Some(4317), Some(false)) => Finding::doubtful(
            WHAT,
            format!("{name} is {shown} with HTTP: a Collector takes gRPC at port 4317"),
            "use port 4318 if spans go through a Collector",
        ),
        (Some(4317), None) => Finding::doubtful(
            WHAT,
            format!("{name} is {shown}, and no protocol is set: most SDKs speak HTTP by default"),
            "set OTEL_EXPORTER_OTLP_PROTOCOL=grpc if spans go through a Collector",
        ),
        _ => Finding::good(WHAT, format!("{name} is {shown}")),
    }
}

/// Whether all spans are kept.
fn sampler(variable: &impl Fn(&str) -> Option<String>) -> Option<Finding> {
    let sampler = variable("OTEL_TRACES_SAMPLER")?.to_ascii_lowercase();
    let ratio = variable("OTEL_TRACES_SAMPLER_ARG").and_then(|ratio| ratio.parse::<f64>().ok());
    let next = "set OTEL_TRACES_SAMPLER=parentbased_always_on: tests mark their traces as sampled";
    match (sampler.as_str(), ratio) {
        ("always_off", _) => {
            Some(Finding::bad(WHAT, "OTEL_TRACES_SAMPLER is `always_off`: no span is kept", next))
        }
        ("parentbased_always_off", _) => {
            let text = "OTEL_TRACES_SAMPLER is `parentbased_always_off`: a service that ignores `traceparent` keeps no span";
            Some(Finding::doubtful(WHAT, text, next))
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
        check(&[("OTEL_TRACES_SAMPLER", "Always_Off")], &[quiet, (Status::Bad, "always_off")]);
        check(&[("OTEL_TRACES_SAMPLER", "parentbased_always_off")], &[quiet, (Status::Doubtful, "ignores")]);
        let sampled = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.1")];
        check(&sampled, &[quiet, (Status::Bad, "0.1")]);
        check(&[("OTEL_PROPAGATORS", "b3")], &[quiet, (Status::Bad, "b3")]);
        check(&[("OTEL_BSP_SCHEDULE_DELAY", "30000")], &[quiet, (Status::Doubtful, "30000")]);
    }

    #[test]
    fn an_address_must_be_one_that_sdks_send_spans_to() {
        let at = |address: &'static str| ("OTEL_EXPORTER_OTLP_ENDPOINT", address);
        let of_traces = |address: &'static str| ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", address);
        for address in ["localhost:4317", "127.0.0.1:4318", "collector", "ftp://host"] {
            check(&[at(address)], &[(Status::Bad, "does not begin with http://")]);
        }
        let found =
            endpoint(&|name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "shop:24318".to_owned()));
        assert!(format!("{found:?}").contains("=http://shop:24318"), "{found:?}");
        check(&[at("https://localhost:4318")], &[(Status::Doubtful, "without TLS")]);
        check(&[at("https://otel.example.com")], &[(Status::Good, "otel.example.com")]);
        check(&[at("http://localhost:4318/v1/traces")], &[(Status::Bad, "once more")]);
        check(&[at("http://localhost:4318/otlp")], &[(Status::Good, "/otlp")]);
        check(&[of_traces("http://localhost:4318")], &[(Status::Bad, "without appending")]);
        check(&[of_traces("http://localhost:4318/v1/traces")], &[(Status::Good, "/v1/traces")]);
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        check(&[of_traces("http://localhost:4317"), grpc], &[(Status::Good, "4317")]);
    }

    #[test]
    fn spans_should_go_to_a_port_of_the_server() {
        let told = |address: &str, host: &str| {
            let value = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| address.to_owned());
            destination(value, host, &[4317, 4318]).map(|found| (found.status, found.next))
        };
        let next = "send spans to http://localhost:4317, or let a Collector there pass them on";
        assert_eq!(told("http://localhost:9999", "127.0.0.1"), Some((Status::Doubtful, next.to_owned())));
        assert_eq!(told("http://localhost:4318", "127.0.0.1"), None);
        // Another machine may have a Collector.
        assert_eq!(told("http://collector:9999", "127.0.0.1"), None);
        assert!(told("http://shop:80", "shop").is_some());
    }

    #[test]
    fn a_port_should_fit_its_protocol() {
        let at = |port: &'static str| ("OTEL_EXPORTER_OTLP_ENDPOINT", port);
        let protocol = |name: &'static str| ("OTEL_EXPORTER_OTLP_PROTOCOL", name);
        let (grpc, http) = ("http://localhost:4317", "http://localhost:4318");
        check(&[at(grpc), protocol("grpc")], &[(Status::Good, "4317")]);
        check(&[at(http), protocol("grpc")], &[(Status::Doubtful, "takes HTTP")]);
        check(&[at(grpc), protocol("http/protobuf")], &[(Status::Doubtful, "takes gRPC")]);
        check(&[at(grpc)], &[(Status::Doubtful, "no protocol")]);
        check(&[at("http://u:secret@host:4318")], &[(Status::Good, "***")]);
    }
}
