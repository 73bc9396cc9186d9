//! Stress test with many clients: `stress DATABASE_URL [CLIENTS] [SECONDS]`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

#[path = "../tests/stress/crowd.rs"]
mod crowd;

use std::process::ExitCode;
use std::time::Duration;

use crowd::Until;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let Some(url) = arguments.first() else {
        eprintln!("usage: stress DATABASE_URL [CLIENTS] [SECONDS]");
        return ExitCode::FAILURE;
    };
    let until = Until::Time(Duration::from_secs(number(2, 60)));
    match crowd::stress(url, number(1, 200), until).await {
        Ok(report) => {
            print!("{}", report.text);
            report.wrong.iter().for_each(|wrong| eprintln!("wrong: {wrong}"));
            if report.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
