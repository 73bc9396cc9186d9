//! Apache Kafka: the jars of its broker, from Maven Central.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{
    maven::Jars,
    running::{Running, addresses},
};
use crate::process;

const VERSION: &str = "4.3.1";
const JARS: Jars = Jars {
    title: "Kafka",
    name: "kafka",
    version: VERSION,
    recipe: 1,
    artifacts: &[
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-nop", "1.7.36"),
    ],
};

/// Start timeout of a broker.
const READY_LIMIT: Duration = Duration::from_mins(2);

/// Fetches the jars unless they are there already; returns their folder.
pub(crate) fn install() -> Result<PathBuf> {
    JARS.install()
}

/// A broker without encryption that creates topics with one partition when they are written to. Dropping it ends the
/// process.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) address: SocketAddr,
    running: Running,
}

/// Starts a broker on free loopback ports; it takes some seconds until it is [ready](Broker::wait).
pub(crate) fn start() -> Result<Broker> {
    let jars = install()?;
    let [address, controller] = addresses();
    // The folder is an argument, and the shell replaces itself by the broker.
    let script = "java=\"java -Xms64m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1\" \
                  && $java -cp \"$0/*\" kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw -c broker.properties \
                  && exec $java -cp \"$0/*\" kafka.Kafka broker.properties";
    let running = Running::start("the Kafka broker", "kafka", |folder| {
        fs::write(folder.join("broker.properties"), properties(folder, address, controller))
            .context("failed to write the properties of the broker")?;
        let mut command = process::bound_to_us("KILL", "sh");
        command.args(["-c", script]).arg(jars);
        Ok(command)
    })?;
    Ok(Broker { address, running })
}

impl Broker {
    /// Waits until the broker accepts connections.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.running.wait(&[self.address], READY_LIMIT)
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
