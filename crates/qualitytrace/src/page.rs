//! The page for browsers, as the server takes it.

use std::sync::LazyLock;

use qualitytrace_server::http::web::{File, Page};

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let file = |file: &qualitytrace_page::File| {
        let qualitytrace_page::File { path, kind, etag, immutable, plain, gzip, brotli } = *file;
        File { path, kind, etag, immutable, plain, gzip, brotli }
    };
    qualitytrace_page::FILES.iter().map(file).collect()
});

/// The page that is built into this program.
pub(crate) fn embedded() -> Page {
    Page { files: &FILES, absent: qualitytrace_page::ABSENT }
}
