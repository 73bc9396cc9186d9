//! `cargo xtask dogfood`: Qualitytrace tests Qualitytrace, through a real Collector.
//!
//! A subject exports its own telemetry to the Collector, which forwards it to an observer. The observer runs the tests of
//! `dogfood/` against the API of the subject and judges the subject's spans. Then one server is both.

mod backends;
mod catalogue;
mod ledger;
mod metrics;
mod mutant;
mod system;

use std::{
    env, fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use self::{
    ledger::{Created, Received},
    system::{Mode, Programs, System, of_dogfood},
};
use crate::{
    peers::{kafka, otelcol},
    process,
    workspace::{self, Profile},
};

/// How long the telemetry of the subject may take to settle.
const LEDGER_LIMIT: Duration = Duration::from_secs(30);
/// The pause between two requests that keep the subject heard.
const TRAFFIC_INTERVAL: Duration = Duration::from_millis(50);
/// What requests of the suites contain where secrets belong. It may be in no span, metric or log record.
const SECRET: &str = "hunter2";

/// A fault of the subject that the tests have to detect.
struct Mutation {
    /// The name of its patch.
    name: &'static str,
    /// The suite or test that detects it.
    detected_by: &'static str,
    /// What its report has to name.
    causes: &'static [&'static str],
}

const MUTATIONS: [Mutation; 3] = [
    Mutation {
        name: "dropped-span",
        detected_by: "dogfood-runs",
        causes: &["Assertions are executed", "name=\"Execute assertions\""],
    },
    Mutation {
        name: "renamed-attribute",
        detected_by: "dogfood-tests",
        causes: &["attr:http.route = \"/api/tests\"", "http.route"],
    },
    Mutation { name: "server-error", detected_by: "read-settings", causes: &["got 500, expected 200"] },
];

/// Builds or installs everything, and runs it.
pub(crate) fn run() -> Result<()> {
    let ours = workspace::build_programs(Profile::Debug)?.join("qualitytrace");
    let programs = Programs { subject: ours.clone(), ours, collector: otelcol::install()? };
    let reports = workspace::target().join("dogfood");
    // Reports of an earlier run are not mistaken for those of this one.
    let _ = fs::remove_dir_all(&reports);
    fs::create_dir_all(&reports)
        .with_context(|| format!("failed to make the folder {}", reports.display()))?;
    let result = pair(&programs, &reports)
        .and_then(|()| alone(&programs, &reports))
        .and_then(|()| mutated(programs, &reports));
    println!("    reports are in {}", reports.display());
    result
}

/// Two servers: suites, a Collector and a database that are away, a reload, and the ledger of it all.
fn pair(programs: &Programs, reports: &Path) -> Result<()> {
    // It starts while the other suites run.
    let mut broker = kafka::start()?;
    let mut system = System::start(programs, Mode::Pair)?;
    let judge = Judge { program: &programs.ours, reports };
    judge.passes(&system, "tests", "tests", &[])?;
    let file = system.received_file();
    if let Some(backends) = &mut system.backends {
        backends.wait()?;
        backends.check_metrics(&file)?;
        println!("    Prometheus has the metrics in each of three ways, and evaluates the alerts");
    }
    broker.wait()?;
    judge.passes(&system, "kafka", "kafka", &["--var", &format!("KAFKA={}", broker.address)])?;
    drop(broker);
    system.restart_collector()?;
    system.reload()?;
    judge.passes(&system, "reloaded", "reloaded", &[])?;
    system.take_database_away();
    judge.passes(&system, "away", "away", &[])?;
    let spans = check_ledger(&system, &programs.ours)?;
    system.stop()?;
    let received = check_received(&system.received()?)?;
    if let Some(backends) = &system.backends {
        backends.check_spans(&received)?;
        println!(
            "    Jaeger and Zipkin have {} spans, as the Collector's file has them",
            received.spans.len()
        );
    }
    let page = fs::read_to_string(workspace::root().join(catalogue::PAGE))
        .with_context(|| format!("failed to read {}", catalogue::PAGE))?;
    catalogue::compare(&page, &received)?;
    println!("    {spans} spans were created, and the Collector received each of them");
    Ok(())
}

/// One server that observes itself.
fn alone(programs: &Programs, reports: &Path) -> Result<()> {
    let mut system = System::start(programs, Mode::Alone)?;
    let judge = Judge { program: &programs.ours, reports };
    judge.passes(&system, "alone", "tests", &[])?;
    check_ledger(&system, &programs.ours)?;
    system.stop()?;
    check_received(&system.received()?)?;
    Ok(())
}

/// Subjects with a fault each, by a build of patched sources.
fn mutated(programs: Programs, reports: &Path) -> Result<()> {
    let mutant = mutant::build(&MUTATIONS.map(|mutation| mutation.name))?;
    let programs = Programs { subject: mutant.program.clone(), ..programs };
    let judge = Judge { program: &programs.ours, reports };
    // The faults, and not the build, turn tests red.
    let mut whole = System::start(&programs, Mode::Mutated("none"))?;
    judge.passes(&whole, "mutation-none", "tests", &[])?;
    whole.stop()?;
    for Mutation { name, detected_by, causes } in &MUTATIONS {
        let mut system = System::start(&programs, Mode::Mutated(name))?;
        judge.fails(&system, &format!("mutation-{name}"), "tests", &["--id", detected_by], causes)?;
        system.stop()?;
    }
    Ok(())
}

/// Runs something while the subject gets requests. A server that is heard all the time shows that a span is missing, and
/// not just late.
fn with_traffic<T>(system: &System<'_>, run: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // What it answers does not matter.
                let _ = process::ask(system.subject_http, "/api/tests?take=1");
                thread::sleep(TRAFFIC_INTERVAL);
            }
        });
        let result = run();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

/// Runs tests with our command line.
struct Judge<'a> {
    program: &'a Path,
    reports: &'a Path,
}

/// What a run of the command line said.
struct CommandOutput {
    code: Option<i32>,
    text: String,
}

impl Judge<'_> {
    /// Runs the tests of a folder; all have to pass.
    fn passes(&self, system: &System<'_>, report: &str, folder: &str, further: &[&str]) -> Result<()> {
        // Annotations and the summary of a job at GitHub.
        let at_github = env::var_os("GITHUB_ACTIONS").is_some();
        let reports: &[&str] = if at_github { &["--report", "github,markdown"] } else { &[] };
        let said = self.run(system, report, folder, &[further, reports].concat())?;
        said.text.lines().filter(|line| line.starts_with("::")).for_each(|line| println!("{line}"));
        if said.code != Some(0) {
            bail!(
                "the tests of dogfood/{folder} did not pass ({report}):\n{}\nthe subject said:\n{}",
                said.text,
                system.log_of_subject()
            );
        }
        println!("    {report}: {}", said.text.lines().last().unwrap_or_default());
        Ok(())
    }

    /// Runs tests that have to fail with a report that names the cause.
    fn fails(
        &self,
        system: &System<'_>,
        report: &str,
        folder: &str,
        further: &[&str],
        causes: &[&str],
    ) -> Result<()> {
        let further = [further, &["--confirm", "5s"]].concat();
        let said = with_traffic(system, || self.run(system, report, folder, &further))?;
        if said.code != Some(2) {
            bail!("the tests do not notice `{report}` (exit code {:?}):\n{}", said.code, said.text);
        }
        if let Some(cause) = causes.iter().find(|cause| !said.text.contains(**cause)) {
            bail!("the report of `{report}` does not name `{cause}`:\n{}", said.text);
        }
        println!("    {report}: noticed, and the report names {}", causes.join(" and "));
        Ok(())
    }

    fn run(
        &self,
        system: &System<'_>,
        report: &str,
        folder: &str,
        further: &[&str],
    ) -> Result<CommandOutput> {
        let file = |ending: &str| self.reports.join(format!("{report}.{ending}")).display().to_string();
        let mut command = Command::new(self.program);
        command.arg("run").arg(of_dogfood(folder)).args(["--server", &system.observer]);
        for (name, value) in [
            ("SUBJECT", system.subject.as_str()),
            ("SUBJECT_GRPC", &system.subject_grpc.to_string()),
            ("DATABASE", system.database()),
        ] {
            command.arg("--var").arg(format!("{name}={value}"));
        }
        // The subject exports every 100 ms.
        command.args(["--settle", "1s", "--within", "1s", "--timeout", "40s", "--parallel", "4"]);
        command.arg("--report").arg(format!("junit={},html={}", file("xml"), file("html")));
        command.args(further).current_dir(workspace::root()).env("NO_COLOR", "1");
        let output = command.output().context("failed to start our command line")?;
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        Ok(CommandOutput { code: output.status.code(), text: text.trim_end().to_owned() })
    }
}

/// Checks that every span that the subject created is in the Collector's file, by its id. Returns how many there are.
fn check_ledger(system: &System<'_>, program: &Path) -> Result<u64> {
    let status = || -> Result<Created> {
        let mut ask = Command::new(program);
        ask.args(["telemetry", "status", "--json", "--server", &system.subject]);
        let text = process::output(&mut ask)?;
        let status: Value = serde_json::from_str(&text).context("the status of the telemetry is not JSON")?;
        Created::read(&status)
    };
    let asked = Instant::now();
    loop {
        // The subject goes on working. Only a moment at which it created nothing can be compared.
        let before = status()?;
        let received = Received::read(&system.received()?)?.spans.len();
        let is_still = before == status()? && before.due == before.exported;
        if is_still && usize::try_from(before.due)? == received {
            return Ok(before.due);
        }
        if asked.elapsed() > LEDGER_LIMIT {
            bail!(
                "the subject created {} spans and exported {}, and the Collector's file has {received}",
                before.due,
                before.exported
            );
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Checks what the Collector received as a whole: no span without its parent, and no secret anywhere.
fn check_received(text: &str) -> Result<Received> {
    let received = Received::read(text)?;
    if !received.orphans.is_empty() {
        bail!("the parents of these spans were not received: {}", received.orphans.join(", "));
    }
    if let Some(line) = text.lines().find(|line| line.contains(SECRET)) {
        let at = line.find(SECRET).unwrap_or_default();
        let around: String = line.chars().skip(at.saturating_sub(300)).take(400).collect();
        bail!("a secret is in the telemetry of the subject: ...{around}...");
    }
    Ok(received)
}
