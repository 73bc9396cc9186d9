//! Credentials of requests. In files that are kept they are secret variables, so that tests can be shared.

use super::collection::Collection;
use super::name::variable_name;
use crate::definition::Text;
use crate::definition::secrets::is_secret_header;
use crate::definition::trigger::{Auth, Http};

/// Words before a credential that are none.
const SCHEMES: [&str; 3] = ["Bearer ", "Basic ", "Token "];

/// Makes variables of the credentials of a request, if it becomes a file.
pub(super) fn move_out(http: &mut Http, found: &mut Collection<'_>) {
    if !found.makes_files() {
        return;
    }
    match &mut http.auth {
        Some(Auth::Basic { password, .. }) => replace(password, "PASSWORD", found),
        Some(Auth::Bearer { token }) => replace(token, "TOKEN", found),
        Some(Auth::ApiKey { .. } | Auth::OAuth2(_)) | None => {}
    }
    for header in &mut http.headers {
        let name = header.key.value.to_uppercase();
        if is_secret_header(&name.to_lowercase()) {
            replace(&mut header.value, &variable_name(&name), found);
        }
    }
}

fn replace(text: &mut Text, name: &str, found: &mut Collection<'_>) {
    let value = text.value.as_str();
    // What has an expression is a variable already.
    if value.is_empty() || value.contains("${") {
        return;
    }
    let is_scheme =
        |scheme: &&str| value.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme));
    let (scheme, secret) =
        value.split_at(SCHEMES.iter().find(|scheme| is_scheme(scheme)).map_or(0, |one| one.len()));
    let variable = found.secret(name, secret);
    found.warn(format!(
        "a credential is now the variable {variable}, which the variable set has; keep that file to yourself, and give \
         the variable with `--secret {variable}` elsewhere"
    ));
    *text = format!("{scheme}${{var:{variable}}}").into();
}
