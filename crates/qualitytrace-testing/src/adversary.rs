//! Attacks on a server, each with its accepted responses and a time limit.
//!
//! A new attack is a function and a line in one of the tables of `cases`. The server must answer each with an error
//! or a verdict, must stay alive, and must stay within its memory limit; the caller checks the last two.

mod cases;
mod command_line;
mod expansion;
mod guarded;
pub mod http;
mod programs;
mod stores;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use http::Answer;

/// One attack.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// Its name in the table.
    pub name: &'static str,
    /// Its time limit.
    pub limit: Duration,
    /// Whether it is small enough for an unoptimised server.
    pub is_small: bool,
    /// The attack itself.
    run: fn(&Target) -> Outcome,
}

/// The outcome of an attack: the response, or what is wrong with it.
pub type Outcome = Result<String, String>;

/// The servers that are attacked.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The main port of a server without tokens.
    pub address: SocketAddr,
    /// The main port of a server with the tokens [`FULL`] and [`READ`], whose triggers may not connect to [`DENIED`].
    pub guarded: SocketAddr,
    /// The program, for attacks that start their own server.
    pub program: Option<&'static Path>,
}

/// The token with full access.
pub const FULL: &str = "full-token-of-the-adversary";
/// The token with read access.
pub const READ: &str = "read-token-of-the-adversary";
/// The addresses that triggers of the guarded server may not connect to.
pub const DENIED: &str = "127.0.0.0/8";

/// The result of an attack.
#[derive(Debug)]
pub struct Report {
    /// The attack.
    pub attack: Attack,
    /// How long it took.
    pub took: Duration,
    /// The response, or what is wrong with it.
    pub outcome: Outcome,
}

/// All attacks, in order.
pub fn attacks() -> impl Iterator<Item = Attack> {
    let cases = cases::ALL.iter().flat_map(|table| table.iter().copied());
    cases
        .chain(expansion::ALL)
        .chain(stores::ALL)
        .chain(programs::ALL)
        .chain(command_line::ALL)
        .chain(guarded::ALL)
}

/// The attacks on the command line.
pub fn command_line_attacks() -> impl Iterator<Item = Attack> {
    command_line::ALL.into_iter()
}

impl Attack {
    /// Runs the attack, and checks that the server is alive afterwards.
    pub fn carry_out(self, target: &Target) -> Report {
        let began = Instant::now();
        let mut outcome = (self.run)(target);
        let took = began.elapsed();
        if outcome.is_ok() && took > self.limit {
            outcome = Err(format!("it took longer than {} s", self.limit.as_secs()));
        }
        if outcome.is_ok()
            && let Err(why) = target.get("/healthz", Duration::from_secs(10))
        {
            outcome = Err(format!("the server does not answer afterwards: {why}"));
        }
        Report { attack: self, took, outcome }
    }
}

impl Target {
    fn program(&self) -> Result<&'static Path, String> {
        self.program.ok_or_else(|| "there is no program to start".to_owned())
    }

    /// Sends a GET.
    pub fn get(&self, path: &str, limit: Duration) -> Result<Answer, String> {
        self.send("GET", path, &[], b"", limit)
    }

    /// Sends a POST with a JSON body.
    pub fn post(&self, path: &str, body: &str, limit: Duration) -> Result<Answer, String> {
        self.send("POST", path, &[("content-type", "application/json")], body.as_bytes(), limit)
    }

    /// Sends a request.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        limit: Duration,
    ) -> Result<Answer, String> {
        http::send(self.address, method, path, headers, body, limit).map_err(|error| error.to_string())
    }
}
