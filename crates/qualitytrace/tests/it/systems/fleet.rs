//! Orders, billing, stock and mail of `examples/`, as separate processes with the defaults of their SDKs.

mod balancer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use qualitytrace_testing::{DEADLINE, eventually};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A variable of one service: the service, the name and the value.
pub(super) type Variable = (&'static str, &'static str, &'static str);

/// The services that call each other; the first is called by tests.
const ORDERING: [&str; 3] = ["orders", "billing", "stock"];

/// The services of one system. They are stopped on drop.
pub(super) struct Fleet {
    installed: PathBuf,
    endpoint: String,
    /// Where each service is called.
    ports: HashMap<&'static str, u16>,
    services: HashMap<&'static str, Service>,
    replicas: Vec<Service>,
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
    /// Starts those that order, and waits until each answers. They export to `endpoint`.
    pub(super) async fn start(installed: &Path, endpoint: &str, variables: &[Variable]) -> Self {
        Self::of(installed, endpoint, &ORDERING, variables).await
    }

    /// Starts these services, and waits until each answers.
    pub(super) async fn of(
        installed: &Path,
        endpoint: &str,
        names: &[&'static str],
        variables: &[Variable],
    ) -> Self {
        let mut fleet = Self {
            installed: installed.to_owned(),
            endpoint: endpoint.to_owned(),
            ports: names.iter().map(|name| (*name, qualitytrace_testing::port())).collect(),
            services: HashMap::new(),
            replicas: Vec::new(),
        };
        for name in names {
            fleet.spawn(name, variables);
        }
        for name in names {
            fleet.answers(name).await;
        }
        fleet
    }

    /// Starts a second process of one service with these variables, and a load balancer in front of both, which callers use
    /// from now on.
    pub(super) async fn replicate(&mut self, name: &'static str, variables: &[Variable]) {
        let (first, second) = (self.ports[name], qualitytrace_testing::port());
        let replica = self.process(name, second, variables);
        replica.answers(name, second).await;
        self.replicas.push(replica);
        let balancer = balancer::start([first, second]).await;
        self.ports.insert(name, balancer);
        self.restart("orders", variables).await;
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
        self.services[name].answers(name, self.ports[name]).await;
    }

    fn spawn(&mut self, name: &'static str, variables: &[Variable]) {
        let service = self.process(name, self.ports[name], variables);
        self.services.insert(name, service);
    }

    fn process(&self, name: &str, port: u16, variables: &[Variable]) -> Service {
        let mut command = self.command(name, port);
        for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("OTEL_")) {
            command.env_remove(key);
        }
        command.env("OTEL_SERVICE_NAME", name).env("OTEL_EXPORTER_OTLP_ENDPOINT", &self.endpoint);
        command.env("PORT", port.to_string());
        for (variable, called) in [("BILLING_URL", "billing"), ("STOCK_URL", "stock")] {
            command.envs(self.ports.contains_key(called).then(|| (variable, self.url(called))));
        }
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
        Service { _child: child, said }
    }

    /// The command of a service: as its page says, with dependencies from the cache instead of its folder.
    fn command(&self, name: &str, port: u16) -> Command {
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
                python.arg(port.to_string());
                python.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
                python.current_dir(examples.join("python"));
                python
            }
            "mail" => {
                let mut java = Command::new("java");
                java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
                let agent = self.installed.join("java/opentelemetry-javaagent.jar");
                java.arg(format!("-javaagent:{}", agent.display()));
                java.arg("-cp").arg(self.installed.join("java")).arg("Mail");
                java
            }
            _ => Command::new(self.installed.join("go/stock")),
        }
    }
}

impl Service {
    /// Waits until it answers.
    async fn answers(&self, name: &str, port: u16) {
        let client = crate::client();
        eventually(DEADLINE, format!("{name} answers"), async || {
            let answer = client.get(format!("http://127.0.0.1:{port}/healthz")).send().await;
            let is_well = answer.is_ok_and(|answer| answer.status().is_success());
            if is_well { Ok(()) } else { Err(format!("{:?}", self.said)) }
        })
        .await;
    }
}
