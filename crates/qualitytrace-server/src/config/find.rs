//! The search for a configuration file when none is named.

use std::path::{Path, PathBuf};

use qualitytrace_config::{File, Report};

use crate::files::read_text_or_pipe;

/// Stems of the names of configuration files, by precedence.
const STEMS: [&str; 3] = ["qualitytrace", "quality-trace", "tracetest"];
const EXTENSIONS: [&str; 4] = ["yaml", "yml", "toml", "json"];

/// The rank of a name with another suffix than `config`.
const ANY_NAME: usize = 2;

/// Returns the folders to search, in order: the machine's, the user's, the current one.
pub(super) fn folders(home: Option<&Path>) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/etc/qualitytrace"), PathBuf::from("/etc/tracetest")];
    folders.extend([".qualitytrace", ".tracetest"].iter().filter_map(|name| Some(home?.join(name))));
    folders.push(PathBuf::new());
    folders
}

/// Returns the project file of a folder: `qualitytrace.yaml` (or `.yml`, `.toml`, `.json`) in it or in the nearest
/// folder above it, as a path from that folder. Above it, a file of another user is left alone: what it says would be
/// carried out in the name of this one.
pub fn project_file(folder: &Path) -> Option<PathBuf> {
    let start = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let absolute = std::path::absolute(start).ok()?;
    let mut way = folder.to_path_buf();
    for (above, parent) in absolute.ancestors().enumerate() {
        let mut names = EXTENSIONS.iter().map(|extension| format!("{}.{extension}", STEMS[0]));
        let is_project = |path: &Path| path.is_file() && is_configuration(path);
        if let Some(name) = names.find(|name| is_project(&parent.join(name)))
            && (above == 0 || is_trusted(&parent.join(&name), start))
        {
            return Some(way.join(name));
        }
        way.push("..");
    }
    None
}

/// Whether a file belongs to this user, to the administrator, or to the owner of the folder that is worked in (the
/// administrator may work in the folder of another user).
#[cfg(unix)]
fn is_trusted(path: &Path, folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    let folder_owner = folder.metadata().ok().map(|folder| folder.uid());
    let is_trusted = |owner| owner == 0 || owner == own || Some(owner) == folder_owner;
    path.metadata().is_ok_and(|file| is_trusted(file.uid()))
}

#[cfg(not(unix))]
fn is_trusted(_: &Path, _: &Path) -> bool {
    true
}

/// The file that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) file: PathBuf,
    /// Other configuration files in the same folder.
    pub(super) passed_over: Vec<PathBuf>,
}

/// Returns the first configuration file in these folders.
pub(super) fn find(folders: &[PathBuf]) -> Option<Found> {
    folders.iter().find_map(|folder| in_folder(folder))
}

fn in_folder(folder: &Path) -> Option<Found> {
    let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let names = std::fs::read_dir(shown).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut candidates: Vec<_> = names.filter_map(|name| Some((rank(&name)?, name))).collect();
    candidates.sort();
    let candidates = candidates.into_iter().map(|((kind, ..), name)| (kind, folder.join(name)));
    let mut files = candidates.filter(|(_, path)| is_configuration(path));
    let (_, file) = files.next()?;
    // A file with another suffix may belong to something else: it is not reported.
    let passed_over = files.filter(|(kind, _)| *kind < ANY_NAME).map(|(_, path)| path).collect();
    Some(Found { file, passed_over })
}

/// Ranks a file name by kind, stem and extension; the lowest is best. `None` if it is not a name for a configuration.
fn rank(name: &str) -> Option<(usize, usize, usize)> {
    let (stem, extension) = name.rsplit_once('.')?;
    let extension = EXTENSIONS.iter().position(|known| *known == extension)?;
    let product = STEMS.iter().position(|known| stem.starts_with(known))?;
    let rest = &stem[STEMS[product].len()..];
    let kind = match rest {
        "" => 0,
        ".config" | "-config" | "_config" => 1,
        rest if rest.starts_with(['.', '-', '_']) && !rest.contains("provision") => ANY_NAME,
        _ => return None,
    };
    Some((kind, product, extension))
}

/// Whether a file is a configuration: definitions have similar names, but they have `type` and `spec`.
fn is_configuration(path: &Path) -> bool {
    let Ok(text) = read_text_or_pipe(path) else {
        // A file that cannot be read is reported by the reader.
        return path.is_file();
    };
    let leaves = File::new(path.display().to_string(), text).leaves(&mut Report::default());
    let has = |wanted: &str| {
        let is_below = |key: &str| key.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'));
        leaves.iter().any(|leaf| leaf.key == wanted || is_below(&leaf.key))
    };
    !(has("type") && has("spec"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_project_file_above_a_folder_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(project_file(&deep), None);
        write("qualitytrace.toml", "");
        assert_eq!(project_file(&deep), Some(deep.join("../../qualitytrace.toml")));
        write("a/qualitytrace.yaml", "type: Test\nspec: {}\n");
        assert_eq!(
            project_file(&deep),
            Some(deep.join("../../qualitytrace.toml")),
            "a test is no project file"
        );
        write("a/qualitytrace.yml", "run: {}\n");
        assert_eq!(project_file(&deep), Some(deep.join("../qualitytrace.yml")));
        assert_eq!(project_file(folder.path()), Some(folder.path().join("qualitytrace.toml")));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_somebody_left_above_is_left_alone() {
        use std::os::unix::fs::chown;
        if !rustix::process::geteuid().is_root() {
            return; // Only the administrator can make the files of others.
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, deep) = (folder.path().join("qualitytrace.yaml"), folder.path().join("a"));
        std::fs::create_dir(&deep).unwrap();
        std::fs::write(&file, "run: {}\n").unwrap();
        assert!(project_file(&deep).is_some());
        chown(&file, Some(4321), None).unwrap();
        assert_eq!(project_file(&deep), None, "a stranger's file above the administrator's folder");
        chown(&deep, Some(4321), None).unwrap();
        assert!(project_file(&deep).is_some(), "the administrator works in this user's folder");
    }

    /// Returns the file that is chosen among these, each with its text.
    fn chosen(files: &[(&str, &str)]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let found = find(&[folder.path().join("missing"), folder.path().to_owned()])?;
        Some(found.file.file_name()?.to_str()?.to_owned())
    }

    #[test]
    fn the_plainest_name_wins() {
        let check = |files: &[&str], expected: Option<&str>| {
            let files: Vec<_> = files.iter().map(|name| (*name, "")).collect();
            assert_eq!(chosen(&files).as_deref(), expected, "{files:?}");
        };
        check(&["tracetest.yaml", "qualitytrace.toml"], Some("qualitytrace.toml"));
        check(&["tracetest.config.nats.yaml", "tracetest.config.yaml"], Some("tracetest.config.yaml"));
        check(&["quality-trace-config.yaml", "tracetest-config.yaml"], Some("quality-trace-config.yaml"));
        check(&["tracetest.json"], Some("tracetest.json"));
        check(&["qualitytrace-prod.yml"], Some("qualitytrace-prod.yml"));
        check(&["tracetest", "tracetest.provision.yaml", "qualitytracer.yaml", "config.yaml"], None);
    }

    #[test]
    fn a_definition_is_no_configuration() {
        let test = "type: Test\nspec:\n  name: x\n";
        assert_eq!(chosen(&[("qualitytrace-test.yaml", test)]), None);
    }
}
