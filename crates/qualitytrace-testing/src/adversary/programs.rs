//! Attacks on servers that they start themselves: inside `run`, open to other machines, with a special configuration.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::cases::{LONGEST, attack, expect, half_sent, request};
use super::http;
use super::{Attack, FULL, Outcome, READ, Target};
use crate::try_eventually_blocking;

/// Timeout of a wait.
const TIMEOUT: Duration = Duration::from_secs(30);

/// All attacks.
pub(super) const ALL: [Attack; 5] = [
    attack("the server inside of run", 90, false, inner_server),
    attack("exporting to itself", 60, false, exporting_to_itself),
    attack("commands on an exposed server", 60, false, commands_on_an_exposed_server),
    attack("a withdrawn token's socket", 60, false, withdrawn_token),
    attack("a flooder and an honest one", 60, false, flooder_and_honest_sender),
];

/// Another user of the machine finds the port of the server inside `run`.
fn inner_server(to: &Target) -> Outcome {
    let folder = Folder::new("inner")?;
    let (endpoint, go) = (folder.file("endpoint"), folder.file("go"));
    let script = format!(
        "echo $OTEL_EXPORTER_OTLP_ENDPOINT > {0}.new; mv {0}.new {0}; while [ ! -e {1} ]; do sleep 0.05; done",
        endpoint.display(),
        go.display()
    );
    let test = exec("inner", &script);
    write(&folder.file("test.json"), &test)?;
    let mut command = Command::new(to.program()?);
    command.args(["run", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"]).arg(folder.file("test.json"));
    command.env_remove("QUALITYTRACE_SERVER_URL").env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
    let mut run = Program::start(command)?;
    let found =
        try_eventually_blocking(TIMEOUT, "the command is run", || fs::read_to_string(&endpoint).ok())?;
    let address = found.trim().trim_start_matches("http://").trim_end_matches('/');
    let address: SocketAddr = address.parse().map_err(|_| format!("`{found}` is no address"))?;
    let headers = [("content-type", "application/json")];
    for (method, path, body) in [
        ("GET", "/api/tests", ""),
        ("GET", "/metrics", ""),
        ("PUT", "/api/tests", &*test),
        ("POST", "/api/tests/inner/run", "{}"),
        ("DELETE", "/api/tests/inner", ""),
    ] {
        let answer = http::send(address, method, path, &headers, body.as_bytes(), LONGEST);
        expect(&answer.map_err(|error| error.to_string())?, &[401])
            .map_err(|why| format!("{method} {path}: {why}"))?;
    }
    write(&go, "")?;
    let status = try_eventually_blocking(TIMEOUT, "the run ends", || run.0.try_wait().ok().flatten())?;
    if status.success() {
        Ok("401 for others".to_owned())
    } else {
        Err(format!("the run ends with {status}"))
    }
}

/// A server exports all of its telemetry to itself: it must be silent while nothing happens.
fn exporting_to_itself(to: &Target) -> Outcome {
    let folder = Folder::new("itself")?;
    let port = crate::port();
    let config = format!(
        "tracer:\n  itself:\n    type: open-telemetry\n    transport: grpc\n    endpoint: 'http://127.0.0.1:{port}'\n    \
         level: trace\n    throttle: 1ms\n    interval: 20ms\n    enable.log-exporter: true\n    \
         enable.metric-exporter: true\n    targets: [h2=trace, hyper=trace, hyper_util=trace, tower=trace]\n"
    );
    write(&folder.file("server.yaml"), &config)?;
    let arguments = ["--config", &folder.file("server.yaml").display().to_string()];
    let (_server, address) = serve(to, &folder, port, "127.0.0.1", &arguments)?;
    // The effects of the start are over, and the server has received its own requests. That nothing comes can only be
    // seen over some time.
    let before = try_eventually_blocking(TIMEOUT, "no span comes for a second", || {
        let before = received(address)?;
        thread::sleep(Duration::from_secs(1));
        match received(address)? - before {
            0 if before > 0 => Ok(before),
            more => Err(format!("{before} spans, and {more} in a second")),
        }
    })?;
    thread::sleep(Duration::from_secs(5));
    match received(address)? - before {
        0 => Ok(format!("{before} spans of the start, none at idle")),
        more => Err(format!("{more} spans in 5 s at idle")),
    }
}

/// The number of spans that a server has received. A request for metrics causes none.
fn received(address: SocketAddr) -> Result<u64, String> {
    let metrics =
        http::send(address, "GET", "/metrics", &[], b"", LONGEST).map_err(|error| error.to_string())?;
    let is_meant = |line: &&str| line.starts_with("qualitytrace_ingest_items") && line.contains("spans");
    let of = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
    let count: f64 = metrics.text.lines().filter(is_meant).filter_map(of).sum();
    format!("{count:.0}").parse().map_err(|_| format!("{count} is no number of spans"))
}

/// A server that other machines reach without a token: any of them could run commands.
fn commands_on_an_exposed_server(to: &Target) -> Outcome {
    let folder = Folder::new("exposed")?;
    let (_server, address) = serve(to, &folder, crate::port(), "0.0.0.0", &[])?;
    let proof = folder.file("proof");
    let test = exec("exposed", &format!("touch {}", proof.display()));
    let headers = [("content-type", "application/json")];
    let send = |method: &str, path: &str, body: &str| {
        http::send(address, method, path, &headers, body.as_bytes(), LONGEST)
            .map_err(|error| error.to_string())
    };
    let stored = send("PUT", "/api/tests", &test)?;
    if stored.status < 400 {
        expect(&send("POST", "/api/tests/exposed/run", "{}")?, &[200, 400, 403])?;
        try_eventually_blocking(TIMEOUT, "the run ends", || {
            let run = send("GET", "/api/tests/exposed/run/1", "").ok()?;
            (run.status == 404 || run.text.contains("_FAILED\"") || run.text.contains("\"FINISHED\""))
                .then_some(())
        })?;
    }
    if proof.exists() { Err("the command was run".to_owned()) } else { Ok("no command is run".to_owned()) }
}

/// A token is revoked while a socket of its client is open.
fn withdrawn_token(to: &Target) -> Outcome {
    let folder = Folder::new("withdrawn")?;
    let file = folder.file("server.yaml");
    let tokens = |list: &str| write(&file, &format!("auth:\n  tokens: [{list}]\n"));
    tokens(&format!("'full:{FULL}', 'read:{READ}'"))?;
    let (server, address) =
        serve(to, &folder, crate::port(), "127.0.0.1", &["--config", &file.display().to_string()])?;
    let mut socket = socket(address, READ)?;
    tokens(&format!("'full:{FULL}'"))?;
    let hup = Command::new("kill").args(["-HUP", &server.0.id().to_string()]).status();
    if !hup.is_ok_and(|status| status.success()) {
        return Err("the server cannot be told to reload".to_owned());
    }
    let closed = Instant::now() + TIMEOUT;
    loop {
        // Frames of the server: pings until it closes the socket.
        let mut head = [0; 2];
        match socket.read_exact(&mut head) {
            Ok(()) if head[0] == 0x88 => return Ok("the socket is closed".to_owned()),
            Ok(()) => {
                let mut rest = vec![0; usize::from(head[1] & 0x7f)];
                socket.read_exact(&mut rest).map_err(|error| error.to_string())?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Ok("the connection ends".to_owned());
            }
            Err(error) => return Err(error.to_string()),
        }
        if Instant::now() > closed {
            return Err("the socket stays open".to_owned());
        }
    }
}

/// Opens a web socket with a token.
fn socket(address: SocketAddr, token: &str) -> Result<TcpStream, String> {
    let opened = || -> std::io::Result<(TcpStream, String)> {
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        write!(
            stream,
            "GET /ws HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
             authorization: Bearer {token}\r\n\r\n"
        )?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        Ok((stream, String::from_utf8_lossy(&head).into_owned()))
    };
    let (stream, head) = opened().map_err(|error| error.to_string())?;
    if head.starts_with("HTTP/1.1 101") {
        Ok(stream)
    } else {
        Err(format!("no socket is opened: {head:.100}"))
    }
}

/// One address floods the ingest with unfinished bodies; another one can still send spans.
fn flooder_and_honest_sender(to: &Target) -> Outcome {
    let folder = Folder::new("flooder")?;
    let (_server, ours) = serve(to, &folder, crate::port(), "::", &[])?;
    let [flooder, honest] = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)]
        .map(|address| SocketAddr::new(address, ours.port()));
    let flood: Vec<TcpStream> = (0..40).map_while(|_| half_sent(flooder, "/v1/traces").ok()).collect();
    let headers = [("content-type", "application/x-protobuf")];
    for number in 0..20_u64 {
        let spans = request(&format!("{:032x}", 0xadd_1000 + number), 100);
        let answer = http::send(honest, "POST", "/v1/traces", &headers, &spans, LONGEST);
        expect(&answer.map_err(|error| error.to_string())?, &[200])
            .map_err(|why| format!("request {number} of the honest one: {why}"))?;
    }
    drop(flood);
    Ok("200 for the honest one".to_owned())
}

/// A test whose trigger is a command.
fn exec(id: &str, script: &str) -> String {
    format!(
        r#"{{"type":"Test","spec":{{"id":"{id}","name":"{id}","skipTraceCollection":true,"trigger":{{"type":"exec","exec":{{"command":["sh","-c","{script}"],"timeout":"60s"}}}}}}}}"#
    )
}

/// Starts a server at a port, and waits until it answers.
fn serve(
    to: &Target,
    folder: &Folder,
    port: u16,
    host: &str,
    arguments: &[&str],
) -> Result<(Program, SocketAddr), String> {
    let mut command = Command::new(to.program()?);
    command.args(["serve", "--host", host, "--server.httpPort", &port.to_string()]);
    command
        .args(["--otlp-grpc-addr", "off", "--otlp-http-addr", "off", "--data-dir"])
        .arg(folder.file("data"));
    let server = Program::start({
        command.args(arguments);
        command
    })?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    try_eventually_blocking(TIMEOUT, "the server starts", || {
        http::send(address, "GET", "/healthz", &[], b"", Duration::from_secs(1)).ok()
    })?;
    Ok((server, address))
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// A process that is killed on drop.
struct Program(Child);

impl Program {
    fn start(mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self).map_err(|error| error.to_string())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder of one attack, removed on drop.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("qualitytrace-adversary-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| error.to_string())?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
