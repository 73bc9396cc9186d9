//! What the tests of several crates need.

pub mod adversary;
pub mod instrumented;

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports that no system hands out by itself: they lie below the ones that `:0` and clients get.
const FIRST: u16 = 10_240;
const COUNT: u16 = 20_480;

/// A port on loopback where nothing listens, for a program that has to be told its port, or for nobody.
///
/// A port of `:0` that was given back may be somebody else's a moment later. This one is given to
/// nobody else in this process, and other processes begin elsewhere.
///
/// # Panics
/// If every port is taken.
pub fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that were started one after the other lie far apart.
    let start = u16::try_from(std::process::id() * 64 % u32::from(COUNT)).expect("less than COUNT");
    let mut tries = (0..COUNT).map(|_| {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        FIRST + (start + step) % COUNT
    });
    tries.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port is free")
}
