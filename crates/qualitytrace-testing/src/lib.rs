//! Shared test support of several crates.

pub mod adversary;
pub mod instrumented;
mod line;
mod peer;
pub mod terminal;
mod wait;

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

pub use line::{Line, Outage};
pub use peer::{peer, peer_addresses};
pub use wait::{
    DEADLINE, Seen, eventually, eventually_blocking, try_eventually, try_eventually_blocking, within,
};

/// Ports below the ephemeral range, which `:0` and clients use.
const FIRST: u16 = 10_240;
const COUNT: u16 = 20_480;

/// A free loopback port, for a program that needs a fixed port, or as an address without a listener.
///
/// A port of `:0` that was released may be taken by another process at once. This one is returned only once in this
/// process, and other processes begin elsewhere.
///
/// # Panics
/// If every port is taken.
pub fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that were started one after the other begin far apart.
    let start = u16::try_from(std::process::id() * 64 % u32::from(COUNT)).expect("less than COUNT");
    let mut tries = (0..COUNT).map(|_| {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        FIRST + (start + step) % COUNT
    });
    tries.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port is free")
}
