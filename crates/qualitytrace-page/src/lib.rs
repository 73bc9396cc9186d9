//! The files of the page for browsers, as built from `page/` by the build script.
//!
//! A build without Node has none; [`ABSENT`] says why. This crate knows no server: it is a table of bytes.

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// Its path below the page's address, for example `assets/index-1a2b.js`.
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

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Returns a file by its path.
pub fn file(path: &str) -> Option<&'static File> {
    FILES.binary_search_by(|file| file.path.cmp(path)).ok().map(|index| &FILES[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_or_says_why_it_is_not_there() {
        assert_eq!(ABSENT.is_none(), file("index.html").is_some());
        assert_eq!(ABSENT.is_some(), FILES.is_empty());
        if let Some(reason) = ABSENT {
            assert!(reason.contains("QUALITYTRACE_PAGE") || reason.contains("Node"), "{reason}");
        }
    }

    #[test]
    fn every_file_is_found_by_its_path_and_only_hashed_names_never_change() {
        for known in FILES {
            assert_eq!(file(known.path).map(|file| file.etag), Some(known.etag));
            assert_eq!(known.immutable, known.path.starts_with("assets/"), "{}", known.path);
            let smaller = |form: Option<&[u8]>| form.is_none_or(|form| form.len() < known.plain.len());
            assert!(smaller(known.gzip) && smaller(known.brotli), "{}", known.path);
        }
        assert!(file("assets/no-such-file.js").is_none());
    }
}
