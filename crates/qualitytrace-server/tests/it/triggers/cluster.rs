//! A real Kafka broker with every kind of listener, started once for all tests.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use qualitytrace_testing::within;
use rskafka::client::ClientBuilder;
use rskafka::client::partition::UnknownTopicHandling;
use rskafka::record::RecordAndOffset;
use tokio::sync::OnceCell;

use super::certificates::{Authority, Identity};

/// The addresses of the listeners.
pub(super) struct Cluster {
    pub(super) plain: String,
    /// A listener that advertises an address where nothing listens.
    pub(super) stale: String,
    pub(super) stale_target: String,
    pub(super) sasl: String,
    /// A listener with TLS and SASL.
    pub(super) secure: String,
    pub(super) tls: String,
    pub(super) mutual: String,
    pub(super) ca: String,
    pub(super) client: Identity,
}

/// Returns the broker; `None` if this machine has none.
pub(super) async fn cluster() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    static READY: OnceCell<()> = OnceCell::const_new();
    let Ok(jars) = std::env::var("QUALITYTRACE_TEST_KAFKA") else {
        assert!(std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(), "QUALITYTRACE_TEST_KAFKA is not set");
        println!("skipped: QUALITYTRACE_TEST_KAFKA is not set");
        return None;
    };
    let cluster = CLUSTER.get_or_init(|| Some(start(&jars))).as_ref()?;
    READY.get_or_init(|| create("ready", 1, cluster)).await;
    Some(cluster)
}

/// Creates a topic. The client retries until the broker is up.
async fn create(topic: &str, partitions: i32, cluster: &Cluster) {
    let client = ClientBuilder::new(vec![cluster.plain.clone()]).build();
    let client = within(Duration::from_mins(3), "the broker is up", client).await.unwrap();
    client.controller_client().unwrap().create_topic(topic, partitions, 1, 30_000).await.unwrap();
}

impl Cluster {
    /// Creates a topic for one test.
    pub(super) async fn topic(&self, partitions: i32) -> String {
        let name = format!("topic-{:016x}", rand::random::<u64>());
        create(&name, partitions, self).await;
        name
    }

    /// Reads the records of a partition.
    pub(super) async fn read(&self, topic: &str, partition: i32) -> Vec<RecordAndOffset> {
        let client = ClientBuilder::new(vec![self.plain.clone()]).build().await.unwrap();
        let partition = client.partition_client(topic, partition, UnknownTopicHandling::Retry).await.unwrap();
        partition.fetch_records(0, 1..1_000_000, 1_000).await.unwrap().0
    }
}

fn start(jars: &str) -> Cluster {
    let folder = tempfile::tempdir().unwrap().keep();
    let ports: Vec<u16> = (0..8).map(|_| qualitytrace_testing::port()).collect();
    let authority = Authority::new();
    let clients = Authority::new();
    let server = authority.sign("localhost");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("server.pem", &format!("{}{}", server.key, server.certificate));
    write("clients.pem", &clients.pem);
    write("broker.properties", &properties(&folder, &ports));
    let java = format!("exec java -Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '{jars}/*'");
    let scram = |kind: &str| format!("--add-scram 'SCRAM-SHA-{kind}=[name=me,password=s3cret]'");
    // When this process ends, for whatever reason, its end of the pipe closes, and the broker is killed.
    let script = format!(
        "({java} kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw -c broker.properties {} {}) >log 2>&1 \
         && ({java} kafka.Kafka broker.properties) >>log 2>&1 & broker=$!; cat; kill -9 $broker; \
         pkill -9 -P $broker; rm -rf \"$PWD\"",
        scram("256"),
        scram("512")
    );
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", &script]).current_dir(&folder);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Kept until the process ends.
    std::mem::forget(child);
    let at = |index: usize| format!("127.0.0.1:{}", ports[index]);
    Cluster {
        plain: at(0),
        stale: at(1),
        stale_target: at(6),
        sasl: at(2),
        secure: format!("localhost:{}", ports[7]),
        tls: format!("localhost:{}", ports[3]),
        mutual: format!("localhost:{}", ports[4]),
        ca: authority.pem.clone(),
        client: clients.sign("me"),
    }
}

fn properties(folder: &Path, ports: &[u16]) -> String {
    let [plain, stale, sasl, tls, mutual, controller, closed, secure] = ports else { panic!("{ports:?}") };
    let folder = folder.display();
    let module = "org.apache.kafka.common.security";
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAIN://127.0.0.1:{plain},STALE://127.0.0.1:{stale},SASL://127.0.0.1:{sasl},TLS://127.0.0.1:{tls},MUTUAL://127.0.0.1:{mutual},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAIN://127.0.0.1:{plain},STALE://127.0.0.1:{closed},SASL://127.0.0.1:{sasl},TLS://localhost:{tls},MUTUAL://localhost:{mutual},SECURE://localhost:{secure}
listener.security.protocol.map=PLAIN:PLAINTEXT,STALE:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,MUTUAL:SSL,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_me=\"s3cret\";
listener.name.sasl.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;
listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.secure.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_me=\"s3cret\";
listener.name.secure.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={folder}/server.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/clients.pem
listener.name.mutual.ssl.client.auth=required
log.dirs={folder}/logs
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
auto.create.topics.enable=false
"
    )
}
