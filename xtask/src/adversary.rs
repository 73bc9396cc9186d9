//! `cargo xtask adversary`: attacks on a release build with a gibibyte of address space.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context as _, Result, bail};
use qualitytrace_testing::adversary::{DENIED, FULL, READ, Target, attacks, http};
use qualitytrace_testing::port;

use crate::process::{self, Guard};
use crate::workspace::{self, Profile};

/// The address space limit of the server, in KiB.
const ADDRESS_SPACE_KIB: u64 = 1 << 20;
/// Its peak memory limit, in MiB.
const PEAK_MIB: u64 = 400;
/// Its start timeout.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Builds the program, attacks it, and prints a line for each attack.
pub(crate) fn run() -> Result<()> {
    let program = workspace::build_programs(Profile::Release)?.join("qualitytrace");
    let folder = env::temp_dir().join(format!("qualitytrace-adversary-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let outcome = attack(&program, &folder);
    let _ = fs::remove_dir_all(&folder);
    outcome
}

fn attack(program: &Path, folder: &Path) -> Result<()> {
    let (mut server, address) = start(program, &folder.join("open"), &[])?;
    let tokens = format!("full:{FULL},read:{READ}");
    let guards = ["--auth.tokens", &tokens, "--auth.otlp", "true", "--trigger.deny", DENIED];
    let (_guarded, guarded) = start(program, &folder.join("guarded"), &guards)?;
    // Leaked: the attacks need it until the process ends.
    let program: &'static Path = Box::leak(program.to_owned().into_boxed_path());
    let target = Target { address, guarded, program: Some(program) };
    println!("{:<36} {:>8} {:>9}  answer", "attack", "s", "peak MiB");
    let mut missed = 0;
    for attack in attacks() {
        let report = attack.carry_out(&target);
        let is_gone = server.0.try_wait()?.is_some();
        let peak = if is_gone { 0 } else { peak_mib(server.0.id())? };
        let answer = match &report.outcome {
            _ if is_gone => "MISSED: the server is gone".to_owned(),
            Err(why) => format!("MISSED: {why}"),
            Ok(_) if peak > PEAK_MIB => format!("MISSED: more than {PEAK_MIB} MiB"),
            Ok(answer) => answer.clone(),
        };
        missed += u32::from(answer.starts_with("MISSED"));
        println!("{:<36} {:>8.2} {peak:>9}  {answer}", attack.name, report.took.as_secs_f64());
        if is_gone {
            bail!("the server did not survive `{}`", attack.name);
        }
    }
    if missed > 0 {
        bail!("{missed} attacks are not held");
    }
    Ok(())
}

/// Starts a server, and waits until it answers.
fn start(program: &Path, folder: &Path, more: &[&str]) -> Result<(Guard, SocketAddr)> {
    fs::create_dir_all(folder)?;
    let address = SocketAddr::from(([127, 0, 0, 1], port()));
    let limited = format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\"");
    let mut command = process::bound_to_us("KILL", "sh");
    command.args(["-c", &limited]).arg(program).arg("serve");
    command.arg("--server.httpPort").arg(address.port().to_string());
    command
        .args(["--otlp-grpc-addr", "off", "--otlp-http-addr", "off"])
        .arg("--data-dir")
        .arg(folder)
        .args(more);
    let log = fs::File::create(folder.join("log"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut server = Guard(command.spawn().context("failed to start the server")?);
    let started = Instant::now();
    while http::send(address, "GET", "/readyz", &[], b"", Duration::from_secs(1)).is_err() {
        if server.0.try_wait()?.is_some() || started.elapsed() > READY_LIMIT {
            bail!("the server did not start: {}", fs::read_to_string(folder.join("log")).unwrap_or_default());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok((server, address))
}

/// The peak memory of a process.
fn peak_mib(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the process is gone")?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse::<u64>()? / 1024)
}
