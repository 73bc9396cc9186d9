//! Apache Kafka: the jars of its broker, from Maven Central.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use qualitytrace_testing::port;

use super::{cache, lock};
use crate::{
    process::{self, Guard, accepts},
    temporary::Folder,
};

const VERSION: &str = "4.3.1";
/// To be raised with changes of `pom`, so that an older set of jars is not used.
const RECIPE: u32 = 1;

/// Start timeout of a broker.
const READY_LIMIT: Duration = Duration::from_mins(2);

/// Fetches the jars unless they are there already; returns their folder. Tests run the broker with `java -cp FOLDER/*`.
pub(crate) fn install() -> Result<PathBuf> {
    let dir = cache()?.join(format!("kafka-{VERSION}-{RECIPE}"));
    let jars = dir.join("jars");
    if jars.is_dir() {
        return Ok(jars);
    }
    let _lock = lock("kafka")?;
    if jars.is_dir() {
        return Ok(jars);
    }
    for program in ["java", "mvn"] {
        process::require(program, "install Java 17 and Maven, or leave the peers out with --no-peers")?;
    }
    println!("    fetching Kafka {VERSION} to {} (once)", jars.display());
    fs::create_dir_all(&dir).with_context(|| format!("failed to make the folder {}", dir.display()))?;
    let recipe = dir.join("pom.xml");
    fs::write(&recipe, pom()).context("failed to write the recipe")?;
    let new = dir.join("jars.new");
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-f"]).arg(&recipe);
    maven.arg(format!("-DoutputDirectory={}", new.display()));
    process::run(&mut maven).context("failed to fetch Kafka")?;
    // Renamed last, so that a partial download is not used.
    fs::rename(&new, &jars).with_context(|| format!("failed to move the jars to {}", jars.display()))?;
    Ok(jars)
}

fn pom() -> String {
    let parts = [
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-nop", "1.7.36"),
    ];
    let parts = parts.map(|(group, name, version)| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        )
    });
    format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>qualitytrace</groupId><artifactId>kafka</artifactId>\
         <version>1</version><dependencies>{}</dependencies></project>\n",
        parts.concat()
    )
}

/// A broker without encryption that creates topics with one partition when they are written to. Dropping it ends the
/// process.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) address: SocketAddr,
    // Field order is drop order: the process ends before its folder is removed.
    process: Guard,
    folder: Folder,
}

/// Starts a broker on free loopback ports; it takes some seconds until it is [ready](Broker::wait).
pub(crate) fn start() -> Result<Broker> {
    let jars = install()?;
    let folder = Folder::new("kafka")?;
    let [address, controller] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], port())));
    fs::write(folder.0.join("broker.properties"), properties(&folder.0, address, controller))
        .context("failed to write the properties of the broker")?;
    // The folder is an argument, and the shell replaces itself by the broker.
    let script = "java=\"java -Xms64m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1\" \
                  && $java -cp \"$0/*\" kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw -c broker.properties \
                  && exec $java -cp \"$0/*\" kafka.Kafka broker.properties";
    let log = fs::File::create(folder.0.join("log"))?;
    let mut command = process::bound_to_us("KILL", "sh");
    command.args(["-c", script]).arg(jars).current_dir(&folder.0);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let process = Guard(command.spawn().context("failed to start the Kafka broker")?);
    Ok(Broker { address, process, folder })
}

impl Broker {
    /// Waits until the broker accepts connections.
    pub(crate) fn wait(&mut self) -> Result<()> {
        let asked = Instant::now();
        while !accepts(self.address) {
            if self.process.0.try_wait()?.is_some() || asked.elapsed() > READY_LIMIT {
                let said = fs::read_to_string(self.folder.0.join("log")).unwrap_or_default();
                bail!("the Kafka broker did not become ready: {}", said.trim());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

fn properties(folder: &Path, address: SocketAddr, controller: SocketAddr) -> String {
    format!(
        "\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{controller}
controller.listener.names=CONTROLLER
listeners=PLAIN://{address},CONTROLLER://{controller}
advertised.listeners=PLAIN://{address}
listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
log.dirs={}
offsets.topic.replication.factor=1
auto.create.topics.enable=true
num.partitions=1
",
        folder.join("logs").display()
    )
}
