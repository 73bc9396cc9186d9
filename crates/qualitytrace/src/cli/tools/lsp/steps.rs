//! Where the test of a suite's step is defined.

use std::ops::Range;
use std::path::PathBuf;

use qualitytrace_core::definition::{self, Resource, TestSuite};

use crate::cli::files::{self, File, references};

/// Files that are searched for the id of a step.
const MAX_FILES: usize = 500;

/// The file of the step at a byte, and the bytes of its test in that file.
pub(super) fn definition_of(file: &File, at: usize) -> Option<(PathBuf, Range<usize>)> {
    let suites = file.reading.documents.iter().filter_map(|document| match &document.resource {
        Resource::TestSuite(suite) => Some(suite),
        _ => None,
    });
    let step = suites.flat_map(TestSuite::all_steps).find(|step| {
        let place = step.test.origin.as_ref().map(|origin| file.original_range(&origin.span));
        place.is_some_and(|place| (place.start..=place.end).contains(&at))
    })?;
    if let Some(path) = references::step_path(&file.path, step) {
        return path.is_file().then_some((path, 0..0));
    }
    let folder = file.path.parent()?.to_owned();
    let candidates = files::find_quietly(&[folder]).into_iter().take(MAX_FILES);
    candidates.into_iter().find_map(|path| {
        let other = File::read(&path).ok()?;
        let document = other.reading.documents.iter().find(|document| {
            matches!(document.resource, Resource::Test(_))
                && document.resource.id() == Some(step.test.value.as_str())
        })?;
        let place = definition::id_place(&other.source, other.format, &document.span);
        Some((path, place))
    })
}
