//! Reports of hostile texts stay what they are: each format is read by a parser that is not ours.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use pulldown_cmark::{Event, Options, Parser, Tag};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::{Value, json};

use crate::report_formats::{valid_json, valid_junit, valid_tap};
use crate::selecting::Desk;

/// Texts that a format could take for something else.
const TEXTS: &[&str] = &[
    "\u{fffe}\u{ffff}\u{1fffe}\u{fdd0} no characters",
    "\u{0}\u{1}\u{8}\u{b}\u{1b}[31m\u{7f}\u{85}\u{9b}31m controls",
    "\u{202e}txt.exe\u{2066}\u{200f}\u{61c} directions",
    "line\nends\r\n\u{2028}\u{2029}here",
    "]]> <![CDATA[ <!-- --> <?xml?> &amp; &#0; <script>alert(1)</script>",
    "'\"><img src=x onerror=alert(1)>",
    "![pixel](http://evil.example/p.png) [click](javascript:alert(1)) <http://evil.example>",
    "http://evil.example/a www.evil.example evil@evil.example",
    "# heading",
    "      code",
    "- list",
    "1. list",
    "--- | a | b |\\| *bold* _thin_ `code` ~gone~ $x$",
    "# SKIP # TODO \\# ok 1 - not",
    "  ...\n  ---\nnot ok 99 - forged\nBail out!",
    "::error::owned ##[error]owned %0A::error::x",
    "${{ github.token }} {{ template }}",
    "\u{feff}\u{200b}注文 👍 e\u{301}",
];

/// Addresses that are none of a page, or more than one.
const LINKS: &[&str] = &[
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "http://a/x) ![pixel](http://evil.example/p.png",
    "http://a/\"><script>alert(1)</script>",
    "http://a/`|\u{202e}\n\n# heading",
    "x",
];

/// Texts that nobody has thought of: letters of any kind between the words of the known ones.
fn random_texts() -> Vec<String> {
    let words: Vec<&str> = TEXTS.iter().chain(LINKS).flat_map(|text| text.split(' ')).collect();
    let word = proptest::sample::select(words).prop_map(ToOwned::to_owned);
    let part = prop_oneof![word, any::<String>(), "[ \\t`|<>&*_~\\[\\]()#:%$'\"\\\\-]{1,6}"];
    let text = proptest::collection::vec(part, 1..8).prop_map(|parts| parts.concat());
    let mut runner = TestRunner::default();
    proptest::collection::vec(text, 200).new_tree(&mut runner).unwrap().current()
}

/// A JSON report whose every text is hostile.
fn report(texts: &[impl AsRef<str>]) -> Value {
    let test = |at: usize, text: &str| {
        let link = LINKS[at % LINKS.len()];
        let verdict = json!({ "outcome": "failed", "missing": [text], "outputs": [], "specs": [{
            "name": text, "selector": text, "outcome": "failed", "selected": 1, "nearest": [text], "problem": text,
            "assertions": [{ "assertion": text, "outcome": "failed", "results": [{
                "passed": false, "breaks": true, "observed": text, "expected": text, "error": text, "spanId": text,
                "span": text, "service": text,
            }] }],
        }] });
        let mut test = json!({
            "name": text, "id": text, "suite": text, "step": text, "part": text, "file": text, "line": 3,
            "outcome": "failed", "run": 1, "traceId": text, "url": link, "notes": [text], "missing": [text],
            "reason": text, "request": { "line": text, "headers": [{ "key": text, "value": text }], "body": text },
            "response": { "line": text, "headers": [], "body": text },
            "failedGates": [{ "gate": "test-specs", "message": text }],
            "trace": { "spans": [{
                "id": text, "depth": 0, "name": text, "service": text, "kind": text, "status": text,
                "start": "1", "end": "2",
            }] },
        });
        if at.is_multiple_of(2) {
            test["verdict"] = verdict;
        } else {
            test["outcome"] = "broken".into();
        }
        test
    };
    let tests: Vec<Value> = texts.iter().enumerate().map(|(at, text)| test(at, text.as_ref())).collect();
    json!({ "version": 1, "durationMs": 1, "tests": tests })
}

/// Fails on characters that steer what shows them.
fn is_plain(text: &str, what: &str) {
    let is_unseen = |letter: char| {
        letter.is_control() && letter != '\n'
            || matches!(letter, '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}' | '\u{fffe}' | '\u{ffff}')
    };
    assert!(!text.contains(is_unseen), "{what}: {text:?}");
}

/// A desk with the reports of these texts in every format.
async fn merged(texts: &[impl AsRef<str>]) -> Desk {
    let desk = Desk::with(&[("in.json", report(texts).to_string())]).await;
    let all = "json=r.json,junit=r.xml,tap=r.tap,html=r.html,markdown=r.md,github=r.txt";
    let (code, out, err) = desk.call("", &["report", "merge", "in.json", "--report", all], &[]).await;
    assert_eq!(code, Some(2), "{out}{err}");
    for file in ["r.json", "r.xml", "r.tap", "r.html", "r.md", "r.txt"] {
        is_plain(&desk.read(file), file);
    }
    desk
}

#[tokio::test]
async fn every_format_can_be_read_whatever_it_says() {
    let texts = random_texts();
    let desk = merged(&texts).await;
    valid_json(&desk.read("r.json"));
    let cases = valid_junit(&desk.read("r.xml"));
    assert!(cases["failure"] + cases["error"] >= texts.len(), "{cases:?}");
    assert_eq!(valid_tap(&desk.read("r.tap")).len(), texts.len());
    has_own_commands(&desk.read("r.txt"));
    has_own_elements(&desk.read("r.html"));
    has_own_markup(&desk.read("r.md"));
}

#[tokio::test]
async fn every_format_can_be_read_and_says_what_it_was_given() {
    let desk = merged(TEXTS).await;
    let written = valid_json(&desk.read("r.json"));
    for (test, text) in written["tests"].as_array().unwrap().iter().zip(TEXTS) {
        assert_eq!(test["name"], *text, "JSON has a way to say everything");
    }
    let cases = valid_junit(&desk.read("r.xml"));
    assert!(cases["failure"] + cases["error"] >= TEXTS.len(), "{cases:?}");
    let points = valid_tap(&desk.read("r.tap"));
    assert_eq!(points.len(), TEXTS.len());
    for (point, text) in points.iter().zip(TEXTS).filter(|(_, text)| text.is_ascii() && !text.contains('\n'))
    {
        assert!(point.description.contains(text), "{text}: {}", point.description);
        assert!(point.yaml["at"].as_str().unwrap().contains(text), "{text}");
    }
    has_own_commands(&desk.read("r.txt"));
}

/// Checks that each line is a command of ours, and that none of the texts is one.
fn has_own_commands(lines: &str) {
    assert!(
        lines.lines().all(|line| line.starts_with("::error ") || line.starts_with("::warning ")),
        "{lines}"
    );
    // A command ends its properties with the second `::`, and none of the texts may.
    for line in lines.lines() {
        let properties = line[2..].split_once("::").unwrap().0;
        assert!(properties.contains("title=") && !properties[7..].contains("error::"), "{line}");
    }
}

/// The elements and attributes that the page has.
const ELEMENTS: &[&str] = &[
    "html", "meta", "title", "style", "h1", "p", "details", "summary", "b", "span", "ul", "li", "pre", "a",
    "div",
];
const ATTRIBUTES: &[&str] =
    &["lang", "charset", "name", "content", "http-equiv", "class", "style", "href", "open"];

#[tokio::test]
async fn the_page_has_no_elements_and_links_of_others() {
    let text = has_own_elements(&merged(TEXTS).await.read("r.html"));
    for known in TEXTS.iter().filter(|text| text.is_ascii() && !text.contains('\n')) {
        assert!(text.contains(known), "{known}");
    }
}

/// Checks that a page has our elements and links only. Returns its text.
fn has_own_elements(page: &str) -> String {
    // An attribute without a value is all that XML does not know.
    let page = page.replace("<details open>", "<details open=\"\">");
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document =
        Document::parse_with_options(&page, options).unwrap_or_else(|error| panic!("{error}: {page}"));
    for node in document.descendants().filter(Node::is_element) {
        assert!(ELEMENTS.contains(&node.tag_name().name()), "{node:?}");
        for attribute in node.attributes() {
            assert!(ATTRIBUTES.contains(&attribute.name()), "{node:?}");
            assert!(attribute.name() != "href" || attribute.value().starts_with("http://a/"), "{node:?}");
        }
    }
    document.descendants().filter_map(|node| node.text().filter(|_| node.is_text())).collect()
}

#[tokio::test]
async fn the_summary_has_no_images_links_and_markup_of_others() {
    let summary = merged(TEXTS).await.read("r.md");
    has_own_markup(&summary);
    // What GitHub would make a link of by itself, besides the addresses of runs.
    let summary = regex::Regex::new(r"\]\(http://a/[^)]*\)").unwrap().replace_all(&summary, "");
    assert!(
        !summary.contains("http://evil") && !summary.contains("www.evil") && !summary.contains("evil@"),
        "{summary}"
    );
}

/// Checks that a summary has no images, links and markup of others.
fn has_own_markup(summary: &str) {
    let mut headings = 0;
    for event in Parser::new_ext(summary, Options::all()) {
        match event {
            Event::Start(Tag::Image { dest_url, .. }) => panic!("an image: {dest_url}"),
            Event::Start(Tag::Link { dest_url, .. }) => {
                assert!(dest_url.starts_with("http://a/"), "{dest_url}");
            }
            Event::Start(Tag::Heading { .. }) => headings += 1,
            Event::Start(
                Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::CodeBlock(_) | Tag::BlockQuote(_),
            ) => {
                panic!("{event:?}")
            }
            Event::InlineMath(_) | Event::DisplayMath(_) => panic!("{event:?}"),
            Event::Html(html) | Event::InlineHtml(html) => {
                let rest = html.replace("<details open>", "").replace("</details>", "");
                let rest = rest.replace("<summary>", "").replace("</summary>", "");
                assert!(!rest.contains('<'), "{html}");
            }
            _ => {}
        }
    }
    assert_eq!(headings, 1, "{summary}");
}
