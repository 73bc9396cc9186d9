//! Real peers, which `cargo xtask test` installs and names in the environment.

/// The value of `QUALITYTRACE_TEST_NAME`: where a peer is. `None`, and a line that says so, if a test is to be skipped.
///
/// # Panics
/// If the variable is not set though peers are required.
#[expect(clippy::print_stdout, reason = "a test says what it skips")]
pub fn peer(name: &str) -> Option<String> {
    let variable = format!("QUALITYTRACE_TEST_{name}");
    let value = std::env::var(&variable).ok();
    if value.is_none() {
        assert!(std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(), "{variable} is not set");
        println!("skipped: {variable} is not set");
    }
    value
}

/// The addresses of a peer that has several, as [`peer`] does.
///
/// # Panics
/// If it has another number of them.
pub fn peer_addresses<const N: usize>(name: &str) -> Option<[String; N]> {
    let addresses: Vec<String> = peer(name)?.split(' ').map(ToOwned::to_owned).collect();
    Some(addresses.try_into().expect("the number of addresses"))
}
