//! JavaScript modules of an npm installation, as a page can import them: names of packages become addresses, resolved like bundlers
//! for browsers do.

use std::path::{Path, PathBuf};

use axum::Router;
use axum::response::IntoResponse as _;
use axum::routing::get;
use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use serde_json::Value;

/// The path of all modules on their web site.
const PREFIX: &str = "/modules/";

/// Serves the modules in a folder `node_modules`.
pub(super) fn routes(folder: PathBuf) -> Router {
    let module = async move |uri: Uri| {
        let file = folder.join(uri.path().trim_start_matches(PREFIX));
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                ([(CONTENT_TYPE, "text/javascript")], addressed(&folder, &file, &text)).into_response()
            }
            Err(error) => (StatusCode::NOT_FOUND, error.to_string()).into_response(),
        }
    };
    Router::new().route(&format!("{PREFIX}{{*path}}"), get(module))
}

/// The address of the main module of a package.
pub(super) fn address(folder: &Path, package: &str) -> String {
    resolved(folder, &folder.join("importer.mjs"), package)
}

/// The text of a module, with addresses instead of names of packages.
fn addressed(folder: &Path, file: &Path, text: &str) -> String {
    let mut parts = text.split(" from \"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |done, part| match part.split_once('"') {
        Some((name, rest)) if name.starts_with(['@', '#']) => {
            format!("{done} from \"{}\"{rest}", resolved(folder, file, name))
        }
        _ => format!("{done} from \"{part}"),
    })
}

/// The address of what a module imports by the name of a package (`@scope/name/part`) or of a part of its own (`#part`).
fn resolved(folder: &Path, file: &Path, name: &str) -> String {
    let package = |folder: &Path| -> Option<Value> {
        serde_json::from_slice(&std::fs::read(folder.join("package.json")).ok()?).ok()
    };
    let mut above = file.ancestors().skip(1);
    let (root, target) = if name.starts_with('#') {
        let root = above.find(|folder| folder.join("package.json").is_file()).unwrap();
        (root.to_owned(), package(root).unwrap()["imports"][name].take())
    } else {
        let end = name.match_indices('/').nth(1).map_or(name.len(), |(at, _)| at);
        let place = |above: &Path| {
            let packages = if above.ends_with("node_modules") { above } else { &above.join("node_modules") };
            packages.join(&name[..end])
        };
        let root = above.map(place).find(|root| root.is_dir()).unwrap_or_else(|| panic!("no package {name}"));
        let target = package(&root).unwrap()["exports"][format!(".{}", &name[end..])].take();
        (root, target)
    };
    let mut target = &target;
    while target.is_object() {
        target = &target["default"];
    }
    let target = target.as_str().unwrap_or_else(|| panic!("{} does not offer {name}", root.display()));
    let path = root.join(target.trim_start_matches("./"));
    format!("{PREFIX}{}", path.strip_prefix(folder).unwrap().display())
}
