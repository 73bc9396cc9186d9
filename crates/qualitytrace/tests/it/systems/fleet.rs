//! Orders, billing and stock of `examples/`, as separate processes with the defaults of their SDKs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use qualitytrace_testing::{DEADLINE, eventually};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A variable of one service: the service, the name and the value.
pub(super) type Variable = (&'static str, &'static str, &'static str);

/// The services of one system. They are stopped on drop.
pub(super) struct Fleet {
    installed: PathBuf,
    endpoint: String,
    ports: HashMap<&'static str, u16>,
    services: HashMap<&'static str, Service>,
}

struct Service {
    _child: Child,
    /// Its output.
    said: Arc<Mutex<Vec<String>>>,
}

/// The folder with the installed systems, if the environment names one.
pub(super) fn installed() -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("QUALITYTRACE_TEST_SYSTEMS") else {
        assert!(std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(), "QUALITYTRACE_TEST_SYSTEMS is not set");
        println!("skipped: QUALITYTRACE_TEST_SYSTEMS names no folder");
        return None;
    };
    Some(folder.into())
}

/// The folder of the examples.
pub(super) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap()
}

impl Fleet {
    /// Starts all three, and waits until each answers. They export to `endpoint`.
    pub(super) async fn start(installed: &Path, endpoint: &str, variables: &[Variable]) -> Self {
        let ports = ["orders", "billing", "stock"].map(|name| (name, qualitytrace_testing::port()));
        let mut fleet = Self {
            installed: installed.to_owned(),
            endpoint: endpoint.to_owned(),
            ports: ports.into(),
            services: HashMap::new(),
        };
        for name in ["stock", "billing", "orders"] {
            fleet.spawn(name, variables);
        }
        for name in ["stock", "billing", "orders"] {
            fleet.answers(name).await;
        }
        fleet
    }

    /// Restarts one service with these variables.
    pub(super) async fn restart(&mut self, name: &'static str, variables: &[Variable]) {
        self.services.remove(name);
        let address = ("127.0.0.1", self.ports[name]);
        eventually(DEADLINE, format!("{name} ends"), async || {
            tokio::net::TcpStream::connect(address).await.is_err()
        })
        .await;
        self.spawn(name, variables);
        self.answers(name).await;
    }

    pub(super) fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}", self.ports[name])
    }

    /// How many lines of a service's output contain this text.
    pub(super) fn said(&self, name: &str, part: &str) -> usize {
        self.services[name].said.lock().unwrap().iter().filter(|line| line.contains(part)).count()
    }

    async fn answers(&self, name: &str) {
        let url = format!("{}/healthz", self.url(name));
        let client = crate::client();
        eventually(DEADLINE, format!("{name} answers"), async || {
            let answer = client.get(&url).send().await;
            let is_well = answer.is_ok_and(|answer| answer.status().is_success());
            if is_well { Ok(()) } else { Err(format!("{:?}", self.services[name].said)) }
        })
        .await;
    }

    fn spawn(&mut self, name: &'static str, variables: &[Variable]) {
        let mut command = self.command(name);
        for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("OTEL_")) {
            command.env_remove(key);
        }
        command.env("OTEL_SERVICE_NAME", name).env("OTEL_EXPORTER_OTLP_ENDPOINT", &self.endpoint);
        command.env("PORT", self.ports[name].to_string());
        command.env("BILLING_URL", self.url("billing")).env("STOCK_URL", self.url("stock"));
        command.envs(variables.iter().filter(|(of, ..)| *of == name).map(|(_, key, value)| (key, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let heard = Arc::clone(&said);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                heard.lock().unwrap().push(line);
            }
        });
        self.services.insert(name, Service { _child: child, said });
    }

    /// The command of a service: as its page says, with dependencies from the cache instead of its folder.
    fn command(&self, name: &str) -> Command {
        let examples = examples();
        match name {
            "orders" => {
                let mut node = Command::new("node");
                node.args(["--require", "@opentelemetry/auto-instrumentations-node/register", "orders.js"]);
                node.env("NODE_PATH", self.installed.join("node/node_modules"));
                node.current_dir(examples.join("node"));
                node
            }
            "billing" => {
                let packages = self.installed.join("python");
                let mut python = Command::new("python3");
                python.arg(packages.join("bin/opentelemetry-instrument"));
                python.args(["python3", "-m", "flask", "--app", "billing", "run", "--port"]);
                python.arg(self.ports[name].to_string());
                python.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
                python.current_dir(examples.join("python"));
                python
            }
            _ => Command::new(self.installed.join("go/stock")),
        }
    }
}
