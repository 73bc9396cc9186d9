//! The attacks of `cargo xtask adversary` on the command line, with the program under test.

use qualitytrace_testing::adversary::{Report, Target, command_line_attacks};

use crate::late_spans_load::program::Served;
use crate::program;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_on_the_command_line_are_held() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let url = server.url("");
    let address = url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    let target = Target { address, guarded: address, program: Some(program()) };
    for attack in command_line_attacks() {
        let Report { outcome, .. } = tokio::task::block_in_place(|| attack.carry_out(&target));
        assert!(outcome.is_ok(), "{}: {outcome:?}", attack.name);
    }
}
