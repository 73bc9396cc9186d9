//! Variables in the texts of selectors.

use qualitytrace_core::definition::Spec;
use qualitytrace_core::judge::{Compiled, Options};
use qualitytrace_core::lang::{Generator, Variables, parse_selector, variables_in_selector};
use qualitytrace_core::time::Timestamp;

use crate::near::shop;

fn passes(selector: &str, assertion: &str, variables: &[(&str, &str)]) -> bool {
    let spec = Spec { selector: selector.into(), assertions: vec![assertion.into()], ..Spec::default() };
    let generator = Generator::in_utc(Timestamp::from_nanos(0), 1);
    let variables: Variables = variables.iter().copied().collect();
    let compiled = Compiled::new(&[spec], &[]).with_variables(&variables, &generator);
    compiled.judge(&shop(), &variables, &Options::new(generator)).passed()
}

#[test]
fn a_variable_in_a_selector_has_its_value() {
    let one = "attr:tracetest.selected_spans.count = 1";
    assert!(passes(r#"span[name="${var:NAME} check"]"#, one, &[("NAME", "fraud")]));
    assert!(passes(r#"span[name in ("x", "${var:NAME}")]"#, one, &[("NAME", "fraud check")]));
    assert!(passes(r#"span[]:has(> span[name="${var:NAME}"])"#, one, &[("NAME", "fraud check")]));
    assert!(passes(
        r#"span[name="fraud check"]"#,
        r#"count(span[service.name="${var:SERVICE}"]) = 4"#,
        &[("SERVICE", "payments")]
    ));
    assert!(!passes(r#"span[name="${var:NAME}"]"#, one, &[]));
}

#[test]
fn no_value_changes_what_a_selector_asks_for() {
    let none = "attr:tracetest.selected_spans.count = 0";
    assert!(passes(r#"span[name="${var:NAME}"]"#, none, &[("NAME", r#"x"], span[name="fraud check"#)]));
}

#[test]
fn the_variables_of_a_selector_are_known_before_it_is_used() {
    let used = |text: &str| variables_in_selector(&parse_selector(text));
    assert_eq!(
        used(r#"span[name="${var:A}-${var:B}" kind="${var:A}"]:not(span[x="${env:C}"])"#),
        ["A", "B", "C"]
    );
    assert!(used(r#"span[name="A"]"#).is_empty());
}
