//! Imports: each request becomes a definition that reads back, and what is lost is named.

mod files;

use proptest::prelude::*;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::trigger::{ApiKeyLocation, Auth, Body, Http, Redirects, Trigger};
use qualitytrace_core::definition::{Format, Resource, Test, VariableSet, check, read};
use qualitytrace_core::import::{ImportError, Imported, Tool, import};
use serde_json::json;

fn imported(tool: Tool, text: &str) -> Imported {
    let found =
        import(Some(tool), text, &Budget::default()).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(import(None, text, &Budget::default()), Ok(found.clone()), "the tool is recognized");
    found
}

/// The tests and variables of an import; all of them can be used as they are.
fn resources(found: &Imported) -> (Vec<Test>, Option<VariableSet>) {
    let (mut tests, mut variables) = (Vec::new(), None);
    for definition in &found.definitions {
        let mut reading = read(&definition.text, Format::Yaml);
        assert_eq!(reading.diagnostics, [], "{}", definition.text);
        let resource = reading.documents.remove(0).resource;
        assert_eq!(check(&resource), [], "{}", definition.text);
        match resource {
            Resource::Test(test) => {
                assert_eq!(test.name, definition.name);
                tests.push(test);
            }
            Resource::VariableSet(set) => variables = Some(set),
            other => panic!("{other:?}"),
        }
    }
    (tests, variables)
}

fn http(test: &Test) -> &Http {
    match &test.trigger {
        Some(Trigger::Http(http)) => http,
        other => panic!("{other:?}"),
    }
}

/// A request in one text: method, URL, headers, body.
fn shown(http: &Http) -> String {
    let headers: Vec<String> =
        http.headers.iter().map(|header| format!("{}: {}", header.key.value, header.value.value)).collect();
    let body = match &http.body {
        Body::Text(text) => text.value.clone(),
        Body::File(file) => format!("file {}", file.value),
        Body::Form(fields) => {
            let fields = fields.iter().map(|field| format!("{}={}", field.key.value, field.value.value));
            format!("form {}", fields.collect::<Vec<_>>().join(" "))
        }
        Body::Multipart(parts) => {
            let part = parts.iter().map(|part| {
                let Some(content) = [&part.value, &part.file].into_iter().find(|text| !text.is_empty())
                else {
                    return part.name.value.clone();
                };
                format!("{}={}:{}", part.name.value, content.value, part.content_type.value)
            });
            format!("multipart {}", part.collect::<Vec<_>>().join(" "))
        }
    };
    let parts = [http.method.value.clone(), http.url.value.clone(), headers.join(", "), body];
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" | ")
}

#[track_caller]
fn check_curl(command: &str, expected: &str, warnings: &[&str]) {
    let found = imported(Tool::Curl, command);
    let (tests, _) = resources(&found);
    let requests: Vec<String> = tests.iter().map(|test| shown(http(test))).collect();
    assert_eq!(requests.join("\n"), expected);
    let told = found.warnings.join("\n");
    assert_eq!(found.warnings.len(), warnings.len(), "{told}");
    for (warning, part) in found.warnings.iter().zip(warnings) {
        assert!(warning.contains(part), "{told}");
    }
}

#[test]
fn commands_of_curl_are_read_as_a_shell_reads_them() {
    check_curl("curl http://h/a", "GET | http://h/a", &[]);
    check_curl(
        "$ curl 'http://h/a b' \\\n  -H 'X-A: it'\\''s' \\\r\n  -H \"X-B: \\\"q\\\" \\\\ \\n\" # a comment\n",
        "GET | http://h/a b | X-A: it's, X-B: \"q\" \\ \\n",
        &[],
    );
    check_curl(
        "curl -XPOST --data-raw $'{\"a\":\"\\u00e9\\ud83d\\ude00 \\x41\\101\\'\\n\"}' -H 'content-type: application/json' http://h/",
        "POST | http://h/ | content-type: application/json | {\"a\":\"é😀 AA'\n\"}",
        &[],
    );
    check_curl(
        "TOKEN=x; curl -sSLk -H \"Authorization: Bearer $TOKEN\" \"http://${HOST}/x\" | jq .",
        "GET | http://${var:HOST}/x | Authorization: Bearer ${var:TOKEN}",
        &["variable `TOKEN`", "variable `HOST`", "a pipe", "`TOKEN=x` is left out"],
    );
    // What is no variable of the shell is none of the test.
    check_curl(
        "curl 'http://h/${x}' -d '\\${y}'",
        "POST | http://h/\\${x} | Content-Type: application/x-www-form-urlencoded | \\\\${y}",
        &[],
    );
    check_curl(
        "curl http://h/1 && curl http://h/2\ncurl http://h/3 --next -I http://h/4",
        "GET | http://h/1\nGET | http://h/2\nGET | http://h/3\nHEAD | http://h/4",
        &[],
    );
}

#[test]
fn options_of_curl_become_parts_of_the_request() {
    let form = "Content-Type: application/x-www-form-urlencoded";
    check_curl("curl h -d a=1 -d b=2", &format!("POST | h | {form} | a=1&b=2"), &[]);
    check_curl("curl -G h/x?y=0#f -d a=1 --data-urlencode 'q=a b&c'", "GET | h/x?y=0&a=1&q=a%20b%26c#f", &[]);
    check_curl("curl h --data-urlencode 'ä'", &format!("POST | h | {form} | %C3%A4"), &[]);
    check_curl(
        "curl --json '{}' --url h",
        "POST | h | Content-Type: application/json, Accept: application/json | {}",
        &[],
    );
    check_curl(
        "curl -b 'a=1; b=2' -A me -e http://r h",
        "GET | h | Cookie: a=1; b=2, User-Agent: me, Referer: http://r",
        &[],
    );
    check_curl(
        "curl h -F a=1 -F 'f=@x.png;type=image/png'",
        "POST | h | multipart a=1: f=./x.png:image/png",
        &["the file `x.png`"],
    );
    check_curl(
        "curl h --data-binary @b.json",
        &format!("POST | h | {form} | file ./b.json"),
        &["the file `b.json`"],
    );
    check_curl("curl h --digest --frobnicate -Z", "GET | h", &["`--digest`", "`--frobnicate`", "`-Z`"]);
    check_curl("curl h -d /etc/x", &format!("POST | h | {form} | /etc/x"), &["begins like a path"]);
    let of = |command: &str| http(&resources(&imported(Tool::Curl, command)).0[0]).clone();
    let auth = of("curl h -u me:pa:ss").auth;
    assert_eq!(auth, Some(Auth::Basic { username: "me".into(), password: "pa:ss".into() }));
    let plain = of("curl h");
    assert_eq!((plain.redirects, plain.ssl_verification), (Redirects::Stay, true));
    let lax = of("curl -kL h --max-redirs 3 -x http://p:1");
    assert_eq!(
        (lax.redirects, lax.ssl_verification, lax.proxy.value.as_str()),
        (Redirects::Follow(3), false, "http://p:1")
    );
}

#[test]
fn archives_become_one_test_for_each_request() {
    let archive = json!({ "log": { "version": "1.2", "entries": [
        {
            "request": {
                "method": "POST", "url": "https://h/a?b=1",
                "headers": [
                    { "name": ":authority", "value": "h" }, { "name": "X-A", "value": "${1}" },
                    { "name": "Content-Length", "value": "3" }, { "name": "accept-encoding", "value": "br" },
                ],
                "cookies": [{ "name": "s", "value": "1" }, { "name": "t", "value": "2" }],
                "postData": { "mimeType": "application/json", "text": "{}\n" },
            },
            "response": { "status": 201 },
        },
        { "request": { "method": "POST", "url": "https://h/f", "postData": {
            "mimeType": "application/x-www-form-urlencoded", "params": [{ "name": "a", "value": "b" }] } } },
        { "request": { "method": "GET" } },
    ] } });
    let found = imported(Tool::Har, &archive.to_string());
    let (tests, _) = resources(&found);
    assert_eq!(shown(http(&tests[0])), "POST | https://h/a?b=1 | X-A: \\${1}, Cookie: s=1; t=2 | {}\n");
    assert_eq!(
        (tests[0].name.as_str(), tests[0].specs[0].assertions[0].value.as_str()),
        ("POST /a", "attr:tracetest.response.status = 201")
    );
    assert_eq!(shown(http(&tests[1])), "POST | https://h/f | form a=b");
    assert_eq!((tests.len(), tests[1].specs.len(), found.warnings.len()), (2, 0, 2), "{:?}", found.warnings);
}

#[test]
fn collections_of_postman_keep_folders_variables_and_credentials() {
    let pair = |key: &str, value: &str| json!({ "key": key, "value": value, "type": "string" });
    let collection = json!({
        "info": { "name": "C" },
        "auth": { "type": "bearer", "bearer": [pair("token", "{{token}}")] },
        "variable": [pair("base url", "http://h"), { "key": "token", "value": "t", "type": "secret" }],
        "item": [
            { "name": "Orders", "item": [{
                "name": "Read",
                "event": [{ "listen": "test", "script": { "exec": ["pm.test()"] } }],
                "request": {
                    "method": "GET",
                    "header": [pair("X-Id", "{{$guid}}"), { "key": "Off", "value": "1", "disabled": true }],
                    "url": {
                        "raw": "{{base url}}/orders/:id?q={{q}}", "variable": [pair("id", "7")],
                    },
                },
            }] },
            { "name": "Write", "request": {
                "method": "POST", "url": "http://h/w",
                "auth": { "type": "apikey", "apikey": [pair("key", "K"), pair("value", "{{k}}"), pair("in", "query")] },
                "body": { "mode": "raw", "raw": "{\"a\": \"{{a}}\"}", "options": { "raw": { "language": "json" } } },
            } },
            { "name": "Form", "request": {
                "method": "POST", "url": { "host": ["h", "x"], "path": ["f"], "query": [pair("a b", "c")] },
                "auth": { "type": "noauth" },
                "body": { "mode": "urlencoded", "urlencoded": [pair("a", "b")] },
            } },
            { "name": "Graph", "request": { "method": "POST", "url": "http://h/g", "auth": { "type": "oauth2" }, "body": {
                "mode": "graphql", "graphql": { "query": "query { a }", "variables": "{\"x\": \"{{y}}\"}" },
            } } },
            { "name": "Numbers", "request": { "method": "POST", "url": "http://h/g", "auth": { "type": "noauth" }, "body": {
                "mode": "graphql", "graphql": { "query": "query { a }", "variables": "{\"x\": {{y}}}" },
            } } },
        ],
    });
    let found = imported(Tool::Postman, &collection.to_string());
    let (tests, variables) = resources(&found);
    assert_eq!(tests[0].name, "Orders / Read");
    assert_eq!(shown(http(&tests[0])), "GET | ${var:base_url}/orders/${var:id}?q=${var:q} | X-Id: ${uuid()}");
    assert_eq!(http(&tests[0]).auth, Some(Auth::Bearer { token: "Bearer ${var:token}".into() }));
    assert_eq!(
        shown(http(&tests[1])),
        "POST | http://h/w | Content-Type: application/json | {\"a\": \"${var:a}\"}"
    );
    let key = Auth::ApiKey { key: "K".into(), value: "${var:k}".into(), place: ApiKeyLocation::Query };
    assert_eq!(http(&tests[1]).auth, Some(key));
    assert_eq!(shown(http(&tests[2])), "POST | h.x/f?a%20b=c | form a=b");
    let Some(Trigger::Graphql(graphql)) = &tests[3].trigger else { panic!("{:?}", tests[3]) };
    assert_eq!(
        (graphql.query.value.as_str(), graphql.variables[0].1.value.as_str()),
        ("query { a }", "${var:y}")
    );
    assert_eq!(
        shown(http(&tests[4])),
        "POST | http://h/g | Content-Type: application/json | {\"query\": \"query { a }\", \"operationName\": null, \"variables\": {\"x\": ${var:y}}}"
    );
    let values: Vec<(String, String, bool)> = variables
        .unwrap()
        .values
        .into_iter()
        .map(|variable| (variable.key, variable.value.value, variable.is_secret))
        .collect();
    let value = |key: &str, value: &str, is_secret| (key.to_owned(), value.to_owned(), is_secret);
    assert_eq!(
        values,
        [value("base_url", "http://h", false), value("token", "t", true), value("id", "7", false)]
    );
    let told = found.warnings.join("\n");
    for part in
        ["the script of `Orders / Read`", "`base url` is called `base_url`", "`oauth2` are not carried over"]
    {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(found.warnings.len(), 3, "{told}");
}

const DESCRIPTION: &str = "\
openapi: 3.1.0
info: {title: Shop, version: '1'}
servers:
  - url: https://{region}.shop.example/v1/
    variables: {region: {default: eu}}
security: [{key: []}]
paths:
  /orders/{id}:
    parameters:
      - $ref: '#/components/parameters/id'
    get:
      summary: Read an order
      parameters:
        - {name: expand, in: query, required: true, example: items, schema: {type: string}}
        - {name: trace, in: header, schema: {type: string}}
      responses: {'404': {}, '200': {}}
    put:
      security: [{token: []}]
      requestBody:
        content:
          application/json:
            schema: {$ref: '#/components/schemas/Order'}
      responses: {2XX: {}}
  /orders:
    post:
      operationId: create
      security: []
      requestBody:
        content:
          application/x-www-form-urlencoded:
            example: {a: 1, b: x y}
      responses: {default: {}}
components:
  parameters:
    id: {name: id, in: path, required: true, schema: {type: integer, minimum: 7}}
  securitySchemes:
    key: {type: apiKey, name: X-Key, in: header}
    token: {type: http, scheme: bearer}
  schemas:
    Order:
      allOf:
        - {$ref: '#/components/schemas/Base'}
        - properties:
            note: {type: [string, 'null'], enum: [quick]}
            lines: {type: array, items: {$ref: '#/components/schemas/Line'}}
    Base: {type: object, properties: {id: {type: string, format: uuid}, seen: {type: boolean, readOnly: true}}}
    Line: {type: object, properties: {sku: {type: string, example: a1}}}
";

#[test]
fn each_operation_of_a_description_becomes_a_test() {
    let found = imported(Tool::Openapi, DESCRIPTION);
    let (tests, variables) = resources(&found);
    assert_eq!(
        tests.iter().map(|test| test.name.as_str()).collect::<Vec<_>>(),
        ["Read an order", "PUT /orders/{id}", "create"]
    );
    let base = "https://${var:region}.shop.example/v1";
    assert_eq!(shown(http(&tests[0])), format!("GET | {base}/orders/${{var:id}}?expand=${{var:expand}}"));
    let key =
        Auth::ApiKey { key: "X-Key".into(), value: "${var:API_KEY}".into(), place: ApiKeyLocation::Header };
    assert_eq!(http(&tests[0]).auth, Some(key));
    assert_eq!(tests[0].specs[0].assertions[0].value, "attr:tracetest.response.status = 200");
    let Body::Text(body) = &http(&tests[1]).body else { panic!("{:?}", tests[1]) };
    let body: serde_json::Value = serde_json::from_str(&body.value).unwrap();
    let expected =
        json!({ "id": "00000000-0000-4000-8000-000000000000", "note": "quick", "lines": [{ "sku": "a1" }] });
    assert_eq!(body, expected);
    assert_eq!(tests[1].specs[0].assertions.len(), 2);
    assert_eq!(shown(http(&tests[2])), format!("POST | {base}/orders | form a=1 b=x y"));
    assert_eq!((&http(&tests[2]).auth, tests[2].specs.len()), (&None, 0));
    let keys: Vec<String> = variables
        .unwrap()
        .values
        .iter()
        .map(|value| format!("{}={}", value.key, value.value.value))
        .collect();
    assert_eq!(keys, ["region=eu", "expand=items", "id=7", "API_KEY=", "TOKEN="]);
    let told = found.warnings.join("\n");
    assert!(told.contains("GET /orders/{id}: optional parameters are left out: trace"), "{told}");
    assert!(told.contains("POST /orders: no status of success is described"), "{told}");
    assert_eq!(found.warnings.len(), 2, "{told}");
}

#[test]
fn a_description_that_refers_to_itself_ends() {
    let schemas = json!({ "A": { "properties": { "a": { "$ref": "#/components/schemas/A" }, "b": { "$ref": "#/components/schemas/A" } } } });
    let body =
        json!({ "content": { "application/json": { "schema": { "$ref": "#/components/schemas/A" } } } });
    let description = json!({
        "openapi": "3.0.0", "components": { "schemas": schemas, "parameters": { "x": { "$ref": "#/components/parameters/x" } } },
        "paths": { "/a": { "post": { "requestBody": body, "parameters": [{ "$ref": "#/components/parameters/x" }], "responses": { "200": {} } } } },
    });
    let found = imported(Tool::Openapi, &description.to_string());
    let told = found.warnings.join("\n");
    assert!(told.contains("the example of the body is cut"), "{told}");
    assert!(found.definitions[0].text.len() < 200_000);
    let old = json!({ "swagger": "2.0", "paths": {} }).to_string();
    let refused = import(Some(Tool::Openapi), &old, &Budget::default()).unwrap_err();
    assert!(refused.to_string().contains("convert it first"), "{refused}");
}

#[test]
fn entries_of_hurl_become_tests() {
    let file = "\
# An order
POST https://{{host}}/orders # create it
X-A: 1
[Query]
q: a b
[Options]
location: true
retry: 3
{
  \"name\": \"{{name}}\", \"list\": [\"]\"]
}
HTTP 201
Location: /x
[Captures]
id: jsonpath \"$.id\"
csrf: header \"X\"
[Asserts]
status < 300
jsonpath \"$.name\" == \"it\"
jsonpath \"$.total\" >= 12.5
header \"A\" exists
duration < 1000

GET https://h/o/{{id}}
[BasicAuth]
me: secret

PUT https://h/f
[Form]
a: b
HTTP *

POST https://h/t
```
plain {{x}}
```
HTTP/1.1 200
`expected`
";
    let found = imported(Tool::Hurl, file);
    let (tests, _) = resources(&found);
    assert_eq!(
        shown(http(&tests[0])),
        "POST | https://${var:host}/orders?q=a%20b | X-A: 1, Content-Type: application/json | {\n  \"name\": \"${var:name}\", \"list\": [\"]\"]\n}"
    );
    assert_eq!(http(&tests[0]).redirects, Redirects::default());
    let assertions: Vec<&str> =
        tests[0].specs[0].assertions.iter().map(|assertion| assertion.value.as_str()).collect();
    assert_eq!(
        assertions,
        [
            "attr:tracetest.response.status = 201",
            "attr:tracetest.response.status < 300",
            "attr:tracetest.response.body | json_path '$.name' = \"it\"",
            "attr:tracetest.response.body | json_path '$.total' >= 12.5",
            "attr:tracetest.span.duration < 1000ms",
        ]
    );
    let output = &tests[0].outputs[0];
    assert_eq!(
        (output.name.value.as_str(), output.value.value.as_str()),
        ("id", "attr:tracetest.response.body | json_path '$.id'")
    );
    assert_eq!(http(&tests[1]).auth, Some(Auth::Basic { username: "me".into(), password: "secret".into() }));
    assert_eq!(shown(http(&tests[2])), "PUT | https://h/f | form a=b");
    assert_eq!(shown(http(&tests[3])), "POST | https://h/t | plain ${var:x}\n");
    let told = found.warnings.join("\n");
    for part in ["line 8", "`Location`", "`csrf`", "`header \"A\" exists`", "the expected body"] {
        let part = part.replace("line 8", "the option `retry`");
        assert!(told.contains(&part), "{part}: {told}");
    }
    assert_eq!((found.warnings.len(), tests.len()), (5, 4), "{told}");
}

#[test]
fn what_cannot_be_imported_is_refused_with_a_reason() {
    let refused = |tool, text: &str| import(tool, text, &Budget::default()).unwrap_err();
    assert_eq!(refused(None, "hello"), ImportError::Unknown);
    assert_eq!(refused(Some(Tool::Curl), "wget http://h"), ImportError::Empty);
    assert_eq!(refused(Some(Tool::Curl), ""), ImportError::Empty);
    assert_eq!(refused(Some(Tool::Har), "{\"log\": {\"entries\": []}}"), ImportError::Empty);
    for tool in [Tool::Har, Tool::Postman, Tool::Openapi] {
        assert!(matches!(refused(Some(tool), "{\"a\": 1}"), ImportError::Unreadable { .. }));
        assert!(matches!(refused(Some(tool), "{"), ImportError::Unreadable { .. }));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(refused(Some(tool), &deep), ImportError::Unreadable { .. }));
    }
    assert!(matches!(import(None, "curl h", &Budget::new(0, 0)), Err(ImportError::Exceeded(_))));
}

#[test]
fn large_texts_are_bounded() {
    let many = "curl http://h/x\n".repeat(3_000);
    let found = import(None, &many, &Budget::default()).unwrap();
    assert_eq!(found.definitions.len(), 1_000);
    assert_eq!(found.warnings.len(), 1);
    assert!(found.warnings[0].starts_with("2000 more requests are left out"), "{:?}", found.warnings);
    let odd: Vec<String> = (0..500).map(|at| format!("curl http://h -H 'x{at}'")).collect();
    let found = import(None, &odd.join("\n"), &Budget::default()).unwrap();
    assert_eq!((found.definitions.len(), found.warnings.len()), (500, 201));
    // One long body for many URLs.
    let wide = format!("curl -d {} {}", "x".repeat(1 << 20), "http://h ".repeat(10_000));
    let found = import(None, &wide, &Budget::default()).unwrap();
    assert!(found.definitions.len() < 40, "{}", found.definitions.len());
}

fn tools() -> impl Strategy<Value = Option<Tool>> {
    prop::sample::select(vec![
        None,
        Some(Tool::Curl),
        Some(Tool::Har),
        Some(Tool::Postman),
        Some(Tool::Openapi),
        Some(Tool::Hurl),
    ])
}

/// Texts made of what the tools' files are made of.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "curl ",
        "-d ",
        "-H ",
        "-F ",
        "-G ",
        "-u ",
        "-b ",
        "--json ",
        "--data-urlencode ",
        "@",
        "'",
        "\"",
        "$'",
        "\\",
        "\\u",
        "\\ud83d",
        "$X",
        "${X:-1}",
        "$(",
        "`",
        "|",
        "&",
        ";",
        "\n",
        "\r\n",
        " ",
        "\t",
        "#",
        "http://h/",
        "?a=b",
        ":",
        "=",
        "é",
        "\u{7f}",
        "\u{2028}",
        "\0",
        "{{x}}",
        "{{$guid}}",
        "{{",
        "}}",
        "GET ",
        "POST ",
        "HTTP 200",
        "[Asserts]",
        "[Form]",
        "[Options]",
        "```",
        "status == 200",
        "jsonpath \"$.a\" == 1",
        "file,x;",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\"log\":",
        "\"entries\":",
        "\"request\":",
        "\"url\":",
        "\"item\":",
        "\"method\":",
        "\"openapi\":\"3.0.0\"",
        "openapi: 3.1.0\n",
        "paths:\n",
        "  /a/{b}:\n",
        "    get:\n",
        "\"paths\":",
        "\"get\":",
        "\"$ref\":\"#\"",
        "1",
        "true",
        "null",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_breaks_an_import(tool in tools(), text in prop_oneof![pieces(), any::<String>()]) {
        if let Ok(found) = import(tool, &text, &Budget::default()) {
            for definition in &found.definitions {
                let reading = read(&definition.text, Format::Yaml);
                prop_assert!(reading.is_usable(false), "{}: {:?}", definition.text, reading.diagnostics);
                prop_assert_eq!(reading.documents.len(), 1);
            }
        }
    }

    #[test]
    fn any_header_and_body_of_curl_survives(value in "[ -~é\\t]{1,30}", body in any::<String>()) {
        prop_assume!(!value.trim().is_empty() && !body.is_empty() && !body.starts_with('@') && !body.contains('\0'));
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let command = format!("curl http://h -H {} --data-raw {}", quoted(&format!("X: {value}")), quoted(&body));
        let found = import(Some(Tool::Curl), &command, &Budget::default()).unwrap();
        let (tests, _) = resources(&found);
        let http = http(&tests[0]);
        let literal = |text: &str| text.replace("${", "\\${");
        prop_assert_eq!(&http.headers[0].value.value, &literal(value.trim()));
        let Body::Text(text) = &http.body else { panic!("{:?}", http.body) };
        prop_assert_eq!(&text.value, &literal(&body));
    }
}
