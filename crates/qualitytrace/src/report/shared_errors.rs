//! Errors that the assertions of a spec have in common: nothing is selected, or the answer has no body to read.

use qualitytrace_server::wire::verdict::{SpanResult, Spec};

use super::exchange::Message;
use super::{Exchange, visible};

/// What the error of an assertion on an empty selection says.
const NOTHING_SELECTED: &str = "there are no matching spans";
/// What the error of an assertion on a text that is no JSON says.
const INVALID_JSON: &str = "invalid JSON";
/// The end of the name of the attribute with the body of an answer.
const BODY: &str = ".response.body";

/// The errors of a spec that its assertions have in common: each is shown once.
pub(super) struct SharedErrors {
    /// What is said of an answer without a body.
    without_body: Option<String>,
    shown: Vec<String>,
}

impl SharedErrors {
    pub(super) fn of(spec: &Spec, exchange: &Exchange) -> Self {
        let without_body = exchange.response.as_ref().and_then(Message::without_body);
        // That nothing is selected is the problem of the spec already.
        let shown = spec.problem.iter().filter(|_| spec.selected == 0).map(|_| NOTHING_SELECTED.to_owned());
        Self { without_body: without_body.as_deref().map(visible::text), shown: shown.collect() }
    }

    /// Returns the result as it is shown; `None` if its error was shown already.
    pub(super) fn once(&mut self, assertion: &str, result: &SpanResult) -> Option<SpanResult> {
        let mut result = result.clone();
        let Some(error) = result.error.as_mut() else { return Some(result) };
        if error.contains(INVALID_JSON)
            && assertion.contains(BODY)
            && let Some(why) = &self.without_body
        {
            error.clone_from(why);
        }
        let shared = [NOTHING_SELECTED, INVALID_JSON].into_iter().find(|part| error.contains(part));
        let key =
            shared.map(ToOwned::to_owned).or_else(|| self.without_body.clone().filter(|why| why == error));
        match key {
            Some(key) if self.shown.contains(&key) => None,
            key => {
                self.shown.extend(key);
                Some(result)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use qualitytrace_server::wire::Outcome;

    use super::*;

    /// What is shown of each of these assertions and errors.
    fn shown(problem: Option<&str>, line: &str, body: &str, errors: &[(&str, &str)]) -> Vec<Option<String>> {
        let spec = Spec {
            name: String::new(),
            selector: String::new(),
            outcome: Outcome::Failed,
            selected: 0,
            longest: None,
            problem: problem.map(ToOwned::to_owned),
            nearest: Vec::new(),
            advice: None,
            assertions: Vec::new(),
        };
        let response = Message { line: line.to_owned(), body: body.to_owned(), ..Message::default() };
        let exchange = Exchange { response: Some(response), ..Exchange::default() };
        let mut shared = SharedErrors::of(&spec, &exchange);
        let result = |error: &str| SpanResult {
            span_id: None,
            span: String::new(),
            service: String::new(),
            passed: false,
            breaks: true,
            observed: String::new(),
            expected: String::new(),
            error: Some(error.to_owned()),
            alias: None,
        };
        let once = |(assertion, error): &(&str, &str)| shared.once(assertion, &result(error))?.error;
        errors.iter().map(once).collect()
    }

    const ID: &str = "attr:tracetest.response.body | json_path '$.id' = 1";
    const JSON: &str = "json_path: invalid JSON: it is empty";

    #[test]
    fn an_answer_without_a_body_is_told_once() {
        let told =
            shown(None, "13 INTERNAL no stock", "", &[(ID, JSON), (ID, JSON), ("attr:a = 1", "no match")]);
        let why = "no body: the answer was 13 INTERNAL no stock".to_owned();
        assert_eq!(told, [Some(why), None, Some("no match".to_owned())]);
    }

    #[test]
    fn a_body_that_is_no_json_is_told_once() {
        let told = shown(None, "500", "<html>", &[(ID, JSON), (ID, JSON)]);
        assert_eq!(told, [Some(JSON.to_owned()), None]);
    }

    #[test]
    fn an_empty_selection_is_told_by_its_spec_or_once() {
        let errors = [
            ("attr:a = 1", "there are no matching spans to read \"a\""),
            ("attr:b = 1", "there are no matching spans"),
        ];
        assert_eq!(shown(Some("the selector matches no span"), "200", "", &errors), [None, None]);
        assert_eq!(shown(None, "200", "", &errors), [Some(errors[0].1.to_owned()), None]);
    }
}
