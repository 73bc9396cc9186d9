//! The search for a configuration file when none is named.

use std::path::{Path, PathBuf};

use qualitytrace_config::{File, Report};

use super::owner::TrustedOwners;
use crate::base::files::read_text_or_pipe;

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

/// The project file of a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FoundProject {
    /// The file that counts.
    pub file: Option<PathBuf>,
    /// Files that are nearer and belong to another user: they do not count.
    pub foreign: Vec<PathBuf>,
}

/// Finds the project file of a folder: `qualitytrace.yaml` (or `.yml`, `.toml`, `.json`) in it or in the nearest folder
/// above it, as a path from that folder. A file of another user is left alone: what it says would be carried out in the
/// name of this one.
pub fn project_file(folder: &Path, owners: &TrustedOwners) -> FoundProject {
    let start = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut found = FoundProject::default();
    let Ok(absolute) = std::path::absolute(start) else { return found };
    let mut way = folder.to_path_buf();
    for parent in absolute.ancestors() {
        let mut names = EXTENSIONS.iter().map(|extension| format!("{}.{extension}", STEMS[0]));
        let is_project = |path: &Path| path.is_file() && is_configuration(path);
        if let Some(name) = names.find(|name| is_project(&parent.join(name))) {
            if owners.trust(&parent.join(&name)) {
                found.file = Some(way.join(name));
                return found;
            }
            found.foreign.push(way.join(name));
        }
        way.push("..");
    }
    found
}

/// The file that was found.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) file: PathBuf,
    /// Other configuration files in the same folder.
    pub(super) passed_over: Vec<PathBuf>,
}

/// Returns the first configuration file in these folders. Those of the current folder that belong to another user do not
/// count.
pub(super) fn find(folders: &[PathBuf], owners: &TrustedOwners) -> Option<ConfigFile> {
    folders.iter().find_map(|folder| in_folder(folder, owners))
}

fn in_folder(folder: &Path, owners: &TrustedOwners) -> Option<ConfigFile> {
    let is_current = folder.as_os_str().is_empty();
    let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let names = std::fs::read_dir(shown).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut candidates: Vec<_> = names.filter_map(|name| Some((rank(&name)?, name))).collect();
    candidates.sort();
    let candidates = candidates.into_iter().map(|((kind, ..), name)| (kind, folder.join(name)));
    let is_obeyed = |path: &Path| !is_current || owners.trust(path);
    let mut files = candidates.filter(|(_, path)| is_configuration(path) && is_obeyed(path));
    let (_, file) = files.next()?;
    // A file with another suffix may belong to something else: it is not reported.
    let passed_over = files.filter(|(kind, _)| *kind < ANY_NAME).map(|(_, path)| path).collect();
    Some(ConfigFile { file, passed_over })
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
    use crate::config::SAFE_DIRECTORY;

    fn project(folder: &Path) -> Option<PathBuf> {
        project_file(folder, &TrustedOwners::of(|_| None)).file
    }

    #[test]
    fn the_nearest_project_file_above_a_folder_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(project(&deep), None);
        write("qualitytrace.toml", "");
        assert_eq!(project(&deep), Some(deep.join("../../qualitytrace.toml")));
        write("a/qualitytrace.yaml", "type: Test\nspec: {}\n");
        assert_eq!(project(&deep), Some(deep.join("../../qualitytrace.toml")), "a test is no project file");
        write("a/qualitytrace.yml", "run: {}\n");
        assert_eq!(project(&deep), Some(deep.join("../qualitytrace.yml")));
        assert_eq!(project(folder.path()), Some(folder.path().join("qualitytrace.toml")));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_of_another_user_is_left_alone_unless_its_folder_is_safe() {
        use std::os::unix::fs::{chown, lchown, symlink};
        if !rustix::process::geteuid().is_root() {
            return; // Only the administrator can make the files of others.
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, deep) = (folder.path().join("qualitytrace.yaml"), folder.path().join("a"));
        std::fs::create_dir(&deep).unwrap();
        std::fs::write(&file, "run: {}\n").unwrap();
        assert!(project(&deep).is_some());
        chown(&file, Some(4321), None).unwrap();
        chown(folder.path(), Some(4321), None).unwrap();
        for (place, path) in
            [(&deep, deep.join("../qualitytrace.yaml")), (&folder.path().into(), file.clone())]
        {
            let found = project_file(place, &TrustedOwners::of(|_| None));
            assert_eq!(found, FoundProject { file: None, foreign: vec![path.clone()] });
            let safe = folder.path().to_str().unwrap().to_owned();
            for (name, value) in
                [(SAFE_DIRECTORY, safe), (SAFE_DIRECTORY, "*".into()), ("SUDO_UID", "4321".into())]
            {
                let owners = TrustedOwners::of(|asked| (asked == name).then(|| value.clone()));
                assert_eq!(project_file(place, &owners).file, Some(path.clone()), "{name}={value}");
            }
        }
        // A link of another user to a file of this one.
        std::fs::rename(&file, deep.join("own.yaml")).unwrap();
        chown(deep.join("own.yaml"), Some(0), None).unwrap();
        symlink(deep.join("own.yaml"), &file).unwrap();
        assert!(project(folder.path()).is_some());
        lchown(&file, Some(4321), None).unwrap();
        assert_eq!(project(folder.path()), None);
    }

    /// Returns the file that is chosen among these, each with its text.
    fn chosen(files: &[(&str, &str)]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let folders = [folder.path().join("missing"), folder.path().to_owned()];
        let found = find(&folders, &TrustedOwners::of(|_| None))?;
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
