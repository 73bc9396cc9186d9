//! Recorded command lines of Tracetest give the same with this program.

use crate::late_spans_load::program::Served;
use crate::program;

#[path = "../transcripts/replay.rs"]
mod replay;

#[tokio::test]
async fn recorded_command_lines_give_the_same() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let summary = replay::run(program(), &replay::own_recordings()).await;
    assert!(summary.different.is_empty(), "{}", summary.render());
}
