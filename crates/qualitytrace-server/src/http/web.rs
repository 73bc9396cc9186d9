//! The page for browsers: which requests it answers, with which headers.
//!
//! It is outside of the access check because its files contain no data: what they show comes from the API, with the
//! token of the session.

use axum::body::Body;
use axum::extract::{OriginalUri, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH, LINK, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

/// The files of the page that a program embeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// All files, sorted by path.
    pub files: &'static [File],
    /// Why there is none; `None` if there is one.
    pub absent: Option<&'static str>,
}

/// A file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its path below the page's address.
    pub path: &'static str,
    /// Its content type.
    pub kind: &'static str,
    /// A weak entity tag, the same for every encoding.
    pub etag: &'static str,
    /// Whether its name contains a hash of its content, so that it never changes.
    pub immutable: bool,
    /// Its bytes.
    pub plain: &'static [u8],
    /// The same compressed by gzip, where that is smaller.
    pub gzip: Option<&'static [u8]>,
    /// The same compressed by Brotli, where that is smaller.
    pub brotli: Option<&'static [u8]>,
}

impl Page {
    /// A program without a page.
    pub const NONE: Self = Self { files: &[], absent: Some("the program that serves this API embeds none") };

    fn file(self, path: &str) -> Option<&'static File> {
        let index = self.files.binary_search_by(|file| file.path.cmp(path)).ok()?;
        self.files.get(index)
    }
}

/// The document of every screen.
const INDEX: &str = "index.html";
/// What is replaced in it: the address that its links are relative to, and the nonce of its style sheets.
const BASE: &str = "{base}";
const NONCE: &str = "{nonce}";
/// First parts of paths that belong to programs. A browser that asks for them gets what a program gets.
const PROGRAMS: [&str; 7] = ["api", "v1", "ws", "metrics", "healthz", "readyz", "assets"];
/// First parts of paths that the page has screens for. Others get its "nothing here".
const SCREENS: [&str; 14] = [
    "",
    "tests",
    "test",
    "testsuites",
    "testsuite",
    "variablesets",
    "settings",
    "runs",
    "traces",
    "trace",
    "compare",
    "status",
    "login",
    "start",
];

/// Answers requests for the page and passes on all others.
pub(crate) async fn serve_page(State(page): State<Page>, request: Request, next: Next) -> Response {
    let original = request.extensions().get::<OriginalUri>().map(|uri| uri.0.clone());
    let asked = original.as_ref().unwrap_or_else(|| request.uri());
    match page.answer(request.method(), request.uri(), asked, request.headers()) {
        Some(response) => response,
        None => next.run(request).await,
    }
}

impl Page {
    /// The response to a request for the page; `asked` is its address with the prefix that the server is served under.
    fn answer(self, method: &Method, uri: &Uri, asked: &Uri, headers: &HeaderMap) -> Option<Response> {
        let is_read = method == Method::GET || method == Method::HEAD;
        let index = self.file(INDEX).filter(|_| is_read)?;
        let path = uri.path().trim_start_matches('/');
        let mut response = match self.file(path).filter(|file| file.path != INDEX) {
            Some(file) => file_response(file, headers),
            None => {
                let first = path.split('/').next().unwrap_or_default();
                if PROGRAMS.contains(&first) || first.starts_with("opentelemetry.") || !wants_html(headers) {
                    return None;
                }
                let status = if SCREENS.contains(&first) { StatusCode::OK } else { StatusCode::NOT_FOUND };
                let base = base(asked.path(), uri.path());
                let mut response = document(index, status, &base);
                if let Some(needed) = columns_of(path)
                    && let Ok(link) = format!("<{base}{needed}>; rel=preload; as=fetch; crossorigin").parse()
                {
                    response.headers_mut().insert(LINK, link);
                }
                response
            }
        };
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        let same_origin = HeaderValue::from_static("same-origin");
        headers.insert(HeaderName::from_static("cross-origin-opener-policy"), same_origin.clone());
        headers.insert(HeaderName::from_static("cross-origin-resource-policy"), same_origin);
        if method == Method::HEAD {
            *response.body_mut() = Body::empty();
        }
        Some(response)
    }
}

/// A browser that opens an address names HTML; programs and `curl` do not.
fn wants_html(headers: &HeaderMap) -> bool {
    let kinds = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    kinds.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/html"))
}

/// A file with a name of its own, in the best encoding that the client reads.
fn file_response(file: &'static File, headers: &HeaderMap) -> Response {
    let cached = if file.immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    let common = [(CACHE_CONTROL, cached), (ETAG, file.etag), (VARY, "accept-encoding")];
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    if known.flat_map(|tags| tags.split(',')).any(|tag| tag.trim() == file.etag) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    let (encoding, bytes) = match (file.brotli, file.gzip) {
        (Some(brotli), _) if reads(headers, "br") => (Some("br"), brotli),
        (_, Some(gzip)) if reads(headers, "gzip") => (Some("gzip"), gzip),
        _ => (None, file.plain),
    };
    let mut response = (common, [(CONTENT_TYPE, file.kind)], bytes).into_response();
    response.headers_mut().insert(CONTENT_LENGTH, bytes.len().into());
    if let Some(encoding) = encoding {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

/// Whether the client reads a content encoding.
fn reads(headers: &HeaderMap, encoding: &str) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|one| {
        let (name, quality) = one.split_once(';').unwrap_or((one, ""));
        let is_refused = quality.trim().strip_prefix("q=").is_some_and(|q| q.trim().parse() == Ok(0.0_f32));
        name.trim().eq_ignore_ascii_case(encoding) && !is_refused
    })
}

/// The document. It is never cached: a nonce is used once.
fn document(index: &File, status: StatusCode, base: &str) -> Response {
    let nonce = format!("{:032x}", rand::random::<u128>());
    let text = String::from_utf8_lossy(index.plain).replace(BASE, base).replace(NONCE, &nonce);
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; \
         font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'self'; \
         form-action 'none'; frame-ancestors 'none'"
    );
    let length = text.len().to_string();
    let headers = [
        (CONTENT_TYPE, index.kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, policy.as_str()),
        (CONTENT_LENGTH, length.as_str()),
    ];
    (status, headers, text).into_response()
}

/// The address of the page's root, relative to the address that was asked for: so it is right below a prefix, and
/// behind a proxy that removes one.
fn base(asked: &str, path: &str) -> String {
    let depth = path.matches('/').count().saturating_sub(1);
    // The prefix itself, without a slash at its end, is a file to a browser.
    if path == "/" && !asked.ends_with('/') {
        let last = asked.rsplit('/').next().unwrap_or_default();
        return format!("./{last}/");
    }
    if depth == 0 { "./".to_owned() } else { "../".repeat(depth) }
}

/// The path of the columns that a screen with a trace shows first: a browser that is told asks for them while it reads
/// the scripts. `None` for other screens, and for names that a browser and the page may write in different ways.
fn columns_of(path: &str) -> Option<String> {
    let is_plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    match path.split('/').collect::<Vec<_>>()[..] {
        ["trace", id] if is_plain(id) => Some(format!("api/traces/{id}/columns")),
        ["test", id, "run", run] | ["test", id, "run", run, "trace" | "test"]
            if is_plain(id) && is_plain(run) =>
        {
            Some(format!("api/tests/{id}/run/{run}/trace/columns"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screens_with_a_trace_need_its_columns_first() {
        for (path, expected) in [
            ("trace/5b8a", Some("api/traces/5b8a/columns")),
            ("test/a-b/run/7", Some("api/tests/a-b/run/7/trace/columns")),
            ("test/a/run/7/trace", Some("api/tests/a/run/7/trace/columns")),
            ("test/a/run/7/test", Some("api/tests/a/run/7/trace/columns")),
            ("test/a/run/7/events", None),
            ("test/a%20b/run/7/trace", None),
            ("trace/", None),
            ("trace/a>;rel=x", None),
            ("tests", None),
        ] {
            assert_eq!(columns_of(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn the_base_leads_from_every_address_to_the_root_of_the_page() {
        for (asked, path, expected) in [
            ("/", "/", "./"),
            ("/tests", "/tests", "./"),
            ("/test/a/run/1/trace", "/test/a/run/1/trace", "../../../../"),
            ("/below", "/", "./below/"),
            ("/below/", "/", "./"),
            ("/a/below/tests/", "/tests/", "../"),
        ] {
            assert_eq!(base(asked, path), expected, "{asked}");
        }
    }

    #[test]
    fn encodings_are_taken_unless_they_are_refused() {
        let headers =
            |value: &'static str| HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
        assert!(reads(&headers("gzip, deflate, br, zstd"), "br"));
        assert!(reads(&headers("gzip;q=0.5"), "gzip"));
        assert!(!reads(&headers("br;q=0, gzip"), "br"));
        assert!(!reads(&HeaderMap::new(), "gzip"));
    }
}
