//! Values that can never match are reported before a test is run.

use qualitytrace_core::definition::{self, Format};
use qualitytrace_core::lang::{diagnose_assertion, diagnose_selector};

fn selector(text: &str, expected: &[(&str, &str)]) {
    let found = diagnose_selector(text);
    let found: Vec<(&str, &str)> =
        found.iter().map(|found| (&*found.message, found.help.as_deref().unwrap_or_default())).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn a_kind_or_a_span_type_that_no_span_has_is_told() {
    selector("span[kind = \"sever\"]", &[("no span has the kind `sever`", "did you mean `server`?")]);
    selector("span[kind = \"SERVER\"]", &[("no span has the kind `SERVER`", "did you mean `server`?")]);
    selector(
        "span[tracetest.span.type = \"db\"]",
        &[(
            "no span has the tracetest.span.type `db`",
            "use one of http, database, rpc, messaging, faas, exception, general",
        )],
    );
    selector(
        "span[kind in (\"client\", \"cleint\")] span[not (qualitytrace.span.type = \"htpp\")]",
        &[
            ("no span has the kind `cleint`", "did you mean `client`?"),
            ("no span has the qualitytrace.span.type `htpp`", "did you mean `http`?"),
        ],
    );
    selector("span[kind = \"server\" tracetest.span.type = \"http\" \"kind\" = \"own\"]", &[]);
}

#[test]
fn a_special_attribute_that_does_not_exist_is_told() {
    selector(
        "span[tracetest.span.nmae = \"a\"]",
        &[("no span has an attribute `tracetest.span.nmae`", "did you mean `tracetest.span.name`?")],
    );
    // The server's own spans have attributes with this prefix.
    selector("span[tracetest.run.trigger.type = \"http\" tracetest.span.name = \"a\"]", &[]);
    // What the server records about its own runs, although `tracetest.span.name` is near.
    selector("span[tracetest.run.state = \"FINISHED\" tracetest.run.test_id = \"a\"]", &[]);
    let found = diagnose_assertion("attr:tracetest.span.durations < 1s");
    assert_eq!(found[0].help.as_deref(), Some("did you mean `tracetest.span.duration`?"), "{found:?}");
    assert!(diagnose_assertion("attr:tracetest.response.status = 200").is_empty());
}

#[test]
fn a_variable_in_the_form_of_a_trigger_is_told_how_to_write() {
    let found = diagnose_assertion("attr:user.id = ${var:USER}");
    let help = found.iter().find_map(|found| found.help.as_deref());
    assert_eq!(help, Some("outside of quotes write `var:USER`, without `${` and `}`"), "{found:?}");
    assert!(diagnose_assertion("attr:user.id = \"${var:USER}\"").is_empty());
}

#[test]
fn headers_as_a_mapping_are_told_how_to_write() {
    let text = "type: Test\nspec:\n  name: A\n  trigger:\n    type: http\n    httpRequest:\n      url: http://a\n      headers: { Authorization: hush }\n";
    let found = definition::read(text, Format::Yaml).diagnostics;
    let told: Vec<_> = found.iter().map(|found| (&*found.message, found.help.as_deref())).collect();
    let help = "write each of them as `- { key: Authorization, value: ... }`";
    assert_eq!(told, [("`headers` takes a list, but this is a mapping", Some(help))]);
}
