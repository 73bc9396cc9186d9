//! Resources that Tracetest stored although they are invalid, and that this server refuses: its later lists lack them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::entry::{Answer, Entry};

/// The ids of refused resources, by collection.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    ids: BTreeMap<String, BTreeSet<String>>,
}

impl Refused {
    /// Records a resource that Tracetest stored and this server refused.
    pub(crate) fn learn(&mut self, entry: &Entry, original: Option<&Answer>, actual: &Answer) {
        let Some(original) = original.filter(|_| matches!(entry.method.as_str(), "POST" | "PUT")) else {
            return;
        };
        if actual.status != 400 || !(original.status == 201 || entry.is_several_documents()) {
            return;
        }
        let stored = serde_json::Deserializer::from_str(&original.body)
            .into_iter::<Value>()
            .filter_map(Result::ok)
            .find_map(|document| Some(document["spec"]["id"].as_str()?.to_owned()));
        if let Some(id) = stored {
            self.ids.entry(entry.route().to_owned()).or_default().insert(id);
        }
    }

    /// Removes refused resources from a recorded list.
    pub(crate) fn without(&self, entry: &Entry, original: &Answer) -> Answer {
        let mut answer = original.clone();
        let Some(ids) = self.ids.get(entry.route()).filter(|_| entry.method == "GET") else {
            return answer;
        };
        let is_yaml = original
            .headers
            .get("content-type")
            .is_some_and(|content_type| content_type.starts_with("text/yaml"));
        if is_yaml {
            let is_kept = |document: &&str| !ids.iter().any(|id| document.contains(&format!("id: {id}\n")));
            if original.body.starts_with("---\n") {
                answer.body = original.body.split("---\n").filter(is_kept).collect::<Vec<_>>().join("---\n");
            } else if let Ok(mut list) = serde_saphyr::from_str::<Value>(&original.body) {
                shorten(&mut list, ids, entry);
                answer.body = serde_saphyr::to_string(&list).unwrap_or_default();
            }
        } else if let Ok(mut list) = serde_json::from_str::<Value>(&original.body) {
            shorten(&mut list, ids, entry);
            answer.body = list.to_string();
        }
        answer
    }

    /// Returns the paths to ignore in pages: once a resource is missing, only the length of a page can be compared.
    pub(crate) fn masks(&self, entry: &Entry) -> Vec<String> {
        let is_page = entry.path.contains("take=") || entry.path.contains("skip=");
        if is_page && self.ids.contains_key(entry.route()) {
            let everything = ["type", "spec"];
            return everything.iter().map(|key| format!("$.items[*].{key}")).collect();
        }
        Vec::new()
    }
}

fn shorten(list: &mut Value, ids: &BTreeSet<String>, entry: &Entry) {
    let searched = entry.path.contains("query=") && !entry.path.contains("query=%25");
    if let (Some(count), false) = (list.get("count").and_then(Value::as_u64), searched) {
        list["count"] = count.saturating_sub(ids.len() as u64).into();
    }
    let is_page = entry.path.contains("take=") && !entry.path.contains("take=0");
    if let (Some(items), false) = (list.get_mut("items").and_then(Value::as_array_mut), is_page) {
        items.retain(|item| !ids.contains(item["spec"]["id"].as_str().unwrap_or_default()));
    }
}
