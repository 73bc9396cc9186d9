//! The API description as an HTML page: routes by subject, and the schemas of requests and responses.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The HTML template.
const PAGE: &str = include_str!("page.html");
/// The prefix of a schema reference.
const SHAPES: &str = "#/components/schemas/";

/// Renders the whole page.
pub(super) fn rendered(document: &Value) -> String {
    let version = document["info"]["version"].as_str().unwrap_or_default();
    let mut routes: Vec<(&str, String)> = Vec::new();
    for (path, methods) in entries(&document["paths"]) {
        for (method, operation) in entries(methods) {
            let route = route(path, method, operation);
            match routes.iter_mut().find(|(subject, _)| *subject == subject_of(path)) {
                Some((_, found)) => found.push_str(&route),
                None => routes.push((subject_of(path), route)),
            }
        }
    }
    let routes: String = routes
        .iter()
        .flat_map(|(subject, routes)| ["<section><h2>", subject, "</h2>\n", routes, "</section>\n"])
        .collect();
    let shapes = entries(&document["components"]["schemas"]);
    let shapes: String = shapes.map(|(name, shape)| rendered_shape(name, shape)).collect();
    PAGE.replace("{version}", &escaped(version)).replace("{routes}", &routes).replace("{shapes}", &shapes)
}

/// The subject of a route: the word after `/api`.
fn subject_of(path: &str) -> &str {
    match path.strip_prefix("/api/").and_then(|rest| rest.split('/').next()) {
        Some(word) if !["healthz", "version.json", "openapi.json", "docs", "ingest"].contains(&word) => word,
        _ => "server",
    }
}

fn route(path: &str, method: &str, operation: &Value) -> String {
    let summary = escaped(operation["summary"].as_str().unwrap_or_default());
    let mut out = format!(
        "<details><summary><span class=\"method {method}\">{}</span><code>{}</code> \
         <span class=\"faint\">{summary}</span></summary>\n",
        method.to_uppercase(),
        escaped(path),
    );
    let parameters = operation["parameters"].as_array().into_iter().flatten().map(|parameter| {
        let text = |key: &str| escaped(parameter[key].as_str().unwrap_or_default());
        let note = escaped(parameter["schema"]["description"].as_str().unwrap_or_default());
        [format!("<code>{}</code>", text("name")), text("in"), kind(&parameter["schema"]), note]
    });
    out.push_str(&table(["parameter", "in", "type", ""], parameters));
    let body = content(&operation["requestBody"]).map(|(types, kind)| [kind, types]);
    out.push_str(&table(["body", ""], body));
    let answers = entries(&operation["responses"]).map(|(status, answer)| {
        let (types, kind) = content(answer).next().unwrap_or_default();
        [format!("{status} {}", escaped(answer["description"].as_str().unwrap_or_default())), kind, types]
    });
    out.push_str(&table(["answer", "", ""], answers));
    out.push_str("</details>\n");
    out
}

/// The content types of a body, and the type that it holds.
fn content(body: &Value) -> impl Iterator<Item = (String, String)> {
    let types: Vec<String> = entries(&body["content"]).map(|(name, _)| escaped(name)).collect();
    let first = entries(&body["content"]).next().map(|(_, content)| kind(&content["schema"]));
    first.map(|kind| (format!("<span class=\"faint\">{}</span>", types.join(", ")), kind)).into_iter()
}

fn rendered_shape(name: &str, shape: &Value) -> String {
    let name = escaped(name);
    let note = escaped(shape["description"].as_str().unwrap_or_default());
    let fields = entries(&shape["properties"]).map(|(name, field)| {
        let note = escaped(field["description"].as_str().unwrap_or_default());
        [format!("<code>{}</code>", escaped(name)), kind(field), note]
    });
    let fields = table(["field", "type", ""], fields);
    let text = if fields.is_empty() { kind(shape) } else { fields };
    format!(
        "<details id=\"{name}\"><summary><code>{name}</code> <span class=\"faint\">{note}</span></summary>\n{text}</details>\n"
    )
}

/// Describes a schema in words, with links to other schemas.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix(SHAPES)) {
        let name = escaped(name);
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    let among = |values: &Value| {
        let values =
            values.as_array()?.iter().map(|value| format!("<code>{}</code>", escaped(&value.to_string())));
        Some(values.collect::<Vec<_>>().join(" | "))
    };
    let any = |key: &str| Some(schema[key].as_array()?.iter().map(kind).collect::<Vec<_>>().join(" | "));
    let constant = schema.get("const").map(|value| format!("<code>{}</code>", escaped(&value.to_string())));
    let given = among(&schema["enum"]).or_else(|| any("anyOf")).or_else(|| any("oneOf")).or(constant);
    given.unwrap_or_else(|| {
        let items = || format!("list of {}", kind(&schema["items"]));
        let one = |name: &str| if name == "array" { items() } else { escaped(name) };
        match &schema["type"] {
            Value::String(name) => one(name),
            Value::Array(names) => {
                names.iter().filter_map(Value::as_str).map(one).collect::<Vec<_>>().join(" | ")
            }
            _ => "anything".to_owned(),
        }
    })
}

/// Renders a table; empty without rows.
fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut out = String::new();
    for row in rows {
        if out.is_empty() {
            let _ = writeln!(out, "<table><tr>{}</tr>", head.map(|cell| format!("<th>{cell}</th>")).concat());
        }
        let _ = writeln!(out, "<tr>{}</tr>", row.map(|cell| format!("<td>{cell}</td>")).concat());
    }
    if out.is_empty() { out } else { out + "</table>\n" }
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
