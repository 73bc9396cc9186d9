//! The files of `deploy/`, against the program: settings that it knows, and metrics that it emits. The configurations of
//! the Collector, there and elsewhere, are checked by the Collector. What `deploy/` and `.github/` must not leave open:
//! known passwords, pods that everything reaches, actions that others can replace.

mod action;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use qualitytrace_testing::{DEADLINE, eventually};
use serde_json::{Value, json};

use crate::late_spans_load::program::Served;
use crate::{client, program};

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

/// The documents of a YAML file.
fn documents(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(deploy(path)).unwrap();
    let parts = text.split("\n---\n");
    parts.map(|part| serde_saphyr::from_str(part).unwrap_or_else(|error| panic!("{path}: {error}"))).collect()
}

/// Lets the program check its settings; a warning fails as well.
fn check_settings(what: &str, arguments: &[&str], variables: &BTreeMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program())
        .args(["config", "check"])
        .args(arguments)
        .current_dir(folder.path())
        .envs(variables)
        .env("QUALITYTRACE_DATA_DIR", folder.path())
        .output()
        .unwrap();
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && !said.contains("warning"), "{what}: {said}");
}

#[test]
fn the_program_knows_the_settings_of_the_compose_files() {
    let names = ["alone", "postgres", "two-servers", "telemetry"];
    for name in names {
        let [file] = &documents(&format!("compose/{name}.yaml"))[..] else { panic!("{name}") };
        let services = file["services"].as_object().unwrap();
        let ours: Vec<&Value> =
            services.values().filter(|service| service["image"] == "qualitytrace").collect();
        assert!(!ours.is_empty(), "{name}");
        for service in ours {
            let variables = service["environment"].as_object().unwrap().iter();
            let variables = variables.map(|(key, value)| {
                // Values that the user gives: a key of the right form, and the defaults of the others.
                let value = value.as_str().unwrap();
                let value = if value.contains(":?") { "ab".repeat(32) } else { value.to_owned() };
                (key.clone(), value)
            });
            check_settings(name, &[], &variables.collect());
        }
    }
    let config = deploy("compose/telemetry/qualitytrace.yaml");
    check_settings("telemetry", &["--config", config.to_str().unwrap()], &BTreeMap::new());
}

#[test]
fn the_program_knows_the_settings_of_the_manifests() {
    let manifests = documents("kubernetes/qualitytrace.yaml");
    let of_kind = |kind: &str| manifests.iter().find(|manifest| manifest["kind"] == kind).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("qualitytrace.yaml");
    std::fs::write(&config, of_kind("ConfigMap")["data"]["qualitytrace.yaml"].as_str().unwrap()).unwrap();
    let container = &of_kind("Deployment")["spec"]["template"]["spec"]["containers"][0];
    let given = BTreeMap::from([
        ("database-url", "postgres://user:password@db/qualitytrace".to_owned()),
        ("secrets-key", "ab".repeat(32)),
        ("auth-tokens", format!("full:{}", "ab".repeat(32))),
    ]);
    let variables = container["env"].as_array().unwrap().iter().map(|variable| {
        let key = variable["valueFrom"]["secretKeyRef"]["key"].as_str().unwrap();
        (variable["name"].as_str().unwrap().to_owned(), given[key].clone())
    });
    check_settings("kubernetes", &["--config", config.to_str().unwrap()], &variables.collect());
    // The ports of the probes and of the service are those of the container.
    let ports: BTreeSet<&str> =
        container["ports"].as_array().unwrap().iter().map(|port| port["name"].as_str().unwrap()).collect();
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert!(ports.contains(container[probe]["httpGet"]["port"].as_str().unwrap()), "{probe}");
    }
    for port in of_kind("Service")["spec"]["ports"].as_array().unwrap() {
        assert!(ports.contains(port["targetPort"].as_str().unwrap()), "{port}");
    }
}

/// Whether the user has to give this value: `${NAME:?what to do}`.
fn is_required(value: &str) -> bool {
    value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(|rest| rest.contains(":?"))
}

#[test]
fn no_compose_file_has_a_password_that_everyone_knows() {
    let mut secrets = 0;
    for file in std::fs::read_dir(deploy("compose")).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let name = format!("compose/{}", file.file_name().unwrap().to_str().unwrap());
        for (service, settings) in documents(&name)[0]["services"].as_object().unwrap() {
            let none = serde_json::Map::new();
            let variables = settings["environment"].as_object().unwrap_or(&none);
            for (key, value) in variables {
                let is_secret = ["PASSWORD", "SECRET", "TOKEN", "KEY"].iter().any(|part| key.contains(part));
                assert!(!is_secret || is_required(value.as_str().unwrap()), "{name}, {service}: {key}");
                secrets += usize::from(is_secret);
            }
            // An image that makes its own administrator, with a password that is in its manual.
            if settings["image"].as_str().is_some_and(|image| image.starts_with("grafana/")) {
                assert_eq!(variables["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"], "true", "{name}");
            }
        }
    }
    assert!(secrets >= 4, "{secrets} secrets were found");
}

#[test]
fn a_network_policy_covers_the_pods_in_both_directions() {
    let manifests = documents("kubernetes/qualitytrace.yaml");
    let of_kind = |kind: &str| manifests.iter().find(|manifest| manifest["kind"] == kind).unwrap();
    let (policy, template) = (&of_kind("NetworkPolicy")["spec"], &of_kind("Deployment")["spec"]["template"]);
    assert_eq!(policy["podSelector"]["matchLabels"], template["metadata"]["labels"]);
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    let names = |ports: &Value| -> BTreeSet<String> {
        let names =
            ports.as_array().unwrap().iter().map(|port| port["name"].as_str().or(port["port"].as_str()));
        names.map(|name| name.unwrap().to_owned()).collect()
    };
    for rule in policy["ingress"].as_array().unwrap() {
        assert!(!rule["from"].as_array().unwrap().is_empty(), "{rule} lets everything in");
        assert_eq!(names(&rule["ports"]), names(&template["spec"]["containers"][0]["ports"]));
    }
    // Credentials of the node are at 169.254.169.254.
    let blocks = policy["egress"].as_array().unwrap().iter();
    let blocks = blocks.flat_map(|rule| rule["to"].as_array().unwrap()).map(|to| &to["ipBlock"]);
    let blocks: Vec<&Value> = blocks.filter(|block| block["cidr"] == "0.0.0.0/0").collect();
    assert!(!blocks.is_empty() && blocks.iter().all(|block| block["except"] == json!(["169.254.0.0/16"])));
}

/// The workflows of the repository: their names and texts.
fn workflows() -> Vec<(String, String)> {
    let folder = deploy("../.github/workflows");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |file: &Path| file.file_name().unwrap().to_str().unwrap().to_owned();
    files.map(|file| (name(&file), std::fs::read_to_string(&file).unwrap())).collect()
}

#[test]
fn workflows_name_actions_by_commit() {
    let mut actions = 0;
    let own = ("action.yml".to_owned(), std::fs::read_to_string(deploy("../action.yml")).unwrap());
    for (name, text) in workflows().into_iter().chain([own]) {
        for action in
            text.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("uses: "))
        {
            // A workflow of this repository has the commit of the one that calls it.
            if action.starts_with("./") {
                continue;
            }
            let (_, version) = action.split_once('@').unwrap();
            let (commit, tag) = version.split_once(" # v").unwrap_or((version, ""));
            let is_hash = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_hash, "{name}: {action} is no commit, and its owner can move it");
            assert!(!tag.is_empty(), "{name}: {action} does not say which version that is");
            actions += 1;
        }
    }
    assert!(actions > 20, "{actions} actions were found");
}

#[test]
fn a_release_waits_for_the_check_of_advisories() {
    let (_, text) = workflows().into_iter().find(|(name, _)| name == "release.yml").unwrap();
    let release: Value = serde_saphyr::from_str(&text).unwrap();
    let jobs = release["jobs"].as_object().unwrap();
    assert_eq!(jobs["advisories"]["uses"], "./.github/workflows/advisories.yml");
    for name in jobs.keys() {
        let needed = |name: &String| jobs[name]["needs"].as_str().map(ToOwned::to_owned);
        let chain: Vec<String> = std::iter::successors(Some(name.clone()), needed).collect();
        assert_eq!(chain.last().unwrap(), "advisories", "{name} does not wait for it: {chain:?}");
    }
}

#[test]
fn the_collector_accepts_every_configuration_that_is_shown() {
    let Ok(collector) = std::env::var("QUALITYTRACE_TEST_OTELCOL") else {
        assert!(std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(), "QUALITYTRACE_TEST_OTELCOL is not set");
        println!("skipped: QUALITYTRACE_TEST_OTELCOL is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(deploy("../docs/telemetry.md")).unwrap();
    let shown = page.split("```yaml\n# collector.yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let of_page = folder.path().join("collector.yaml");
    std::fs::write(&of_page, shown).unwrap();
    let dogfood = |names: &[&str]| names.iter().map(|name| deploy("../dogfood").join(name)).collect();
    let composed = |names: &[&str]| {
        let back_ends = names.iter().map(|name| deploy(&format!("compose/telemetry/collector-{name}.yaml")));
        std::iter::once(deploy("compose/telemetry/collector.yaml")).chain(back_ends).collect()
    };
    let configurations: [Vec<PathBuf>; 7] = [
        vec![of_page],
        composed(&["jaeger", "zipkin", "prometheus"]),
        composed(&["jaeger"]),
        composed(&["zipkin"]),
        composed(&["prometheus"]),
        dogfood(&["collector-alone.yaml"]),
        dogfood(&["collector.yaml", "backends/collector.yaml"]),
    ];
    for files in configurations {
        let mut command = Command::new(&collector);
        command.arg("validate").args(files.iter().flat_map(|file| ["--config".as_ref(), file.as_os_str()]));
        for name in ["COLLECTOR_GRPC", "SCRAPED"] {
            command.env(name, "127.0.0.1:1");
        }
        for name in ["OBSERVER", "SUBJECT", "JAEGER", "ZIPKIN"] {
            command.env(name, "http://127.0.0.1:1");
        }
        let output = command.env("COLLECTOR_FILE", folder.path().join("file")).output().unwrap();
        assert!(output.status.success(), "{files:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The metrics that rules or expressions use, each with its labels; `None` if there is no Prometheus.
fn used(mode: &str, text: &str) -> Option<BTreeMap<String, BTreeSet<String>>> {
    let Ok(program) = std::env::var("QUALITYTRACE_TEST_PROMLINT") else {
        assert!(
            std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(),
            "QUALITYTRACE_TEST_PROMLINT is not set"
        );
        return None;
    };
    let mut child =
        Command::new(program).arg(mode).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in said.lines() {
        let mut words = line.split(' ').map(str::to_owned);
        found.entry(words.next().unwrap()).or_default().extend(words);
    }
    Some(found)
}

/// The series of `/metrics`: names with their labels.
fn emitted(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).unwrap();
        let labels = rest.split('"').step_by(2).filter_map(|part| part.strip_suffix('='));
        let labels = labels.map(|label| label.trim_start_matches(',').to_owned());
        found.entry(name.to_owned()).or_default().extend(labels);
    }
    found
}

#[tokio::test]
async fn alerts_and_dashboard_use_metrics_that_a_server_emits() {
    let alerts = std::fs::read_to_string(deploy("prometheus/alerts.yaml")).unwrap();
    let Some(mut wanted) = used("rules", &alerts) else {
        println!("skipped: QUALITYTRACE_TEST_PROMLINT is not set");
        return;
    };
    let dashboard = std::fs::read_to_string(deploy("grafana/qualitytrace.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter();
    let targets = targets.flat_map(|panel| panel["targets"].as_array().unwrap());
    // Grafana replaces its own variables before it asks Prometheus.
    let expressions: Vec<String> =
        targets.map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "1m")).collect();
    assert!(expressions.len() >= 14, "{expressions:?}");
    for (name, labels) in used("expressions", &expressions.join("\n")).unwrap() {
        wanted.entry(name).or_default().extend(labels);
    }

    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("qualitytrace.yaml");
    let exporter = json!({ "exporter": { "type": "collector", "collector": { "endpoint": "127.0.0.1:1" } } });
    let settings = json!({ "telemetry": { "exporters": { "c": exporter } }, "server": { "telemetry": { "exporter": "c" } } });
    std::fs::write(&config, settings.to_string()).unwrap();
    let data = folder.path().to_str().unwrap();
    let arguments = ["--config", config.to_str().unwrap(), "--data-dir", data];
    let server = Served::start(program(), "sqlite::memory:", &arguments).await;
    let client = client();
    let trigger =
        json!({ "type": "http", "httpRequest": { "method": "GET", "url": server.url("/healthz") } });
    let spec = json!({ "id": "t", "name": "T", "skipTraceCollection": true, "trigger": trigger });
    let put =
        client.put(server.url("/api/tests")).json(&json!({ "type": "Test", "spec": spec })).send().await;
    put.unwrap().error_for_status().unwrap();
    let run = client.post(server.url("/api/tests/t/run")).json(&json!({})).send().await.unwrap();
    run.error_for_status().unwrap();
    eventually(DEADLINE, "the server emits every metric of the alerts and of the dashboard", async || {
        let text = client.get(server.url("/metrics")).send().await.unwrap().text().await.unwrap();
        let emitted = emitted(&text);
        let missing: Vec<String> = wanted
            .iter()
            .flat_map(|(name, labels)| match emitted.get(name) {
                None => vec![name.clone()],
                Some(there) => labels.difference(there).map(|label| format!("{name}{{{label}}}")).collect(),
            })
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing.join(", ")) }
    })
    .await;
}
