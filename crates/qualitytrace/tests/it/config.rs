//! Settings from files, variables and flags, as the program reads them.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use qualitytrace_server::config::SETTINGS;
use serde_json::Value;

use crate::late_spans_load::program::Served;
use crate::program;

/// The result of a command.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A folder with files, in which commands run with their own environment.
pub(crate) struct TestFolder {
    pub(crate) folder: tempfile::TempDir,
    variables: Vec<(&'static str, OsString)>,
}

impl TestFolder {
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { folder, variables: Vec::new() }
    }

    pub(crate) fn set(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        let output = Command::new(env!("CARGO_BIN_EXE_qualitytrace"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path().join("home"))
            .envs(self.variables.iter().cloned())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The value of a setting and its origin.
    fn shown(&self, key: &str, flags: &[&str]) -> (String, String) {
        let said = self.run(&[&["config", "show", "-o", "json"], flags].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        let document: Value = serde_json::from_str(&said.out).unwrap();
        let settings = document["settings"].as_array().unwrap();
        let row = settings.iter().find(|row| row["key"] == key).unwrap();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let origin = &row["origin"];
        let source = match origin["kind"].as_str().unwrap() {
            "file" => format!("{}:{}:{}", text(&origin["path"]), origin["line"], origin["column"]),
            "default" => "default".to_owned(),
            _ => text(&origin["name"]),
        };
        (text(&row["value"]), source)
    }
}

fn pair(value: &str, origin: &str) -> (String, String) {
    (value.to_owned(), origin.to_owned())
}

#[test]
fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
    let key = "limits.bodyBytes";
    let folder = TestFolder::with(&[("qualitytrace.yaml", "limits:\n  bodyBytes: 1MiB\n")]);
    assert_eq!(TestFolder::with(&[]).shown(key, &[]), pair("64MiB", "default"));
    assert_eq!(folder.shown(key, &[]), pair("1MiB", "qualitytrace.yaml:2:14"));
    let folder = folder.set("TRACETEST_LIMITS_BODYBYTES", "2MiB");
    assert_eq!(folder.shown(key, &[]), pair("2MiB", "TRACETEST_LIMITS_BODYBYTES"));
    let folder = folder.set("QUALITYTRACE_LIMITS_BODY_BYTES", "3MiB");
    assert_eq!(folder.shown(key, &[]), pair("3MiB", "QUALITYTRACE_LIMITS_BODY_BYTES"));
    assert_eq!(folder.shown(key, &["--limits.bodyBytes", "4MiB"]), pair("4MiB", "--limits.bodyBytes"));
    assert_eq!(folder.shown(key, &["--set", "limits.body-bytes=5MiB"]), pair("5MiB", "--limits.body-bytes"));
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf8_does_not_stop_the_program() {
    use std::os::unix::ffi::OsStringExt as _;
    let odd = || OsString::from_vec(b"\xff".to_vec());
    let folder = TestFolder::with(&[]).set("X", odd()).set("QUALITYTRACE_SERVER_HTTPPORT", odd());
    assert_eq!(folder.shown("server.httpPort", &[]), pair("11633", "default"));
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    let folder = TestFolder::with(&[]).set("TRACETEST_SERVER_HTTPPORT", "");
    assert_eq!(folder.shown("server.httpPort", &[]), pair("11633", "default"));
}

#[test]
fn every_format_and_place_of_a_file_is_known() {
    for (name, text) in [
        ("qualitytrace.yaml", "server: {httpPort: 8080}"),
        ("quality-trace-config.yaml", "server: {httpPort: 8080}"),
        ("tracetest.config.yml", "server: {httpport: 8080}"),
        ("tracetest.toml", "server.httpPort = 8080"),
        ("qualitytrace-config.json", "{\"server\": {\"httpPort\": 8080}}"),
        ("home/.tracetest/tracetest.yaml", "SERVER: {HTTPPORT: 8080}"),
        ("home/.qualitytrace/qualitytrace.toml", "[server]\nhttpPort = 8080"),
    ] {
        let folder = TestFolder::with(&[(name, text)]);
        assert_eq!(folder.shown("server.httpPort", &[]).0, "8080", "{name}");
        let named = TestFolder::with(&[("deep/any.name", "server: {httpPort: 8080}")]);
        assert_eq!(named.shown("server.httpPort", &["--config", "deep/any.name"]).0, "8080");
        let named = named.set("TRACETEST_CONFIG", "deep/any.name");
        assert_eq!(named.shown("server.httpPort", &[]).0, "8080");
    }
}

#[test]
fn of_several_files_in_one_folder_one_counts_and_the_others_are_named() {
    let port = |port: u16| format!("server: {{httpPort: {port}}}\n");
    let folder = TestFolder::with(&[
        ("tracetest.yaml", &port(1)),
        ("qualitytrace.yml", &port(2)),
        ("qualitytrace-config.yaml", &port(3)),
        ("qualitytrace-values.yaml", &port(4)),
        ("qualitytrace-test.yaml", "type: Test\nspec: {name: x}\n"),
    ]);
    assert_eq!(folder.shown("server.httpPort", &[]).0, "2");
    let said = folder.run(&["config", "check"]);
    let not_read = "warning: this file is not read: `qualitytrace.yml` comes before it; name the one that counts with `--config`";
    assert_eq!(
        (said.code, said.err),
        (Some(0), format!("tracetest.yaml:1:1: {not_read}\nqualitytrace-config.yaml:1:1: {not_read}\n"))
    );
    assert_eq!(folder.run(&["config", "check", "--config", "tracetest.yaml"]).err, "");
}

#[test]
fn an_exposed_server_is_warned_of_before_it_starts() {
    let folder = TestFolder::with(&[]);
    let said = folder.run(&["config", "check", "--host", "0.0.0.0"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("This server has no tokens"), "{}", said.err);
    let token = "full:0123456789abcdef";
    for safe in [&["--host", "127.0.0.1"][..], &["--host", "0.0.0.0", "--auth.tokens", token]] {
        let said = folder.run(&[&["config", "check"], safe].concat());
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_flag_may_be_spelled_with_dashes() {
    let folder = TestFolder::with(&[]);
    for (key, flag) in [
        ("server.httpPort", "--server.http-port"),
        ("server.httpPort", "--server.httpport"),
        ("limits.connections", "--limits.connections"),
        ("otlp-grpc-addr", "--otlp-server.grpc-addr"),
    ] {
        assert_eq!(folder.shown(key, &[flag, "12"]).0.trim_start_matches("127.0.0.1:"), "12", "{flag}");
    }
}

#[test]
fn what_tracetest_was_started_with_is_taken_and_said_to_mean_nothing() {
    let folder = TestFolder::with(&[]);
    let said = folder.run(&[
        "config",
        "check",
        "--analytics.serverKey=x",
        "--experimentalFeatures",
        "--internalTelemetry.enabled",
        "true",
        "--testPipelines.traceFetch.enabled",
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for flag in ["analytics.serverKey", "experimentalFeatures", "internalTelemetry.enabled"] {
        assert!(said.err.contains(&format!("--{flag}: warning: `{flag}` has no effect")), "{}", said.err);
    }
    let said = folder.run(&["config", "check", "--postgresConnString", "host=x"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("write it as `database-url:"), "{}", said.err);
    let folder =
        folder.set("TRACETEST_NATS_ENDPOINT", "nats:4222").set("TRACETEST_EXPERIMENTALFEATURES", "a");
    let said = folder.run(&["config", "check"]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (
            Some(0),
            "$TRACETEST_EXPERIMENTALFEATURES: warning: `TRACETEST_EXPERIMENTALFEATURES` has no effect: there are none\n\
             $TRACETEST_NATS_ENDPOINT: warning: `TRACETEST_NATS_ENDPOINT` has no effect: servers meet in their database\n"
        )
    );
}

#[test]
fn mappings_can_be_merged_and_further_documents_are_said_not_to_count() {
    let text = "x-all: &all\n  bodyBytes: 1MiB\n  headers: 7\nlimits:\n  <<: *all\n  headers: 8\n---\nserver: {httpPort: 5}\n";
    let folder = TestFolder::with(&[("qualitytrace.yaml", text)]);
    assert_eq!(folder.shown("limits.bodyBytes", &[]), pair("1MiB", "qualitytrace.yaml:2:14"));
    assert_eq!(folder.shown("limits.headers", &[]), pair("8", "qualitytrace.yaml:6:12"));
    let said = folder.run(&["config", "check"]);
    let another =
        "qualitytrace.yaml:7:1: warning: a configuration is one document: what begins here is not read";
    assert!(said.err.contains(another), "{}", said.err);
    let folder = TestFolder::with(&[("qualitytrace.yaml", "telemetry: {propagators: [b3, baggage]}\n")]);
    assert_eq!(folder.shown("telemetry.propagators", &[]).0, "b3, baggage");
}

#[test]
fn a_named_file_must_be_there() {
    let said = TestFolder::with(&[]).run(&["config", "check", "--config", "missing.yaml"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("failed to read the configuration missing.yaml"), "{}", said.err);
}

#[test]
fn mistakes_have_a_place_and_a_way_out() {
    let check = |text: &str, code: i32, expected: &str| {
        let folder = TestFolder::with(&[("qualitytrace.yaml", text)]);
        let said = folder.run(&["config", "check"]);
        assert_eq!(said.code, Some(code), "{text}: {}", said.err);
        assert_eq!(said.err.trim_end(), expected, "{text}");
    };
    check(
        "limits:\n  retenton: 1h\n",
        1,
        "qualitytrace.yaml:2:13: error: `limits.retenton` is not a known setting; did you mean `limits.retention`?",
    );
    check(
        "limits:\n  retention: soon\n",
        1,
        "qualitytrace.yaml:2:14: error: `limits.retention` cannot be `soon`: expected a duration such as `30s` or `24h`",
    );
    check(
        "runs:\n  elephants: 3\n",
        1,
        "qualitytrace.yaml:2:14: error: `runs.elephants` is not a known setting",
    );
    check(
        "kitchen:\n  sink: 3\n",
        0,
        "qualitytrace.yaml:2:9: warning: `kitchen.sink` is not a known setting",
    );
    check(
        "poolingConfig:\n  maxWaitTimeForTrace: 30s\n",
        0,
        "qualitytrace.yaml:2:24: warning: `poolingConfig.maxWaitTimeForTrace` has no effect: traces are waited for, not \
         polled; see docs/waiting.md",
    );
    check(
        "postgresConnString: \"host=postgres user=u password=geheim\"\n",
        1,
        "qualitytrace.yaml:1:21: error: `postgresConnString` is no longer supported; write it as `database-url: \
         postgres://USER:PASSWORD@HOST/NAME`",
    );
    check(
        "server:\n  httpPort: 1\nserver.http-port: 2\n",
        1,
        "qualitytrace.yaml:3:19: error: `server.http-port` is given twice",
    );
    check("limits: [\n", 1, "qualitytrace.yaml:1:9: error: this is not YAML: unclosed bracket '['");
}

#[test]
fn the_server_does_not_start_with_a_mistake() {
    let said = TestFolder::with(&[]).run(&["serve", "--limits.retention", "soon"]);
    assert_eq!(said.code, Some(1));
    assert!(
        said.err.starts_with("--limits.retention: error: `limits.retention` cannot be `soon`"),
        "{}",
        said.err
    );
}

#[test]
fn a_variable_that_is_nearly_a_setting_is_warned_of() {
    let said = TestFolder::with(&[]).set("TRACETEST_POSTGRES_DBNAM", "x").run(&["config", "check"]);
    assert_eq!(
        said.err.trim_end(),
        "$TRACETEST_POSTGRES_DBNAM: warning: `TRACETEST_POSTGRES_DBNAM` is not a known setting; did you mean \
         `QUALITYTRACE_POSTGRES_DBNAME`?"
    );
}

#[test]
fn the_connection_string_of_earlier_versions_is_refused_wherever_it_stands() {
    for name in ["TRACETEST_POSTGRESCONNSTRING", "QUALITYTRACE_POSTGRES_CONN_STRING"] {
        for command in [["config", "check"], ["serve", "--server.httpPort=0"]] {
            let said = TestFolder::with(&[]).set(name, "host=postgres password=geheim").run(&command);
            let expected = format!(
                "${name}: error: `{name}` is no longer supported; write it as `database-url: \
                 postgres://USER:PASSWORD@HOST/NAME`"
            );
            assert_eq!((said.code, said.err.trim_end()), (Some(1), expected.as_str()), "{command:?}");
        }
    }
}

#[test]
fn a_token_that_is_too_short_is_refused_with_the_least_length() {
    let said = TestFolder::with(&[]).run(&["config", "check", "--auth.tokens", "full:geheim"]);
    assert!(said.code == Some(1) && said.err.contains("a token of at least 16 letters"), "{}", said.err);
}

/// Passwords are redacted everywhere: in output, in diagnostics, and in the errors of a server that fails.
#[test]
fn no_password_is_shown() {
    let url = "postgres://u:geheim@127.0.0.1:1/n?password=geheim&sslpassword=geheim&sslmode=disable";
    let shown = "postgres://u@127.0.0.1:1/n?password=***&sslpassword=***&sslmode=disable";
    let block = "postgres: {host: 127.0.0.1, port: 1, params: 'sslmode=disable password=geheim'}\n";
    let sink = "tracer: {a: {type: otel, transport: http, endpoint: 'http://user:geheim@h:1'}}\n";
    let login = "`http://***@h:1`";
    for (file, variable, arguments, code, expected) in [
        ("", "", &["config", "show", "--database-url", url][..], 0, shown),
        (
            "",
            "",
            &[
                "serve",
                "--server.httpPort=0",
                "--otlp-grpc-addr=off",
                "--otlp-http-addr=off",
                "--database-url",
                url,
            ],
            1,
            shown,
        ),
        (block, "", &["config", "show"], 0, "sslmode=disable password=***"),
        (block, "", &["config", "show"], 0, "?sslmode=disable&password=***"),
        (sink, "", &["config", "check"], 1, login),
        ("", "http://user:geheim@h:1", &["config", "check"], 1, login),
    ] {
        let folder =
            TestFolder::with(&[("qualitytrace.yaml", file)]).set("OTEL_EXPORTER_OTLP_ENDPOINT", variable);
        let said = folder.run(arguments);
        let all = said.out + &said.err;
        assert_eq!(said.code, Some(code), "{arguments:?}: {all}");
        assert!(all.contains(expected) && !all.contains("geheim"), "{arguments:?}: {all}");
    }
}

#[test]
fn a_block_and_a_url_name_the_database() {
    let block = "postgres:\n  host: db\n  password: geheim\n  dbname: shop\n";
    let folder = TestFolder::with(&[("tracetest.yaml", block)]);
    let url = "postgres://postgres@db:5432/shop?sslmode=disable";
    assert_eq!(folder.shown("database-url", &[]).0, url);
    assert_eq!(folder.shown("postgres.password", &[]).0, "***");
    let flag = ["--database-url", "sqlite::memory:"];
    assert_eq!(folder.shown("database-url", &flag), pair("sqlite::memory:", "--database-url"));
    let said = folder.run(&["config", "show"]);
    assert!(!said.out.contains("geheim") && !said.err.contains("geheim"), "{}{}", said.out, said.err);
    let empty = TestFolder::with(&[("tracetest.yaml", "postgres:\n# [...]\n")]);
    assert!(empty.shown("database-url", &[]).0.starts_with("sqlite://"));
}

#[test]
fn output_has_no_colours_without_a_terminal() {
    let folder = TestFolder::with(&[("qualitytrace.toml", "[limits]\nretention = \"48h\"\n")]);
    let said = folder.run(&["config", "show"]);
    assert!(!said.out.contains('\u{1b}'), "{}", said.out);
    let line = said.out.lines().find(|line| line.starts_with("limits.retention ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["limits.retention", "48h", "qualitytrace.toml:2:13"]);
    let yaml = folder.run(&["config", "show", "-o", "yaml"]);
    assert!(yaml.out.contains("key: limits.retention\n"), "{}", yaml.out);
}

/// The fenced blocks of a language.
fn blocks<'d>(document: &'d str, language: &str) -> Vec<&'d str> {
    let fence = format!("```{language}\n");
    document.split(&fence).skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect()
}

#[test]
fn the_documentation_has_every_setting_and_its_examples_are_right() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let document = std::fs::read_to_string(path).unwrap();
    for setting in SETTINGS {
        let row = document.lines().find(|line| line.starts_with(&format!("| `{}` |", setting.key)));
        let row = row.unwrap_or_else(|| panic!("docs/configuration.md has no row for `{}`", setting.key));
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(columns[3] == "yes", setting.live, "the reload of `{}`", setting.key);
        let default = setting.default_text();
        let shown = columns[2].replace('`', "");
        let is_plain = !default.is_empty() && default != "***" && setting.key != "data-dir";
        assert!(!is_plain || shown == default, "the default of `{}` is {default}, not {shown}", setting.key);
    }
    for (language, name) in [("yaml", "a.yaml"), ("toml", "a.toml"), ("json", "a.json")] {
        let blocks = blocks(&document, language);
        assert!(!blocks.is_empty(), "the examples in {language} are gone");
        for block in blocks {
            let folder = TestFolder::with(&[(name, block)]).set("POSTGRES_PASSWORD", "hunter2");
            let said = folder.run(&["config", "check", "--config", name]);
            assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{block}");
        }
    }
}

/// Flags and variables in the text of the documentation work as it says.
#[test]
fn the_flags_and_variables_of_the_documentation_are_right() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let document = std::fs::read_to_string(path).unwrap();
    let is_word = |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    let examples = document.split('`').skip(1).step_by(2).filter(|code| !code.contains('\n'));
    let mut seen = 0;
    for example in examples.filter(|code| !code.split(['=', ' ']).any(is_word)) {
        let folder = TestFolder::with(&[]);
        let said = match example.split_once('=') {
            _ if example.starts_with("--") && example != "---" => {
                folder.run(&["config", "check"].into_iter().chain(example.split(' ')).collect::<Vec<_>>())
            }
            Some((name, value))
                if ["QUALITYTRACE_", "TRACETEST_"].iter().any(|start| name.starts_with(start)) =>
            {
                folder.set(name.to_owned().leak(), value).run(&["config", "check"])
            }
            _ => continue,
        };
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{example}");
        seen += 1;
    }
    assert!(seen >= 5, "the examples are gone");
}

/// A file as in Tracetest's own examples, with the address of the test's database.
#[tokio::test]
async fn a_postgres_block_of_tracetest_really_connects() {
    let Ok(url) = std::env::var("QUALITYTRACE_TEST_POSTGRES") else {
        assert!(
            std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(),
            "QUALITYTRACE_TEST_POSTGRES is not set"
        );
        println!("skipped: QUALITYTRACE_TEST_POSTGRES is not set");
        return;
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = reqwest::Url::parse(&url).unwrap();
    let name = format!("config_{}", uuid::Uuid::new_v4().simple());
    sqlx::any::install_default_drivers();
    let mut connection = <sqlx::AnyConnection as sqlx::Connection>::connect(url.as_str()).await.unwrap();
    let create = format!("CREATE DATABASE {name}");
    sqlx::Executor::execute(&mut connection, sqlx::AssertSqlSafe(create)).await.unwrap();
    let text = format!(
        "postgres:\n  host: {}\n  port: {}\n  user: {}\n  password: {}\n  dbname: {name}\n  params: {}\n\
         server:\n  httpPort: 0\notlp-grpc-addr: off\notlp-http-addr: off\n",
        url.host_str().unwrap(),
        url.port().unwrap_or(5432),
        url.username(),
        url.password().unwrap_or("postgres"),
        url.query().unwrap_or("sslmode=disable"),
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tracetest.yaml");
    std::fs::write(&file, text).unwrap();
    let served = Served::start_with(program(), &["--config", file.to_str().unwrap()]).await;
    let stored = reqwest::get(served.url("/api/tests")).await.unwrap();
    assert_eq!(stored.status(), 200);
    let tables =
        "SELECT CAST(count(*) AS INTEGER) FROM information_schema.tables WHERE table_name = 'resources'";
    let here = url.join(&format!("/{name}?{}", url.query().unwrap_or_default())).unwrap();
    let mut connection = <sqlx::AnyConnection as sqlx::Connection>::connect(here.as_str()).await.unwrap();
    let (count,): (i32,) = sqlx::query_as(tables).fetch_one(&mut connection).await.unwrap();
    assert_eq!(count, 1, "the tables are in the database that the block names");
}
