//! Allowed dependencies: between crates by their manifests, between modules by the words they use.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Broken, tree::Tree};

/// The names of each crate's normal dependencies, for every crate in the build.
pub(super) type Packages = BTreeMap<String, BTreeSet<String>>;

/// The crates of this project that each of them may use. A crate that is missing here may use none.
const CRATES: [(&str, &[&str]); 5] = [
    ("qualitytrace-core", &["qualitytrace-config"]),
    ("qualitytrace-telemetry", &["qualitytrace-config"]),
    ("qualitytrace-server", &["qualitytrace-config", "qualitytrace-core", "qualitytrace-telemetry"]),
    (
        "qualitytrace",
        &[
            "qualitytrace-config",
            "qualitytrace-core",
            "qualitytrace-page",
            "qualitytrace-telemetry",
            "qualitytrace-server",
        ],
    ),
    ("xtask", &["qualitytrace-testing"]),
];

/// Crates that do IO, tell the time or run tasks: the core must not depend on them, not even indirectly.
const EFFECTS: [&str; 13] = [
    "async-std",
    "axum",
    "hyper",
    "mio",
    "opentelemetry",
    "opentelemetry_sdk",
    "reqwest",
    "rusqlite",
    "smol",
    "sqlx",
    "tokio",
    "tonic",
    "tracing",
];

/// Words that must not occur below some path, and why.
struct Border {
    /// Path prefixes that the rule applies to.
    within: &'static [&'static str],
    /// Path prefixes inside those that are exempt.
    except: &'static [&'static str],
    words: &'static [&'static str],
    why: &'static str,
}

const BORDERS: [Border; 12] = [
    Border {
        within: &["crates/qualitytrace-core/src/", "crates/qualitytrace-config/src/"],
        except: &[],
        words: &[
            "async",
            "tokio",
            "std::env",
            "std::fs",
            "TcpStream",
            "UdpSocket",
            "ToSocketAddrs",
            "std::process",
            "std::thread",
        ],
        why: "the core and what it stands on decide and do nothing else: take the fact as an argument",
    },
    Border {
        within: &["crates/qualitytrace-telemetry/src/"],
        except: &[],
        words: &["qualitytrace_core", "qualitytrace_server", "tracetest", "RunId"],
        why: "telemetry knows no word of trace tests, so that any server can embed it",
    },
    Border {
        within: &["crates/qualitytrace-server/src/runner"],
        except: &[],
        words: &["sqlx", "axum", "hyper", "tonic", "reqwest", "TcpStream", "TcpListener"],
        why: "the runner touches no SQL and no socket: ask the store, the trigger or the source",
    },
    Border {
        within: &["crates/qualitytrace-server/src/receive/ingest"],
        except: &[],
        words: &["runner", "RunId", "RunEvent", "claim_run"],
        why: "ingest does not know that runs exist: they meet at \"trace T changed\"",
    },
    Border {
        within: &[
            "crates/qualitytrace-server/src/storage/store",
            "crates/qualitytrace-server/src/outbound/trigger",
            "crates/qualitytrace-server/src/storage/variables",
            "crates/qualitytrace-server/src/observability",
            "crates/qualitytrace-server/src/wire",
        ],
        except: &[],
        words: &["crate::serve", "crate::runner"],
        why: "arrows run one way: the API stands on the runner, and the runner on these",
    },
    Border {
        within: &["crates/qualitytrace-server/src/"],
        except: &[
            "crates/qualitytrace-server/src/outbound/trigger/connect.rs",
            "crates/qualitytrace-server/src/outbound/trigger/http/clients.rs",
        ],
        words: &["TcpStream::connect", "UdpSocket", "lookup_host", "ToSocketAddrs", "Client::builder"],
        why: "every outbound connection passes `trigger::Gate`, which knows the addresses that triggers may connect to",
    },
    Border {
        within: &["crates/qualitytrace-server/src/"],
        except: &[
            "crates/qualitytrace-server/src/base/files.rs",
            "crates/qualitytrace-server/src/base/private_files.rs",
            "crates/qualitytrace-server/src/storage/store",
        ],
        words: &["fs::read", "fs::read_to_string", "File::open", "from_pem_file", "pem_file_iter"],
        why: "files that others name are read by `files`, which takes regular ones within a limit",
    },
    Border {
        within: &["crates/qualitytrace-server/src/"],
        except: &["crates/qualitytrace-server/src/storage/store"],
        words: &["sqlx"],
        why: "SQL lives in the store",
    },
    Border {
        within: &["crates/qualitytrace-server/src/"],
        except: &[
            "crates/qualitytrace-server/src/serve/api",
            "crates/qualitytrace-server/src/serve/listen",
            "crates/qualitytrace-server/src/receive/otlp",
            "crates/qualitytrace-server/src/http/routes",
            "crates/qualitytrace-server/src/serve/server",
            "crates/qualitytrace-server/src/observability",
            "crates/qualitytrace-server/src/http/web",
        ],
        words: &["axum"],
        why: "only what answers requests knows how they arrive: api, otlp, routes, observability, web, and the server that binds them",
    },
    Border {
        within: &["crates/qualitytrace-page/page/src/trace/"],
        except: &[],
        words: &["../api", "../draw", "../screens", "../ui", "react", "document", "window"],
        why: "a trace is laid out without a browser: screens and drawings stand on it",
    },
    Border {
        within: &["crates/qualitytrace-page/page/src/draw/"],
        except: &[],
        words: &["../api", "../screens", "../ui", "react"],
        why: "what is drawn with every frame knows no screen",
    },
    Border {
        within: &["crates/qualitytrace-page/page/src/"],
        except: &["crates/qualitytrace-page/page/src/api/"],
        words: &["fetch", "EventSource", "WebSocket", "XMLHttpRequest"],
        why: "only `api` asks the server for anything",
    },
];

/// Reads the dependency graph from cargo.
pub(super) fn packages(metadata: &Value) -> Result<Packages> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: BTreeMap<String, String> = list(&metadata["packages"])
        .iter()
        .map(|package| (name(&package["id"]), name(&package["name"])))
        .collect();
    let mut packages = Packages::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let normal = |dep: &&Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let deps = list(&node["deps"]);
        let uses = deps.iter().filter(normal).filter_map(|dep| names.get(&name(&dep["pkg"])).cloned());
        let of =
            names.get(&name(&node["id"])).context("cargo metadata names a package that it does not list")?;
        // Two versions of one crate count as one: no rule distinguishes them.
        packages.entry(of.clone()).or_default().extend(uses);
    }
    Ok(packages)
}

/// Checks that crates only use what they may, and that the core depends on no crate with effects.
pub(super) fn between_crates(packages: &Packages) -> Vec<Broken> {
    let ours = |name: &str| name == "qualitytrace" || name.starts_with("qualitytrace-") || name == "xtask";
    let mut broken = Vec::new();
    for (name, uses) in packages.iter().filter(|(name, _)| ours(name)) {
        let allowed = CRATES.iter().find(|(of, _)| of == name).map_or(&[][..], |(_, uses)| uses);
        for used in uses.iter().filter(|used| ours(used) && !allowed.contains(&used.as_str())) {
            broken.push(Broken::new(
                name,
                format!("must not depend on {used}: the arrows point the other way"),
            ));
        }
    }
    for effect in EFFECTS {
        if let Some(path) = path(packages, "qualitytrace-core", effect) {
            broken.push(Broken::new("qualitytrace-core", format!("reaches {effect}, which acts: {path}")));
        }
    }
    broken
}

/// The shortest dependency path from one crate to another.
fn path(packages: &Packages, from: &str, to: &str) -> Option<String> {
    let mut ways = vec![vec![from]];
    let mut seen = BTreeSet::from([from]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in way.last().and_then(|last| packages.get(*last)).into_iter().flatten() {
                let way = [&way[..], &[next]].concat();
                if next == to {
                    return Some(way.join(" -> "));
                }
                if seen.insert(next) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

/// Checks that forbidden words do not occur in modules.
pub(super) fn between_modules(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for border in &BORDERS {
        let below = |paths: &[&str], path: &str| paths.iter().any(|prefix| path.starts_with(prefix));
        let inside = tree.files.iter().filter(|file| file.is_code() && below(border.within, &file.path));
        for file in inside.filter(|file| !below(border.except, &file.path)) {
            for (number, line) in file.code() {
                for word in border.words.iter().filter(|word| has_word(line, word)) {
                    broken.push(Broken::new(
                        format!("{}:{number}", file.path),
                        format!("`{word}`: {}", border.why),
                    ));
                }
            }
        }
    }
    broken
}

/// Whether a line has this word, not as a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_crates(edges: &[(&str, &[&str])], expected: &[&str]) {
        let packages = edges
            .iter()
            .map(|(of, uses)| ((*of).to_owned(), uses.iter().map(|name| (*name).to_owned()).collect()))
            .collect();
        let broken: Vec<_> =
            between_crates(&packages).into_iter().map(|b| format!("{}: {}", b.place, b.what)).collect();
        assert_eq!(broken, expected);
    }

    #[test]
    fn crates_that_stand_in_a_line_are_fine() {
        check_crates(
            &[("qualitytrace", &["qualitytrace-server", "tokio"]), ("qualitytrace-core", &["serde"])],
            &[],
        );
    }

    #[test]
    fn a_leaf_that_uses_the_core_is_found() {
        let expected =
            "qualitytrace-telemetry: must not depend on qualitytrace-core: the arrows point the other way";
        check_crates(&[("qualitytrace-telemetry", &["qualitytrace-core"])], &[expected]);
    }

    #[test]
    fn io_behind_another_crate_is_found() {
        let expected = "qualitytrace-core: reaches tokio, which acts: qualitytrace-core -> fake -> tokio";
        check_crates(&[("qualitytrace-core", &["fake"]), ("fake", &["tokio"])], &[expected]);
    }

    #[test]
    fn connections_past_the_gate_are_found() {
        let text = "let stream = TcpStream::connect((host, port)).await?;\n";
        let past = ("crates/qualitytrace-server/src/serve/api/connection.rs", text);
        let tree = Tree::of(&[past, ("crates/qualitytrace-server/src/outbound/trigger/connect.rs", text)]);
        let places: Vec<_> = between_modules(&tree).into_iter().map(|broken| broken.place).collect();
        assert_eq!(places, ["crates/qualitytrace-server/src/serve/api/connection.rs:1"]);
    }

    #[test]
    fn files_that_are_read_without_a_bound_are_found() {
        let text = "let text = std::fs::read_to_string(named)?;\nlet text = tokio::fs::read(named).await?;\n\
                    let text = files::read(named, LIMIT)?;\n";
        let past = ("crates/qualitytrace-server/src/outbound/trigger/certificates.rs", text);
        let tree = Tree::of(&[past, ("crates/qualitytrace-server/src/base/files.rs", text)]);
        let places: Vec<_> = between_modules(&tree).into_iter().map(|broken| broken.place).collect();
        assert_eq!(places, [format!("{}:1", past.0), format!("{}:2", past.0)]);
    }

    #[test]
    fn a_screen_that_asks_the_server_itself_is_found() {
        let text = "const { refetch } = found;\nawait fetch(address(path));\n";
        let page = "crates/qualitytrace-page/page/src";
        let (screen, api) = (format!("{page}/screens/run.tsx"), format!("{page}/api/stream.ts"));
        let tree = Tree::of(&[(screen.as_str(), text), (api.as_str(), text)]);
        let places: Vec<_> = between_modules(&tree).into_iter().map(|broken| broken.place).collect();
        assert_eq!(places, [format!("{screen}:2")]);
    }

    #[test]
    fn words_count_in_code_and_not_in_comments_or_longer_words() {
        let text = "// sqlx is for the store\nuse sqlx_like::Pool;\nuse sqlx::Pool;\n";
        let tree = Tree::of(&[("crates/qualitytrace-server/src/serve/api/runs.rs", text)]);
        let places: Vec<_> = between_modules(&tree).into_iter().map(|broken| broken.place).collect();
        assert_eq!(places, ["crates/qualitytrace-server/src/serve/api/runs.rs:3"]);
    }
}
