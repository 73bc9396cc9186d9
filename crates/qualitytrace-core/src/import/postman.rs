//! Collections of Postman: one test for each request, folders by name.

use serde_json::Value;

use super::ImportError;
use super::collection::Collection;
use super::document::{json, list, scalar, text};
use super::http::{
    add_query, basic, bearer, has_header, header, parameter, path_of, plain_header, test, text_body,
    warn_of_file,
};
use super::name::shortened;
use super::template::Template;
use crate::definition::Test;
use crate::definition::trigger::{ApiKeyLocation, Auth, Body, Graphql, Header, Http, Part, Trigger};

/// Maximum nesting of folders.
const MAX_FOLDERS: usize = 32;
/// What the collection must be.
const WHAT: &str = "a Postman collection";

pub(super) fn import(source: &str, found: &mut Collection<'_>) -> Result<(), ImportError> {
    let document = json(source, WHAT)?;
    // The API of Postman wraps a collection.
    let document = document.get("collection").unwrap_or(&document);
    let Some(items) = document.get("item").and_then(Value::as_array) else {
        let why = "it has no list `item`; export the collection as version 2.1".to_owned();
        return Err(ImportError::Unreadable { what: WHAT, why });
    };
    for variable in list(document, "variable") {
        let name =
            if text(variable, "key").is_empty() { text(variable, "id") } else { text(variable, "key") };
        let value = variable.get("value").and_then(scalar).unwrap_or_default();
        if !name.is_empty() {
            found.variable(name, &value, text(variable, "type") == "secret");
        }
    }
    warn_of_scripts(document, text(&document["info"], "name"), found);
    let folder = Folder { name: String::new(), auth: document.get("auth") };
    import_items(items, &folder, MAX_FOLDERS, found)
}

/// A folder, and what its requests inherit.
struct Folder<'v> {
    name: String,
    auth: Option<&'v Value>,
}

fn import_items(
    items: &[Value],
    folder: &Folder<'_>,
    depth: usize,
    found: &mut Collection<'_>,
) -> Result<(), ImportError> {
    for item in items {
        found.budget.work(1)?;
        let name = shortened(text(item, "name"));
        let name = if folder.name.is_empty() { name } else { format!("{} / {name}", folder.name) };
        warn_of_scripts(item, &name, found);
        let auth = item.get("auth").filter(|auth| !auth.is_null()).or(folder.auth);
        if let Some(inner) = item.get("item").and_then(Value::as_array) {
            if depth == 0 {
                found.warn(format!(
                    "folders nest deeper than {MAX_FOLDERS}: `{}` is left out",
                    shortened(&name)
                ));
                continue;
            }
            import_items(inner, &Folder { name, auth }, depth - 1, found)?;
        } else if let Some(request) = item.get("request").filter(|request| !request.is_null()) {
            if !found.is_full() {
                let test = import_request(request, name, auth, found);
                found.test(test)?;
            }
        } else {
            found.warn(format!("the item `{}` is left out: it has no request", shortened(&name)));
        }
    }
    Ok(())
}

fn warn_of_scripts(item: &Value, name: &str, found: &mut Collection<'_>) {
    for event in list(item, "event") {
        let script = &event["script"]["exec"];
        let is_empty = match script {
            Value::Array(lines) => {
                lines.iter().all(|line| line.as_str().is_none_or(|line| line.trim().is_empty()))
            }
            other => other.as_str().is_none_or(|text| text.trim().is_empty()),
        };
        if !is_empty {
            let when =
                if text(event, "listen") == "prerequest" { "before the request" } else { "after the answer" };
            found.warn(format!("the script of `{}` that runs {when} is not carried over", shortened(name)));
        }
    }
}

fn import_request(
    request: &Value,
    name: String,
    inherited: Option<&Value>,
    found: &mut Collection<'_>,
) -> Test {
    if let Some(url) = request.as_str() {
        let url = Template::braces(url, found).written().into();
        return test(name, Http { url, method: "GET".into(), ssl_verification: true, ..Http::default() });
    }
    let method = text(request, "method");
    let headers: Vec<Header> = list(request, "header")
        .iter()
        .filter(|header| is_enabled(header))
        .map(|pair| header(&Template::braces(text(pair, "key"), found), &braces(pair, "value", found)))
        .collect();
    let auth = request.get("auth").filter(|auth| !auth.is_null()).or(inherited);
    let mut http = Http {
        url: url(&request["url"], found).written().into(),
        method: Template::braces(if method.is_empty() { "GET" } else { method }, found).written().into(),
        headers,
        auth: auth.and_then(|auth| credentials(auth, found)),
        ssl_verification: true,
        ..Http::default()
    };
    let body = &request["body"];
    if !is_enabled(body) {
        return test(name, http);
    }
    match text(body, "mode") {
        "" => {}
        "raw" => {
            http.body = text_body(&braces(body, "raw", found), found);
            let kind = match text(&body["options"]["raw"], "language") {
                "json" => Some("application/json"),
                "xml" => Some("application/xml"),
                "html" => Some("text/html"),
                "javascript" => Some("application/javascript"),
                _ => None,
            };
            if let Some(kind) = kind.filter(|_| !has_header(&http.headers, "content-type")) {
                http.headers.push(plain_header("Content-Type", kind));
            }
        }
        "urlencoded" => {
            let fields = list(body, "urlencoded").iter().filter(|field| is_enabled(field));
            let fields =
                fields.map(|pair| header(&braces(pair, "key", found), &braces(pair, "value", found)));
            http.body = Body::Form(fields.collect());
        }
        "formdata" => {
            let parts = list(body, "formdata").iter().filter(|part| is_enabled(part));
            http.body = Body::Multipart(parts.map(|pair| part(pair, found)).collect());
        }
        "file" => {
            let path = text(&body["file"], "src");
            warn_of_file(path, found);
            http.body = Body::File(path_of(path).into());
        }
        "graphql" => return graphql(name, http, &body["graphql"], found),
        other => found.warn(format!("a body of the kind `{}` is not carried over", shortened(other))),
    }
    test(name, http)
}

fn is_enabled(item: &Value) -> bool {
    item.get("disabled") != Some(&Value::Bool(true))
}

fn braces(item: &Value, key: &str, found: &mut Collection<'_>) -> Template {
    let text = item.get(key).and_then(scalar).unwrap_or_default();
    Template::braces(&text, found)
}

fn part(pair: &Value, found: &mut Collection<'_>) -> Part {
    let mut part = Part {
        name: braces(pair, "key", found).written().into(),
        content_type: braces(pair, "contentType", found).written().into(),
        ..Part::default()
    };
    if text(pair, "type") == "file" {
        let source = pair["src"].as_str().or_else(|| pair["src"].get(0)?.as_str()).unwrap_or_default();
        warn_of_file(source, found);
        part.file = path_of(source).into();
    } else {
        part.value = braces(pair, "value", found).written().into();
    }
    part
}

/// A URL: a text, or its parts, of which `raw` is the whole. Names in its path are `:name`.
fn url(value: &Value, found: &mut Collection<'_>) -> Template {
    let raw = value.as_str().unwrap_or_else(|| text(value, "raw"));
    if raw.is_empty() {
        return url_of_parts(value, found);
    }
    let names: Vec<&str> = list(value, "variable").iter().map(|variable| text(variable, "key")).collect();
    for variable in list(value, "variable") {
        let given = variable.get("value").and_then(scalar).unwrap_or_default();
        found.variable(text(variable, "key"), &given, false);
    }
    let (path, rest) = raw.find(['?', '#']).map_or((raw, ""), |at| raw.split_at(at));
    let mut whole = Template::default();
    for (at, part) in path.split('/').enumerate() {
        if at > 0 {
            whole.push('/');
        }
        match part.strip_prefix(':').filter(|name| names.contains(name)) {
            Some(name) => whole.append(Template::variable(name)),
            None => whole.append(Template::braces(part, found)),
        }
    }
    whole.append(Template::braces(rest, found));
    whole
}

fn url_of_parts(value: &Value, found: &mut Collection<'_>) -> Template {
    let joined = |key: &str, separator: &str| match &value[key] {
        Value::Array(parts) => {
            let parts: Vec<String> = parts.iter().filter_map(scalar).collect();
            parts.join(separator)
        }
        other => other.as_str().unwrap_or_default().to_owned(),
    };
    let mut whole = String::new();
    let protocol = text(value, "protocol");
    if !protocol.is_empty() {
        whole = format!("{protocol}://");
    }
    whole.push_str(&joined("host", "."));
    if let Some(port) = value.get("port").and_then(scalar) {
        whole.push(':');
        whole.push_str(&port);
    }
    let path = joined("path", "/");
    if !path.is_empty() {
        whole.push('/');
        whole.push_str(&path);
    }
    let mut url = Template::braces(&whole, found);
    let mut query = Template::default();
    for pair in list(value, "query").iter().filter(|pair| is_enabled(pair)) {
        if !query.is_empty() {
            query.push('&');
        }
        query.append(parameter(&braces(pair, "key", found), &braces(pair, "value", found)));
    }
    add_query(&mut url, query);
    url
}

fn credentials(auth: &Value, found: &mut Collection<'_>) -> Option<Auth> {
    let kind = text(auth, "type");
    // Version 2.0 has an object in place of the list.
    let mut given = |key: &str| {
        let listed = list(auth, kind).iter().find(|pair| text(pair, "key") == key);
        let value = listed.map_or_else(|| auth[kind].get(key), |pair| pair.get("value"));
        Template::braces(&value.and_then(scalar).unwrap_or_default(), found)
    };
    match kind {
        "" | "noauth" => None,
        "basic" => Some(basic(&given("username"), &given("password"))),
        "bearer" => Some(bearer(&given("token"))),
        "apikey" => Some(Auth::ApiKey {
            key: given("key").written().into(),
            value: given("value").written().into(),
            place: if given("in").plain() == Some("query") {
                ApiKeyLocation::Query
            } else {
                ApiKeyLocation::Header
            },
        }),
        other => {
            found.warn(format!("credentials of the kind `{}` are not carried over", shortened(other)));
            None
        }
    }
}

/// A GraphQL request. Variables of its trigger are texts, so others are sent as the body of an HTTP request.
fn graphql(name: String, http: Http, body: &Value, found: &mut Collection<'_>) -> Test {
    let query = text(body, "query");
    let variables = match &body["variables"] {
        Value::String(text) if text.trim().is_empty() => Ok(Value::Null),
        // Measured: with the text that it is a part of.
        Value::String(text) => serde_json::from_str(text).map_err(|_| text.clone()),
        other => Ok(other.clone()),
    };
    let operation = text(body, "operationName");
    let texts: Option<Vec<(&String, &str)>> = match &variables {
        Ok(Value::Null) => Some(Vec::new()),
        Ok(Value::Object(members)) => {
            members.iter().map(|(name, value)| Some((name, value.as_str()?))).collect()
        }
        Ok(_) | Err(_) => None,
    };
    let Some(texts) = texts else {
        let quoted = |text: &str| Value::from(text).to_string();
        let variables = variables.map_or_else(|text| text, |value| value.to_string());
        let whole = format!(
            "{{\"query\": {}, \"operationName\": {}, \"variables\": {variables}}}",
            quoted(query),
            if operation.is_empty() { "null".to_owned() } else { quoted(operation) },
        );
        let mut http = http;
        http.body = text_body(&Template::braces(&whole, found), found);
        if !has_header(&http.headers, "content-type") {
            http.headers.push(plain_header("Content-Type", "application/json"));
        }
        return test(name, http);
    };
    let trigger = Graphql {
        url: http.url,
        headers: http.headers,
        auth: http.auth,
        ssl_verification: http.ssl_verification,
        query: Template::braces(query, found).written().into(),
        variables: texts
            .into_iter()
            .map(|(name, value)| (name.clone(), Template::braces(value, found).written().into()))
            .collect(),
        operation_name: Template::braces(operation, found).written().into(),
        ..Graphql::default()
    };
    Test { name, trigger: Some(Trigger::Graphql(trigger)), ..Test::default() }
}
