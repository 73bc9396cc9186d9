//! Where a data store sends its secrets, and how well they are protected on the way.
//!
//! A mask stands for a stored secret only on the way to the stored destination: else a user who may change the data
//! store, but not see its secrets, could have them sent to a server of their own.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{is_secret_field, is_secret_header, letters};
use crate::definition::Kind;

/// Fields that change neither the peer nor the protection of the connection. What is not listed does.
const FREE: [&str; 21] = [
    "accessid",
    "accesskeyid",
    "balancername",
    "compression",
    "connectiontype",
    "createdat",
    "database",
    "default",
    "description",
    "id",
    "index",
    "name",
    "readbuffersize",
    "resourcearmid",
    "table",
    "type",
    "useazureactivedirectoryauth",
    "usedefaultauth",
    "username",
    "waitforready",
    "writebuffersize",
];
/// Fields whose values are addresses: letter case and a last slash do not matter.
const ADDRESSES: [&str; 5] = ["addresses", "endpoint", "realm", "region", "url"];
/// Flags that weaken the protection. A secret may go where it went with one flag fewer.
const WEAKENING: [&str; 2] = ["insecure", "insecureskipverify"];
/// Words in the name of a header by which a proxy may choose another peer.
const ROUTING_WORDS: [&str; 3] = ["host", "forward", "url"];

/// The destination of a definition's secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Destination(BTreeSet<(String, String)>);

impl Destination {
    /// Returns the destination of a spec in JSON. Only data stores send secrets themselves.
    pub fn of(spec: &str, kind: Kind) -> Self {
        let mut found = BTreeSet::new();
        if kind == Kind::DataStore {
            let spec: Value = serde_json::from_str(spec).unwrap_or_default();
            add("", &spec, &mut found);
        }
        Self(found)
    }

    /// Whether secrets that are stored for this destination may go to another.
    pub(super) fn allows(&self, other: &Self) -> bool {
        let is_weakening = |path: &str| WEAKENING.iter().any(|flag| path.ends_with(&format!(".{flag}")));
        let kept = self.0.iter().filter(|field| other.0.contains(*field) || !is_weakening(&field.0));
        kept.eq(other.0.iter())
    }
}

fn add(path: &str, value: &Value, found: &mut BTreeSet<(String, String)>) {
    let field = path.rsplit('.').next().unwrap_or_default();
    let text = match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if field == "headers" && !is_routing(key) || field != "headers" && is_free(key, value) {
                    continue;
                }
                add(&format!("{path}.{}", letters(key)), value, found);
            }
            return;
        }
        Value::Array(items) => return items.iter().for_each(|item| add(path, item, found)),
        Value::Null | Value::Bool(false) => return,
        Value::Bool(true) => "true".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if ADDRESSES.contains(&field) => text.trim().trim_end_matches('/').to_lowercase(),
        Value::String(text) => text.trim().to_owned(),
    };
    if !text.is_empty() {
        found.insert((path.to_owned(), text));
    }
}

fn is_free(key: &str, value: &Value) -> bool {
    let field = letters(key);
    FREE.contains(&field.as_str()) || is_secret_field(&field, value.as_str())
}

fn is_routing(header: &str) -> bool {
    let lower = header.to_lowercase();
    !is_secret_header(&lower) && ROUTING_WORDS.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "callers make them on the spot")]
    fn check(stored: Value, sent: Value, is_allowed: bool) {
        let of = |spec: &Value| Destination::of(&spec.to_string(), Kind::DataStore);
        assert_eq!(of(&stored).allows(&of(&sent)), is_allowed, "{stored} {sent}");
    }

    fn search(addresses: &[&str], rest: &Value) -> Value {
        let mut block = json!({ "addresses": addresses, "username": "u", "password": "p", "index": "i" });
        block.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap_or_default());
        json!({ "name": "n", "type": "opensearch", "opensearch": block })
    }

    #[test]
    fn names_indices_and_users_may_change() {
        let stored = search(&["https://a:9200"], &json!({}));
        let sent = json!({ "username": "v", "index": "j", "password": "q", "insecureSkipVerify": false });
        check(stored, search(&["https://A:9200/"], &sent), true);
    }

    #[test]
    fn another_peer_is_another_destination() {
        let stored = || search(&["https://a:9200"], &json!({}));
        check(stored(), search(&["https://b:9200"], &json!({})), false);
        check(stored(), search(&["https://a:9200", "https://b:9200"], &json!({})), false);
        check(stored(), search(&["http://a:9200"], &json!({})), false);
        check(stored(), search(&[], &json!({})), false);
        let realm =
            |realm: &str, url: &str| json!({ "signalfx": { "realm": realm, "url": url, "token": "t" } });
        check(realm("us1", ""), realm("us1", "https://b"), false);
        check(realm("us1", "https://b"), realm("us1", ""), false);
        check(realm("us1", ""), realm("evil.example/", ""), false);
        let header = |name: &str, value: &str| json!({ "tempo": { "http": { "url": "u", "headers": { name: value } } } });
        check(header("X-Scope-OrgID", "a"), header("X-Scope-OrgID", "b"), true);
        check(header("Authorization", "a"), header("Authorization", "b"), true);
        check(header("Host", "a"), header("Host", "b"), false);
    }

    #[test]
    fn weaker_protection_is_another_destination_and_a_stronger_one_is_not() {
        let skip = |skip: bool| search(&["https://a"], &json!({ "insecureSkipVerify": skip }));
        check(skip(false), skip(true), false);
        check(skip(true), skip(false), true);
        let tls =
            |tls: Value| json!({ "jaeger": { "endpoint": "j:1", "headers": { "x-key": "k" }, "tls": tls } });
        check(tls(json!({})), tls(json!({ "insecure": true })), false);
        check(tls(json!({ "insecure": true })), tls(json!({})), true);
        for field in ["cAFile", "certFile", "minVersion", "maxVersion"] {
            check(
                tls(json!({ "settings": { field: "1" } })),
                tls(json!({ "settings": { field: "2" } })),
                false,
            );
        }
        check(tls(json!({ "serverName": "a" })), tls(json!({})), false);
    }

    #[test]
    fn a_field_that_is_not_known_counts() {
        check(json!({ "new": { "proxy": "a" } }), json!({ "new": { "proxy": "b" } }), false);
        check(json!({ "a": { "url": "u" } }), json!({ "b": { "url": "u" } }), false);
    }

    #[test]
    fn variable_sets_have_no_destination() {
        assert_eq!(
            Destination::of("{\"values\": [{\"url\": \"a\"}]}", Kind::VariableSet),
            Destination::default()
        );
    }
}
