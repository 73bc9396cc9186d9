//! The server and the token that commands use, and the versions of both sides.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio::process::Command;

use crate::late_spans_load::program::Served;
use crate::program;

const FULL: &str = "full-access-token-0123456789";
const READ: &str = "read-only-token-0123456789ab";

/// Runs a command line in a folder that is also the home of its user; returns its exit code and both outputs.
async fn run(folder: &Path, line: &str, token: Option<&str>) -> (i32, String) {
    let mut command = Command::new(program());
    command.args(line.split_whitespace()).current_dir(folder).env("HOME", folder.join("home"));
    if let Some(token) = token {
        command.env("QUALITYTRACE_TOKEN", token);
    }
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
}

#[tokio::test]
async fn a_configured_server_is_the_one_that_later_commands_talk_to() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let url = server.url("");
    let (code, said) = run(here, "configure", None).await;
    assert!(code == 1 && said.contains("configure --server-url URL"), "{said}");
    let (code, said) = run(here, "configure --server-url http://127.0.0.1:1", None).await;
    assert!(code == 1 && said.contains("start it with `qualitytrace serve`"), "{said}");
    assert!(!here.join("home").exists(), "nothing is written about a server that does not answer");

    let (code, said) = run(here, &format!("configure -g --server-url {url}"), None).await;
    let file = here.join("home/.qualitytrace/config.yml");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&url) && said.contains(file.to_str().unwrap()), "{said}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    assert_eq!(run(here, "list test -o json", None).await.0, 0);

    // The file of a folder overrides the user's, keeps its other entries, and is the one that `configure` changes.
    std::fs::write(
        here.join("config.yml"),
        "scheme: http\nendpoint: 127.0.0.1:1\nanalyticsEnabled: kept\ntoken: old\n",
    )
    .unwrap();
    assert_eq!(run(here, "list test -o json", None).await.0, 1);
    assert_eq!(run(here, &format!("-s {url} configure"), None).await.0, 0);
    assert_eq!(run(here, "list test -o json", None).await.0, 0);
    let written = std::fs::read_to_string(here.join("config.yml")).unwrap();
    assert!(written.contains("analyticsEnabled: \"kept\"\n") && !written.contains("old"), "{written}");
}

#[tokio::test]
async fn a_server_below_a_path_is_configured_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(program(), "sqlite::memory:", &["--server.pathPrefix", "/shop"]).await;
    let (code, said) = run(folder.path(), &format!("configure -e {}", server.url("/shop/")), None).await;
    assert_eq!(code, 0, "{said}");
    let written = std::fs::read_to_string(folder.path().join("home/.qualitytrace/config.yml")).unwrap();
    assert!(written.contains("serverPath: \"/shop/api\""), "{written}");
    let _ = rustls::crypto::ring::default_provider().install_default();
    for path in ["/", "/shop", "/shop/", "/shop/api/tests", "/api/tests"] {
        assert_eq!(reqwest::get(server.url(path)).await.unwrap().status(), 200, "{path}");
    }
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let moved = client.get(server.url("/shop/api/tests/?take=1")).send().await.unwrap();
    assert_eq!(moved.headers()["location"], "/shop/api/tests?take=1");
    assert_eq!(run(folder.path(), "list test -o json", None).await.0, 0);
}

#[tokio::test]
async fn the_versions_of_both_sides_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let own = env!("CARGO_PKG_VERSION");
    let (code, said) = run(folder.path(), &format!("version -s {}", server.url("")), None).await;
    assert_eq!((code, said), (0, format!("CLI: {own}\nServer: {own}\n✔️ Version match\n")));
    let (code, said) = run(folder.path(), "version -s http://127.0.0.1:1", None).await;
    assert_eq!(code, 0);
    assert!(said.starts_with(&format!("CLI: {own}\nServer: unknown (")), "{said}");
}

#[tokio::test]
async fn a_token_opens_what_its_scope_allows() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let tokens = format!("full:{FULL},read:{READ}");
    let server = Served::start(program(), "sqlite::memory:", &["--auth.tokens", &tokens]).await;
    let at = format!("-s {}", server.url(""));
    std::fs::write(here.join("set.yaml"), "type: VariableSet\nspec:\n  id: v\n  name: V\n").unwrap();
    let (list, apply) = (format!("list variableset {at}"), format!("apply variableset -f set.yaml {at}"));

    let (code, said) = run(here, &list, None).await;
    assert!(code == 1 && said.contains("this server requires a token"), "{said}");
    assert!(said.contains("give a token with --token or QUALITYTRACE_TOKEN"), "{said}");
    let (code, said) = run(here, &list, Some("another-token-0123456789")).await;
    assert!(code == 1 && said.contains("the token is not known to this server"), "{said}");
    assert_eq!(run(here, &list, Some(READ)).await.0, 0);
    let (code, said) = run(here, &apply, Some(READ)).await;
    assert!(code == 1 && said.contains("a token of scope `read` does not allow this"), "{said}");
    // Flags override the environment.
    assert_eq!(run(here, &format!("{apply} --token {FULL}"), Some(READ)).await.0, 0);
    assert_eq!(run(here, &apply, Some(FULL)).await.0, 0);
    // A stored token need not be given again.
    let (code, said) = run(here, &format!("configure {at}"), Some(FULL)).await;
    assert!(code == 0 && !said.contains(FULL), "{said}");
    assert_eq!(run(here, "delete variableset --id v", None).await.0, 0);
}

/// A stored token is only sent to the server that it was stored for.
#[tokio::test]
async fn a_stored_token_goes_to_its_own_server_only() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let asks = ["--auth.tokens", &format!("full:{FULL}")];
    let own = Served::start(program(), "sqlite::memory:", &asks).await;
    // It knows the token, too, so its response shows whether the token was sent.
    let other = Served::start(program(), "sqlite::memory:", &asks).await;
    let (code, said) = run(here, &format!("configure -s {} --token {FULL}", own.url("")), None).await;
    assert_eq!(code, 0, "{said}");
    let list = async |url: String, more: &str| run(here, &format!("list test -s {url} {more}"), None).await;
    assert_eq!(list(own.url(""), "").await.0, 0);
    assert_eq!(list(own.url("/"), "").await.0, 0);
    let (code, said) = list(other.url(""), "").await;
    assert!(code == 1 && said.contains("this server requires a token"), "{said}");
    // The same port under another host name is another server.
    let (code, said) = list(format!("http://localhost:{}", own.http.port()), "").await;
    assert!(code == 1 && !said.contains("is not known"), "{said}");
    assert_eq!(list(other.url(""), &format!("--token {FULL}")).await.0, 0);
    assert_eq!(run(here, &format!("list test -s {}", other.url("")), Some(FULL)).await.0, 0);
}

#[tokio::test]
async fn a_named_file_that_is_not_there_is_missed_and_the_next_one_counts() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    assert_eq!(run(folder.path(), &format!("configure -s {}", server.url("")), None).await.0, 0);
    let (code, said) = run(folder.path(), "list test -o json -c nosuch.yml", None).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("warning: there is no file nosuch.yml; going on without it"), "{said}");
}

#[tokio::test]
async fn an_untrusted_certificate_is_called_untrusted() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let (certificate, key) = crate::certificate(here);
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let tls = ["--server.tls.certFile", certificate, "--server.tls.keyFile", key];
    let server = Served::start(program(), "sqlite::memory:", &tls).await;
    let url = format!("https://{}", server.http);
    let (code, said) = run(here, &format!("list test -s {url}"), None).await;
    assert_eq!(code, 1);
    assert!(said.contains(&format!("the certificate of the server at {url} is not trusted")), "{said}");
    assert!(said.contains("SSL_CERT_FILE") && !said.contains("does not answer"), "{said}");
    let mut command = Command::new(program());
    command.args(["list", "test", "-s", &url]).current_dir(here).env("SSL_CERT_FILE", certificate);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
