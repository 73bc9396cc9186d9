//! A stranger who wants a server to stop: attacks as a list, each with what counts as an answer and within which time.
//!
//! A new attack is a function and a line in one of the tables of [`cases`]. The server must answer each with a
//! refusal or a verdict, must stay alive, and must not take more memory than it is given; the last two are for the
//! caller to look at.

mod cases;
mod guarded;
pub mod http;
mod programs;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use http::Answer;

/// One attack.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// What it is called in the table.
    pub name: &'static str,
    /// How long the server may take.
    pub limit: Duration,
    /// Whether it is small enough for a server that was built without optimisation.
    pub is_small: bool,
    /// Carries it out.
    run: fn(&Target) -> Outcome,
}

/// What came of an attack: what was answered, or what is wrong about it.
pub type Outcome = Result<String, String>;

/// The servers that are attacked.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The main port of a server that asks for no token.
    pub address: SocketAddr,
    /// The main port of a server with the tokens [`FULL`] and [`READ`], whose triggers may not speak to [`DENIED`].
    pub guarded: SocketAddr,
    /// The program, for attacks that start one of their own.
    pub program: Option<&'static Path>,
}

/// The token that allows everything.
pub const FULL: &str = "full-token-of-the-adversary";
/// The token that allows looking.
pub const READ: &str = "read-token-of-the-adversary";
/// What triggers of the guarded server may not speak to.
pub const DENIED: &str = "127.0.0.0/8";

/// What an attack came to.
#[derive(Debug)]
pub struct Report {
    /// The attack.
    pub attack: Attack,
    /// How long it took.
    pub took: Duration,
    /// What was answered, or what is wrong about it.
    pub outcome: Outcome,
}

/// All attacks, in order.
pub fn attacks() -> impl Iterator<Item = Attack> {
    cases::ALL.iter().flat_map(|table| table.iter().copied()).chain(programs::ALL).chain(guarded::ALL)
}

impl Attack {
    /// Carries it out, and looks whether the server is alive afterwards.
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

    /// The answer to a GET.
    pub fn get(&self, path: &str, limit: Duration) -> Result<Answer, String> {
        self.send("GET", path, &[], b"", limit)
    }

    /// The answer to a request with a JSON body.
    pub fn post(&self, path: &str, body: &str, limit: Duration) -> Result<Answer, String> {
        self.send("POST", path, &[("content-type", "application/json")], body.as_bytes(), limit)
    }

    /// The answer to a request.
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
