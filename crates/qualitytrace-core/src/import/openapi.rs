//! Descriptions of APIs: one test for each operation, with examples for what it takes.

mod example;

use serde_json::Value;

use super::ImportError;
use super::answer::{answer_spec, status_spec};
use super::collection::Collection;
use super::document::{json_or_yaml, list, scalar, text};
use super::http::{add_query, bearer, header, parameter, plain_header, test, text_body};
use super::name::shortened;
use super::template::Template;
use crate::definition::trigger::{ApiKeyLocation, Auth, Body, Header, Http, Part};
use crate::definition::{Spec, Test};
use crate::names::RESPONSE_STATUS;
use example::{Example, of_content};

/// What the text must be.
const WHAT: &str = "an OpenAPI description";
/// The methods of a path, in the order of the specification.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/// Maximum number of references that refer to each other.
const MAX_REFERENCES: usize = 16;
/// The variable with the address of the server, where the description has none.
const BASE_URL: &str = "BASE_URL";

/// A description.
struct Description(Value);

impl Description {
    /// Follows references within the description; null if one leads nowhere.
    fn resolved<'v>(&'v self, value: &'v Value) -> &'v Value {
        let mut value = value;
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return value };
            let pointer = reference.strip_prefix('#');
            value = pointer.and_then(|pointer| self.0.pointer(pointer)).unwrap_or(&Value::Null);
        }
        &Value::Null
    }
}

pub(super) fn import(source: &str, found: &mut Collection<'_>) -> Result<(), ImportError> {
    let description = Description(json_or_yaml(source, WHAT)?);
    let version = description.0.get("openapi").and_then(scalar).unwrap_or_default();
    if !version.starts_with("3.") {
        let why = "it has no `openapi: 3.0` or `3.1`; convert it first".to_owned();
        return Err(ImportError::Unreadable { what: WHAT, why });
    }
    if description.0.get("webhooks").is_some() {
        found.warn("webhooks are left out: they are requests that the API sends");
    }
    let paths = description.0.get("paths").and_then(Value::as_object);
    for (path, item) in paths.into_iter().flatten() {
        let item = description.resolved(item);
        for method in METHODS {
            let Some(operation) = item.get(method).filter(|operation| operation.is_object()) else {
                continue;
            };
            found.budget.work(100)?;
            if found.is_full() {
                continue;
            }
            let test =
                Operation { description: &description, path, item, method, content: operation }.import(found);
            found.test(test)?;
        }
    }
    Ok(())
}

/// An operation with what it inherits.
struct Operation<'d> {
    description: &'d Description,
    path: &'d str,
    item: &'d Value,
    method: &'d str,
    /// The operation itself.
    content: &'d Value,
}

impl<'d> Operation<'d> {
    fn import(&self, found: &mut Collection<'_>) -> Test {
        let shown = self.shown();
        let mut url = self.base(found);
        url.append(self.path_template());
        let mut http = Http {
            method: self.method.to_ascii_uppercase().into(),
            ssl_verification: true,
            auth: None,
            ..Http::default()
        };
        let mut cookies = Template::default();
        let mut optional = Vec::new();
        for given in self.parameters() {
            let name = text(given, "name");
            let place = text(given, "in");
            if place != "path" && given["required"] != true {
                optional.push(name);
                continue;
            }
            let value = Template::variable(name);
            match place {
                "path" => {}
                "query" => add_query(&mut url, parameter(&Template::literal(name), &value)),
                "header" => http.headers.push(header(&Template::literal(name), &value)),
                "cookie" => {
                    cookies.push_str(if cookies.is_empty() { "" } else { "; " });
                    cookies.push_str(&format!("{name}="));
                    cookies.append(value);
                }
                other => {
                    found.warn(format!("{shown}: a parameter in `{}` is left out", shortened(other)));
                    continue;
                }
            }
            let Example { value, .. } = of_content(self.description, given);
            found.variable(name, &scalar(&value).unwrap_or_else(|| value.to_string()), false);
        }
        if !optional.is_empty() {
            found.warn(format!(
                "{shown}: optional parameters are left out: {}",
                shortened(&optional.join(", "))
            ));
        }
        self.body(&mut http, found);
        self.security(&mut http, &mut cookies, found);
        if !cookies.is_empty() {
            http.headers.push(header(&Template::literal("Cookie"), &cookies));
        }
        http.url = url.written().into();
        if self.content.get("callbacks").is_some() {
            found.warn(format!("{shown}: callbacks are left out"));
        }
        let mut test = test(self.name(), http);
        text(self.content, "description").clone_into(&mut test.description);
        test.specs.extend(self.expected(found));
        test
    }

    fn shown(&self) -> String {
        shortened(&format!("{} {}", self.method.to_ascii_uppercase(), self.path))
    }

    fn name(&self) -> String {
        let named = ["summary", "operationId"].iter().map(|key| text(self.content, key));
        let named = named.into_iter().find(|name| !name.is_empty());
        named.map_or_else(|| self.shown(), shortened)
    }

    /// The address of the server: that of the operation, of its path, or of the description.
    fn base(&self, found: &mut Collection<'_>) -> Template {
        let servers = [self.content, self.item, &self.description.0].map(|place| list(place, "servers"));
        let servers = servers.into_iter().find(|servers| !servers.is_empty()).unwrap_or_default();
        if servers.len() > 1 {
            found.warn("of several servers, the first one is used");
        }
        let server = servers.first().unwrap_or(&Value::Null);
        let mut address = Template::default();
        let mut rest = text(server, "url").trim_end_matches('/');
        if !rest.contains("://") {
            found.warn(format!("the description names no server: its address is the variable `{BASE_URL}`"));
            found.variable(BASE_URL, "http://localhost:8080", false);
            address.append(Template::variable(BASE_URL));
        }
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            address.push_str(before);
            let variable = server.get("variables").and_then(|variables| variables.get(name));
            let value = variable.and_then(|variable| scalar(&variable["default"])).unwrap_or_default();
            found.variable(name, &value, false);
            address.append(Template::variable(name));
            rest = after;
        }
        address.push_str(rest);
        address
    }

    fn path_template(&self) -> Template {
        let mut path = Template::default();
        let mut rest = self.path;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            path.push_str(before);
            path.append(Template::variable(name));
            rest = after;
        }
        path.push_str(rest);
        path
    }

    /// The parameters of the operation, and those of its path that it does not replace.
    fn parameters(&self) -> Vec<&'d Value> {
        let of =
            |place: &'d Value| list(place, "parameters").iter().map(|given| self.description.resolved(given));
        let mut all: Vec<&Value> = of(self.content).collect();
        for given in of(self.item) {
            let is_same = |known: &&Value| known["name"] == given["name"] && known["in"] == given["in"];
            if !all.iter().take(MAX_COMPARED).any(is_same) {
                all.push(given);
            }
        }
        all
    }

    fn body(&self, http: &mut Http, found: &mut Collection<'_>) {
        let Some(body) = self.content.get("requestBody").map(|body| self.description.resolved(body)) else {
            return;
        };
        let Some(contents) = body.get("content").and_then(Value::as_object) else { return };
        let preferred = |wanted: &str| contents.iter().find(|(kind, _)| kind.contains(wanted));
        let chosen = preferred("json").or_else(|| preferred("form")).or_else(|| contents.iter().next());
        let Some((kind, content)) = chosen else { return };
        let shown = self.shown();
        if contents.len() > 1 {
            found.warn(format!("{shown}: of several types of body, `{}` is used", shortened(kind)));
        }
        let Example { value, is_cut } = of_content(self.description, content);
        if is_cut {
            found.warn(format!(
                "{shown}: the example of the body is cut: its schema is too large or refers to itself"
            ));
        }
        let members = || value.as_object().into_iter().flatten();
        let written = |value: &Value| scalar(value).unwrap_or_else(|| value.to_string());
        if kind.contains("x-www-form-urlencoded") {
            let fields: Vec<Header> =
                members().map(|(key, value)| plain_header(key, &written(value))).collect();
            http.body = Body::Form(fields);
        } else if kind.starts_with("multipart/") {
            let part = |(key, value): (&String, &Value)| Part {
                name: Template::literal(key).written().into(),
                value: Template::literal(&written(value)).written().into(),
                ..Part::default()
            };
            http.body = Body::Multipart(members().map(part).collect());
        } else {
            if !kind.contains("json") && !value.is_string() {
                found.warn(format!(
                    "{shown}: the body is an example in JSON, and its type is `{}`",
                    shortened(kind)
                ));
            }
            let example = match &value {
                Value::String(text) if !kind.contains("json") => text.clone(),
                other => serde_json::to_string_pretty(other).unwrap_or_default(),
            };
            http.body = text_body(&Template::literal(&example), found);
            http.headers.push(plain_header("Content-Type", kind));
        }
    }

    /// The credentials of the first alternative.
    fn security(&self, http: &mut Http, cookies: &mut Template, found: &mut Collection<'_>) {
        let required = self.content.get("security").or_else(|| self.description.0.get("security"));
        let first = required.and_then(Value::as_array).and_then(|all| all.first()).and_then(Value::as_object);
        let schemes = &self.description.0["components"]["securitySchemes"];
        for name in first.into_iter().flatten().map(|(name, _)| name) {
            let scheme = schemes.get(name).map_or(&Value::Null, |scheme| self.description.resolved(scheme));
            let (kind, key) = (text(scheme, "type"), text(scheme, "name"));
            let auth = match (kind, text(scheme, "scheme"), text(scheme, "in")) {
                ("http", "basic", _) => {
                    found.variable("USERNAME", "", false);
                    found.variable("PASSWORD", "", true);
                    Some(super::http::basic(&Template::variable("USERNAME"), &Template::variable("PASSWORD")))
                }
                ("http", "bearer", _) | ("oauth2" | "openIdConnect", ..) => {
                    if kind != "http" {
                        let name = shortened(name);
                        found.warn(format!(
                            "the flow of `{name}` is not carried over: its token is the variable `TOKEN`"
                        ));
                    }
                    found.variable("TOKEN", "", true);
                    Some(bearer(&Template::variable("TOKEN")))
                }
                ("apiKey", _, "cookie") => {
                    found.variable("API_KEY", "", true);
                    cookies.push_str(if cookies.is_empty() { "" } else { "; " });
                    cookies.push_str(&format!("{key}="));
                    cookies.append(Template::variable("API_KEY"));
                    continue;
                }
                ("apiKey", _, place) => {
                    found.variable("API_KEY", "", true);
                    Some(Auth::ApiKey {
                        key: Template::literal(key).written().into(),
                        value: Template::variable("API_KEY").written().into(),
                        place: if place == "query" { ApiKeyLocation::Query } else { ApiKeyLocation::Header },
                    })
                }
                _ => None,
            };
            if auth.is_none() || http.auth.is_some() {
                found.warn(format!(
                    "{}: the credentials `{}` are not carried over",
                    self.shown(),
                    shortened(name)
                ));
            }
            http.auth = http.auth.take().or(auth);
        }
    }

    /// The status that is expected: the first one of success.
    fn expected(&self, found: &mut Collection<'_>) -> Option<Spec> {
        let answers = self.content.get("responses").and_then(Value::as_object);
        let statuses = || answers.into_iter().flatten().map(|(status, _)| status.as_str());
        let exact = statuses().filter_map(|status| status.parse::<u64>().ok());
        if let Some(status) = exact.filter(|status| (200..300).contains(status)).min() {
            return Some(status_spec(status));
        }
        if statuses().any(|status| status.eq_ignore_ascii_case("2xx")) {
            let bounds = ["status >= 200", "status < 300"];
            let bounds = bounds.map(|bound| bound.replace("status", &format!("attr:{RESPONSE_STATUS}")));
            return Some(answer_spec("The answer is a success", bounds.to_vec()));
        }
        found.warn(format!("{}: no status of success is described, so none is expected", self.shown()));
        None
    }
}

/// Maximum number of parameters of an operation that are compared with those of its path.
const MAX_COMPARED: usize = 200;
