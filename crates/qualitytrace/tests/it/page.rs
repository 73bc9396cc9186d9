//! The page in a real browser, against the real program.

use std::path::Path;
use std::process::Command;

/// Runs every scenario of `page/tests`. Console errors, violations of the page's policy and requests to other origins
/// fail each of them.
#[test]
fn the_page_works_in_a_browser() {
    let Some(chromium) = std::env::var_os("QUALITYTRACE_TEST_CHROMIUM") else {
        assert!(
            std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(),
            "QUALITYTRACE_TEST_CHROMIUM is not set"
        );
        println!("skipped: QUALITYTRACE_TEST_CHROMIUM is not set");
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../qualitytrace-page/page");
    assert!(
        folder.join("node_modules").is_dir(),
        "the page is not built in: install Node 20.19 or newer and build again"
    );
    let ended = Command::new("npx")
        .args(["--no-install", "playwright", "test", "--config", "tests/playwright.config.ts"])
        .current_dir(folder)
        .env("QUALITYTRACE_TEST_CHROMIUM", chromium)
        .env("QUALITYTRACE_PROGRAM", super::program())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}\n{}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.contains(" passed"), "{said}");
}
