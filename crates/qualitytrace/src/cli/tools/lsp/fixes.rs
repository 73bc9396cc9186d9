//! Quick fixes: what a diagnostic suggests, and the nearest miss of a selector that selects nothing.

use std::ops::Range;

use qualitytrace_core::assist::definition::escaped;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{Resource, Text};
use qualitytrace_core::judge::nearest_misses;
use qualitytrace_core::lang::{Diagnostic, parse_selector, select};
use qualitytrace_core::trace::Trace;

use crate::cli::files::File;

/// A change that mends something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fix {
    pub(super) title: String,
    /// The code of the diagnostic that it mends; `None` when there is none.
    pub(super) code: Option<&'static str>,
    pub(super) bytes: Range<usize>,
    pub(super) new: String,
}

/// The fixes of diagnostics that touch these bytes.
pub(super) fn of_diagnostics(text: &str, diagnostics: &[Diagnostic], bytes: &Range<usize>) -> Vec<Fix> {
    let touched =
        diagnostics.iter().filter(|found| found.span.start <= bytes.end && bytes.start <= found.span.end);
    touched.filter_map(|found| fix(text, found)).collect()
}

fn fix(text: &str, found: &Diagnostic) -> Option<Fix> {
    let help = found.help.as_deref()?;
    let written = text.get(found.span.clone())?;
    let new = help.strip_prefix("did you mean `")?.strip_suffix("`?")?;
    // The message names the word that is wrong; the place may hold more than that.
    let wrong = found
        .message
        .split('`')
        .skip(1)
        .step_by(2)
        .find(|word| !word.is_empty() && written.contains(word))
        .unwrap_or_else(|| written.trim());
    let at = found.span.start + written.find(wrong)?;
    let new = if wrong.starts_with(':') { new } else { new.trim_start_matches(':') };
    Some(Fix {
        title: format!("Write `{new}`"),
        code: Some(found.code),
        bytes: at..at + wrong.len(),
        new: new.to_owned(),
    })
}

/// For each selector in these bytes that selects nothing in the trace: one that selects the nearest span.
pub(super) fn of_nearest(file: &File, text: &str, bytes: &Range<usize>, trace: &Trace) -> Vec<Fix> {
    let mut fixes = Vec::new();
    for document in &file.reading.documents {
        let Resource::Test(test) = &document.resource else { continue };
        let specs = test.specs.iter().map(|spec| &spec.selector);
        for selector in specs.chain(test.outputs.iter().map(|output| &output.selector)) {
            fixes.extend(nearest(file, text, selector, bytes, trace));
        }
    }
    fixes
}

fn nearest(file: &File, text: &str, selector: &Text, bytes: &Range<usize>, trace: &Trace) -> Option<Fix> {
    let place = file.original_range(&selector.origin.as_ref()?.span);
    if place.start > bytes.end || bytes.start > place.end || selector.is_empty() {
        return None;
    }
    let parsed = parse_selector(&selector.value);
    let selected = select(&parsed.tree, trace, &Budget::default()).ok()?;
    if !parsed.is_valid() || !selected.is_empty() {
        return None;
    }
    let miss = nearest_misses(&parsed.tree, trace, 1, true, &Budget::default()).into_iter().next()?;
    let suggestion = miss.suggestion?;
    let written = text.get(place.clone())?;
    // A text in several lines is not replaced.
    if written.contains('\n') {
        return None;
    }
    let quote = written.chars().next().filter(|c| matches!(c, '"' | '\''));
    let is_plain = !suggestion.contains(": ") && !suggestion.contains(" #");
    let new = match quote {
        Some(quote) => format!("{quote}{}{quote}", escaped(&suggestion, Some(quote))),
        None if is_plain => suggestion.clone(),
        None => format!("'{}'", escaped(&suggestion, Some('\''))),
    };
    let title = format!("Select `{}`, the nearest span of the latest traces", miss.name);
    Some(Fix { title, code: None, bytes: place, new })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn fixed(text: &str) -> Vec<String> {
        let file = File::parse(Path::new("a.yaml"), text.to_owned());
        let fixes = of_diagnostics(text, &file.placed(), &(0..text.len()));
        let apply = |fix: &Fix| {
            let mut text = text.to_owned();
            text.replace_range(fix.bytes.clone(), &fix.new);
            text
        };
        fixes.iter().map(apply).collect()
    }

    #[test]
    fn a_suggestion_replaces_the_word_that_is_wrong() {
        assert_eq!(fixed("type: Tets\nspec: {name: a}\n"), ["type: Test\nspec: {name: a}\n"]);
        let test = |rest: &str| format!("type: Test\nspec:\n  name: a\n  {rest}\n");
        assert_eq!(fixed(&test("triger: {}")), [test("trigger: {}")]);
        assert_eq!(
            fixed(&test("specs: [{selector: 'span[kind = \"sever\"]', assertions: []}]")),
            [test("specs: [{selector: 'span[kind = \"server\"]', assertions: []}]")]
        );
        assert_eq!(
            fixed(&test("specs: [{selector: 'span[]', assertions: ['attr:x | json_pth ''$'' = 1']}]")),
            [test("specs: [{selector: 'span[]', assertions: ['attr:x | json_path ''$'' = 1']}]")]
        );
        assert_eq!(fixed(&test("specs: []")), Vec::<String>::new());
    }
}
