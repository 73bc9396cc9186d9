//! Writing data stores.

use serde_json::Value;

use super::{Object, Stored};
use crate::definition::source::{GrpcClient, HttpClient, SearchIndex, Source, Tempo, Tls, TlsSettings};
use crate::definition::{DataStore, Text};

pub(super) fn data_store(out: &mut Object, store: &DataStore, stored: &Stored) {
    out.put("name", store.name.clone());
    out.put("type", store.source.kind());
    out.put("default", true);
    out.maybe("createdAt", store.created_at.clone().or_else(|| stored.created_at.clone()));
    if let Some(details) = details(&store.source) {
        out.put(store.source.kind(), details);
    }
}

fn details(source: &Source) -> Option<Value> {
    let mut out = Object::default();
    match source {
        Source::Jaeger(client) => return Some(grpc(client)),
        Source::Tempo(tempo) => match tempo {
            Tempo::Grpc(client) => {
                out.put("type", "grpc");
                out.put("grpc", grpc(client));
            }
            Tempo::Http(client) => {
                out.put("type", "http");
                out.put("http", http(client));
            }
            Tempo::Unset => out.put("type", ""),
        },
        Source::OpenSearch(index) | Source::ElasticApm(index) => search_index(&mut out, index),
        Source::SignalFx(signalfx) => {
            out.put("realm", signalfx.realm.clone());
            out.put("token", signalfx.token.clone());
        }
        Source::AwsXray(xray) => {
            out.put("region", xray.region.clone());
            out.put("accessKeyId", xray.access_key_id.clone());
            out.put("secretAccessKey", xray.secret_access_key.clone());
            out.put("sessionToken", xray.session_token.clone());
            out.put("useDefaultAuth", xray.use_default_auth);
        }
        Source::AzureAppInsights(azure) => {
            out.put("useAzureActiveDirectoryAuth", azure.use_azure_active_directory_auth);
            out.put("accessToken", azure.access_token.clone());
            out.put("resourceArmId", azure.resource_arm_id.clone());
            out.put("connectionType", azure.connection_type.clone());
        }
        Source::SumoLogic(sumo) => {
            out.put("url", sumo.url.clone());
            out.put("accessID", sumo.access_id.clone());
            out.put("accessKey", sumo.access_key.clone());
        }
        Source::Received(_) => return None,
    }
    Some(out.into())
}

fn grpc(client: &GrpcClient) -> Value {
    let mut out = Object::default();
    out.filled("endpoint", &client.endpoint);
    out.maybe("readBufferSize", Some(client.read_buffer_size).filter(|size| *size != 0));
    out.maybe("writeBufferSize", Some(client.write_buffer_size).filter(|size| *size != 0));
    out.flag("waitForReady", client.wait_for_ready);
    out.maybe("headers", headers(&client.headers));
    out.filled("balancerName", &client.balancer_name);
    out.filled("compression", &client.compression);
    out.maybe("tls", client.tls.as_ref().map(tls));
    out.into()
}

fn http(client: &HttpClient) -> Value {
    let mut out = Object::default();
    out.filled("url", &client.url);
    out.maybe("headers", headers(&client.headers));
    out.maybe("tls", client.tls.as_ref().map(tls));
    out.into()
}

fn search_index(out: &mut Object, index: &SearchIndex) {
    out.put("addresses", index.addresses.clone().map_or(Value::Null, Value::from));
    out.put("username", index.username.clone());
    out.put("password", index.password.clone());
    out.put("index", index.index.clone());
    out.put("certificate", index.certificate.clone());
    out.put("insecureSkipVerify", index.insecure_skip_verify);
}

/// Headers by name; `None` when there are none.
fn headers(headers: &[(String, Text)]) -> Option<Value> {
    let mut sorted: Vec<_> = headers.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = Object::default();
    for (name, value) in &sorted {
        out.put(name, value.value.clone());
    }
    (!sorted.is_empty()).then(|| out.into())
}

fn tls(tls: &Tls) -> Value {
    let mut out = Object::default();
    out.flag("insecure", tls.insecure);
    out.flag("insecureSkipVerify", tls.insecure_skip_verify);
    out.filled("serverName", &tls.server_name);
    out.maybe("settings", tls.settings.as_ref().map(settings));
    out.into()
}

fn settings(settings: &TlsSettings) -> Value {
    let mut out = Object::default();
    out.filled("cAFile", &settings.ca_file);
    out.filled("certFile", &settings.cert_file);
    out.filled("keyFile", &settings.key_file);
    out.filled("minVersion", &settings.min_version);
    out.filled("maxVersion", &settings.max_version);
    out.into()
}
