//! Credentials of the machine that the server runs on: its environment, its files, its cloud's services.

#[path = "../../../../qualitytrace-server/tests/it/data_stores/sigv4.rs"]
mod sigv4;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};

use self::sigv4::Signed;
use super::{run, text};
use crate::late_spans_load::program::Served;
use crate::program;

/// A request to a stand-in: method and path, headers, body.
#[derive(Debug, Clone)]
struct StandInRequest {
    line: String,
    headers: HeaderMap,
    body: String,
}

impl StandInRequest {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

type Handler = fn(&StandInRequest) -> (u16, String);
type Log = Arc<Mutex<Vec<StandInRequest>>>;

/// Starts a stand-in of a cloud. Returns its address, and what it is asked.
async fn cloud(handler: Handler) -> (String, Log) {
    let log = Log::default();
    let router = Router::new().fallback(answer).with_state((handler, Arc::clone(&log)));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (format!("http://{address}"), log)
}

async fn answer(State((handler, log)): State<(Handler, Log)>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let asked = StandInRequest {
        line: format!("{} {}", parts.method, parts.uri),
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let (status, body) = handler(&asked);
    log.lock().unwrap().push(asked);
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

/// Tests the connection of a data store with a server that has these variables. Returns what is printed.
async fn tested(variables: &[(&str, &str)], spec: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let quiet = ["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    let arguments = [&quiet[..], &["--database-url", "sqlite::memory:"]].concat();
    let server = Served::start_in(program(), variables, &arguments).await;
    std::fs::write(folder.path().join("store.yaml"), format!("type: DataStore\nspec:\n  name: S\n{spec}"))
        .unwrap();
    let url = format!("http://{}", server.http);
    let ended = run(folder.path(), &["datastore", "test", "-f", "store.yaml", "--server-url", &url]);
    format!("{}{}", text(&ended.stdout), text(&ended.stderr))
}

fn xray(asked: &StandInRequest) -> (u16, String) {
    let gives = |key: &str| {
        let expires = "2099-01-01T00:00:00Z";
        format!(
            "{{\"Code\":\"Success\",\"AccessKeyId\":\"{key}\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":\"{expires}\"}}"
        )
    };
    match asked.line.as_str() {
        "PUT /latest/api/token" => (200, "word".to_owned()),
        _ if asked.line.starts_with("GET ") && asked.header("x-aws-ec2-metadata-token") != "word" => {
            (401, String::new())
        }
        "GET /latest/meta-data/iam/security-credentials/" => (200, "reader".to_owned()),
        "GET /latest/meta-data/iam/security-credentials/reader" => (200, gives("AKIDROLE")),
        "POST /Traces" => (200, "{\"Traces\":[],\"UnprocessedTraceIds\":[]}".to_owned()),
        _ => (404, String::new()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn xray_is_asked_with_the_credentials_of_the_machine() {
    let (url, log) = cloud(xray).await;
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    let profile = "[work]\naws_access_key_id = AKIDWORK\naws_secret_access_key = s\n";
    std::fs::write(home.path().join(".aws/credentials"), profile).unwrap();
    let (home, nowhere) = (home.path().to_str().unwrap(), "http://127.0.0.1:1");
    let spec =
        format!("  type: awsxray\n  awsxray: {{useDefaultAuth: true, region: eu-central-1, url: '{url}'}}\n");
    let environment = [("HOME", home), ("AWS_ACCESS_KEY_ID", "AKIDENV"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let of_profile =
        [("HOME", home), ("AWS_PROFILE", "work"), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", nowhere)];
    let of_instance = [("HOME", home), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.as_str())];
    for (variables, key) in
        [(&environment[..], "AKIDENV"), (&of_profile[..], "AKIDWORK"), (&of_instance[..], "AKIDROLE")]
    {
        log.lock().unwrap().clear();
        let out = tested(variables, &spec).await;
        assert!(out.contains("fetch           passed"), "{key}: {out}");
        let asked = log.lock().unwrap().clone();
        let signed: Vec<&StandInRequest> =
            asked.iter().filter(|asked| asked.line == "POST /Traces").collect();
        let [one] = signed[..] else { panic!("{key}: {asked:?}") };
        let scope = format!("AWS4-HMAC-SHA256 Credential={key}/");
        assert!(one.header("authorization").starts_with(&scope), "{key}: {one:?}");
        assert!(one.header("authorization").contains("/eu-central-1/xray/aws4_request,"), "{one:?}");
        assert_eq!(one.header("x-amz-security-token"), if key == "AKIDROLE" { "t" } else { "" });
        assert!(one.body.starts_with("{\"TraceIds\":[\"1-"), "{one:?}");
    }
    let none = [("HOME", home), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", nowhere)];
    let out = tested(&none, &spec).await;
    assert!(out.contains("authentication  failed") && out.contains("no AWS credentials"), "{out}");
}

/// The key that the roles of [`profiles`] stand on.
const KEY: &str = "AKIDBASEBASEBASE";

/// Security Token Service and X-Ray, at one address. A role is given to the credentials of the one before.
fn sts(asked: &StandInRequest) -> (u16, String) {
    let (method, uri) = asked.line.split_once(' ').unwrap();
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let signed = Signed { method, path, query, headers: &asked.headers, body: &asked.body };
    let is_signed = |key: &str, service: &str| signed.verify(key, "s", "eu-central-1", service) == Ok(());
    let asks = |part: &str| query.split('&').any(|pair| pair == part);
    let role = |name: &str| asks(&format!("RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2F{name}"));
    let gives = |key: &str| {
        let keys = format!("<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>");
        let rest = "<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>";
        let result = format!("<AssumeRoleResult><Credentials>{keys}{rest}</Credentials></AssumeRoleResult>");
        (200, format!("<AssumeRoleResponse>{result}</AssumeRoleResponse>"))
    };
    let token = asked.header("x-amz-security-token");
    match path {
        "/" if !asks("Action=AssumeRole") => (400, String::new()),
        "/" if role("middle") && is_signed(KEY, "sts") && token.is_empty() => gives("ASIAMIDDLEMIDDLE"),
        "/" if role("top")
            && asks("ExternalId=shop")
            && is_signed("ASIAMIDDLEMIDDLE", "sts")
            && token == "t" =>
        {
            gives("ASIATOPTOPTOPTOP")
        }
        "/" => {
            let error = "<Code>AccessDenied</Code><Message>User is not authorized to perform: sts:AssumeRole</Message>";
            (403, format!("<ErrorResponse><Error>{error}</Error></ErrorResponse>"))
        }
        "/Traces"
            if [KEY, "ASIATOPTOPTOPTOP", "AKIDPRINTPRINTED"].iter().any(|key| is_signed(key, "xray")) =>
        {
            (200, "{\"Traces\":[],\"UnprocessedTraceIds\":[]}".to_owned())
        }
        _ => (403, String::new()),
    }
}

/// A home folder with profiles: roles that stand on each other, and commands.
fn profiles() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".aws");
    std::fs::create_dir(&folder).unwrap();
    let role = |name: &str, source: &str| {
        let arn = format!("role_arn = arn:aws:iam::123456789012:role/{name}");
        format!("[profile {name}]\n{arn}\nsource_profile = {source}\n")
    };
    let script = folder.join("print it.sh");
    let printed = r#"echo '{"Version":1,"AccessKeyId":"'$1'","SecretAccessKey":"s","SessionToken":"p"}'"#;
    std::fs::write(&script, printed).unwrap();
    let process = |name: &str, line: &str| format!("[profile {name}]\ncredential_process = {line}\n");
    let config = [
        role("top", "middle") + "external_id = shop\n",
        role("middle", "base"),
        role("refused", "base"),
        process("printed", &format!("sh \"{}\" AKIDPRINTPRINTED", script.display())),
        process("broken", "echo hunter22; exit 3"),
    ];
    std::fs::write(folder.join("config"), config.concat()).unwrap();
    let base = format!("[base]\naws_access_key_id = {KEY}\naws_secret_access_key = s\n");
    std::fs::write(folder.join("credentials"), base).unwrap();
    home
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_and_commands_of_profiles_give_credentials_for_xray() {
    let (url, log) = cloud(sts).await;
    let (home, nowhere) = (profiles(), "http://127.0.0.1:1");
    let spec =
        format!("  type: awsxray\n  awsxray: {{useDefaultAuth: true, region: eu-central-1, url: '{url}'}}\n");
    let with = async |profile: &str| {
        log.lock().unwrap().clear();
        let home = home.path().to_str().unwrap();
        let variables = [
            ("HOME", home),
            ("AWS_PROFILE", profile),
            ("AWS_ENDPOINT_URL_STS", &url),
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", nowhere),
        ];
        let out = tested(&variables, &spec).await;
        (out, log.lock().unwrap().clone())
    };
    for (profile, token, asked_sts) in [("base", "", 0), ("top", "t", 2), ("printed", "p", 0)] {
        let (out, asked) = with(profile).await;
        assert!(out.contains("fetch           passed"), "{profile}: {out}\n{asked:?}");
        let traces: Vec<&StandInRequest> =
            asked.iter().filter(|asked| asked.line == "POST /Traces").collect();
        assert!(!traces.is_empty(), "{profile}: {asked:?}");
        assert!(traces.iter().all(|asked| asked.header("x-amz-security-token") == token), "{asked:?}");
        // What a role or a command gave is used until it ends.
        assert_eq!(asked.len() - traces.len(), asked_sts, "{profile}: {asked:?}");
    }
    for (profile, told) in [
        ("refused", "AccessDenied: User is not authorized"),
        ("broken", "`credential_process` of the AWS profile ended with code 3"),
        ("gone", "no AWS profile `gone`"),
    ] {
        let (out, asked) = with(profile).await;
        assert!(out.contains("authentication  failed") && out.contains(told), "{profile}: {out}");
        assert!(!out.contains("hunter22"), "{out}");
        assert!(asked.iter().all(|asked| asked.line != "POST /Traces"), "{profile}: {asked:?}");
    }
}

/// Azure Active Directory and the query API of Application Insights, at one address.
fn azure(asked: &StandInRequest) -> (u16, String) {
    let granted = |token: &str| (200, format!("{{\"access_token\":\"{token}\",\"expires_in\":\"3599\"}}"));
    let host = asked.header("host").replace(':', "%3A");
    let is_for_us = asked.body.contains(&format!("scope=http%3A%2F%2F{host}%2F.default"))
        || asked.line.contains(&format!("&resource=http%3A%2F%2F{host}"));
    match asked.line.as_str() {
        "POST /tenant/oauth2/v2.0/token" if !is_for_us => (400, String::new()),
        "POST /tenant/oauth2/v2.0/token" if asked.body.contains("&client_secret=right") => granted("secret"),
        "POST /tenant/oauth2/v2.0/token" if asked.body.contains("&client_assertion=signed") => {
            granted("workload")
        }
        "POST /tenant/oauth2/v2.0/token" => {
            let told = "AADSTS7000215: Invalid client secret provided.\\r\\nTrace ID: 1";
            (401, format!("{{\"error\":\"invalid_client\",\"error_description\":\"{told}\"}}"))
        }
        line if line.starts_with("GET /metadata/identity/oauth2/token?") && is_for_us => {
            if asked.header("metadata") == "true" { granted("machine") } else { (400, String::new()) }
        }
        "POST /v1/subscriptions/1/shop/query" => match asked.header("authorization") {
            "Bearer secret" | "Bearer workload" | "Bearer machine" => (200, "{\"tables\":[]}".to_owned()),
            _ => (403, String::new()),
        },
        _ => (404, String::new()),
    }
}

const AZURE: &str = "  type: azureappinsights\n  azureappinsights: {useAzureActiveDirectoryAuth: true, \
                     connectionType: direct, resourceArmId: /subscriptions/1/shop, url: 'URL'}\n";

#[tokio::test(flavor = "multi_thread")]
async fn azure_is_asked_with_a_token_of_active_directory() {
    let (url, log) = cloud(azure).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "signed\n").unwrap();
    let spec = AZURE.replace("URL", &url);
    let application =
        [("AZURE_AUTHORITY_HOST", url.as_str()), ("AZURE_TENANT_ID", "tenant"), ("AZURE_CLIENT_ID", "shop")];
    let with = |more: (&'static str, &str)| {
        application
            .into_iter()
            .chain([more])
            .map(|(name, value)| (name, value.to_owned()))
            .collect::<Vec<_>>()
    };
    let cases = [
        (with(("AZURE_CLIENT_SECRET", "right")), "secret"),
        (with(("AZURE_FEDERATED_TOKEN_FILE", file.to_str().unwrap())), "workload"),
        (vec![("AZURE_POD_IDENTITY_AUTHORITY_HOST", url.clone())], "machine"),
    ];
    for (variables, token) in cases {
        log.lock().unwrap().clear();
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let out = tested(&variables, &spec).await;
        assert!(out.contains("fetch           passed"), "{token}: {out}");
        let asked = log.lock().unwrap().clone();
        let used = asked.iter().any(|asked| asked.header("authorization") == format!("Bearer {token}"));
        assert!(used, "{token}: {asked:?}");
    }
    let wrong = with(("AZURE_CLIENT_SECRET", "wrong"));
    let wrong: Vec<(&str, &str)> = wrong.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let out = tested(&wrong, &spec).await;
    assert!(out.contains("authentication  failed") && out.contains("AADSTS7000215"), "{out}");
    assert!(!out.contains("Trace ID"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_active_directory_is_kept_until_it_ends() {
    let (url, log) = cloud(azure).await;
    let folder = tempfile::tempdir().unwrap();
    let variables = [("AZURE_POD_IDENTITY_AUTHORITY_HOST", url.as_str())];
    let quiet = ["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    let arguments = [&quiet[..], &["--database-url", "sqlite::memory:"]].concat();
    let server = Served::start_in(program(), &variables, &arguments).await;
    let spec = AZURE.replace("URL", &url);
    std::fs::write(folder.path().join("store.yaml"), format!("type: DataStore\nspec:\n  name: S\n{spec}"))
        .unwrap();
    let test = "type: Test\nspec:\n  id: t\n  name: T\n  trigger: {type: http, httpRequest: {url: 'URL/', method: GET}}\n";
    std::fs::write(folder.path().join("test.yaml"), test.replace("URL", &url)).unwrap();
    let profile = "type: PollingProfile\nspec:\n  name: P\n  strategy: periodic\n  default: true\n  \
                   periodic: {timeout: 2s, retryDelay: 1s}\n";
    std::fs::write(folder.path().join("profile.yaml"), profile).unwrap();
    let server_url = format!("http://{}", server.http);
    for [kind, file] in [["datastore", "store.yaml"], ["pollingprofile", "profile.yaml"]] {
        let applied = run(folder.path(), &["apply", kind, "-f", file, "--server-url", &server_url]);
        assert_eq!(applied.status.code(), Some(0), "{}", text(&applied.stderr));
    }
    run(folder.path(), &["run", "test.yaml", "--server", &server_url]);
    let asked = log.lock().unwrap().clone();
    let count = |part: &str| asked.iter().filter(|asked| asked.line.contains(part)).count();
    assert!(count("/query") > 2, "{asked:?}");
    assert_eq!(count("/metadata/identity"), 1, "{asked:?}");
}
