//! Builds the page with Node and writes the table of its files.
//!
//! `QUALITYTRACE_PAGE` decides: `auto` (the default) builds it if Node is there, `require` fails without it, `off`
//! leaves it out, and any other value is a folder with a page that is built already. All profiles share one build in
//! `page/dist`, which is valid as long as the hash of its inputs is the same.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Parts of `page/` that are made by tools, or that the built page does not depend on.
const NOT_INPUTS: [&str; 7] =
    ["node_modules", "dist", "tests", "test-results", ".lock", "schema.gen.d.ts", "biome.json"];
/// How many lines of a failed command are shown.
const SHOWN_LINES: usize = 40;

/// Why there is no page.
enum Missing {
    /// The builder wanted it so, or cannot build it: the program is built without it.
    Absent(String),
    /// The page could not be built although everything is there.
    Broken(String),
}

fn main() {
    println!("cargo::rerun-if-env-changed=QUALITYTRACE_PAGE");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let wanted = env::var("QUALITYTRACE_PAGE").unwrap_or_default();
    let built = match wanted.as_str() {
        "off" => Err(Missing::Absent("this program was built with QUALITYTRACE_PAGE=off".to_owned())),
        "" | "auto" | "require" => build(&out),
        folder => built_already(Path::new(folder)),
    };
    let table = built.and_then(|dist| {
        table(&dist, &out).map_err(|error| Missing::Broken(format!("failed to read the built page: {error}")))
    });
    let table = match table {
        Ok(table) => table,
        Err(Missing::Absent(why)) if wanted != "require" => {
            if wanted != "off" {
                println!("cargo::warning=the page for browsers is not built in: {why}");
            }
            empty(&why)
        }
        Err(Missing::Absent(why) | Missing::Broken(why)) => {
            for line in why.lines() {
                println!("cargo::error={line}");
            }
            empty("it could not be built: QUALITYTRACE_PAGE=off leaves it out")
        }
    };
    if let Err(error) = fs::write(out.join("files.rs"), table) {
        println!("cargo::error=failed to write the table of the page's files: {error}");
    }
}

fn empty(why: &str) -> String {
    let about = "/// Why the page is not there; `None` if it is.\npub const ABSENT: Option<&str>";
    format!("/// All files, by path.\npub const FILES: &[File] = &[];\n{about} = Some({why:?});\n")
}

/// A page that was built elsewhere.
fn built_already(folder: &Path) -> Result<PathBuf, Missing> {
    println!("cargo::rerun-if-changed={}", folder.display());
    if folder.join("index.html").is_file() {
        return Ok(folder.to_owned());
    }
    Err(Missing::Broken(format!(
        "QUALITYTRACE_PAGE is {}, which has no index.html; name the folder of a built page, or `auto`, `require` or `off`",
        folder.display()
    )))
}

/// Builds the page unless that has been done, and returns the folder of its files.
fn build(out: &Path) -> Result<PathBuf, Missing> {
    let source = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("page");
    let failed = |error: io::Error| Missing::Broken(format!("failed to read {}: {error}", source.display()));
    let mut inputs = Vec::new();
    collect(&source, &mut inputs).map_err(failed)?;
    inputs.sort();
    let hash = hash_of(&source, &inputs).map_err(failed)?;
    suitable_node()?;
    // Two builds, for example of two profiles, may run at once. In a read-only tree, each builds a copy.
    let (folder, lock) = match fs::File::create(source.join(".lock")) {
        Ok(lock) => (source, lock),
        Err(_) => copied(&source, &inputs, &out.join("page")).map_err(failed)?,
    };
    lock.lock().map_err(|error| Missing::Broken(format!("failed to lock {}: {error}", folder.display())))?;
    let dist = folder.join("dist");
    let is_current = |stamp: &Path, expected: &str| fs::read_to_string(stamp).is_ok_and(|it| it == expected);
    if !is_current(&dist.join(".inputs"), &hash) {
        install(&folder)?;
        run(&folder, &["run", "--silent", "build"]).map_err(Missing::Broken)?;
        let stamped = fs::write(dist.join(".inputs"), &hash);
        stamped.map_err(|error| Missing::Broken(format!("failed to stamp the page: {error}")))?;
    }
    Ok(dist)
}

/// Lists the files that the page is built from, and tells cargo to watch them.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().and_then(OsStr::to_str).is_some_and(|name| NOT_INPUTS.contains(&name)) {
            continue;
        }
        println!("cargo::rerun-if-changed={}", path.display());
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn hash_of(folder: &Path, files: &[PathBuf]) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.strip_prefix(folder).unwrap_or(file).hash(&mut hasher);
        fs::read(file)?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn copied(from: &Path, files: &[PathBuf], to: &Path) -> io::Result<(PathBuf, fs::File)> {
    for file in files {
        let target = to.join(file.strip_prefix(from).unwrap_or(file));
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::copy(file, target)?;
    }
    Ok((to.to_owned(), fs::File::create(to.join(".lock"))?))
}

/// Checks that Node and npm are there and new enough. If not, cargo asks again when something is installed.
fn suitable_node() -> Result<(), Missing> {
    let needed = "Node 20.19, 22.12 or newer is needed";
    let why = match Command::new("node").arg("--version").output() {
        Ok(told) if told.status.success() => {
            let version = String::from_utf8_lossy(&told.stdout).trim().to_owned();
            if is_suitable(&version) && Command::new("npm").arg("--version").output().is_ok() {
                return Ok(());
            }
            if is_suitable(&version) {
                format!("{needed} with npm, which was not found when this program was compiled")
            } else {
                format!("{needed}; {version} was found when this program was compiled")
            }
        }
        _ => format!("{needed}, and was not found when this program was compiled"),
    };
    for folder in env::split_paths(&env::var_os("PATH").unwrap_or_default()).filter(|path| path.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    Err(Missing::Absent(why))
}

/// Whether Vite runs on this version, for example `v20.19.1`.
fn is_suitable(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (major == 20 && minor >= 19) || (major == 22 && minor >= 12) || major > 22
}

/// Installs the packages of the lock file, unless they are there.
fn install(folder: &Path) -> Result<(), Missing> {
    let read = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
    let (lock, stamp) = (read("package-lock.json"), folder.join("node_modules/.installed"));
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
    let installed = run(folder, &arguments).or_else(|_| run(folder, &arguments));
    let installed = installed.and_then(|()| fs::write(stamp, lock).map_err(|error| error.to_string()));
    installed.map_err(|said| {
        let last = said.lines().rfind(|line| line.contains("npm error")).unwrap_or_default();
        Missing::Absent(format!(
            "npm could not install the packages that Node builds it with ({last}); connect to the network and change \
             crates/qualitytrace-page/build.rs or set QUALITYTRACE_PAGE=require"
        ))
    })
}

/// Runs npm; the error is the end of what it printed.
fn run(folder: &Path, arguments: &[&str]) -> Result<(), String> {
    let what = format!("`npm {}` in {}", arguments.join(" "), folder.display());
    let ended = Command::new("npm").args(arguments).current_dir(folder).output();
    let ended = ended.map_err(|error| format!("failed to start {what}: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = [String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr)].concat();
    let lines: Vec<&str> = said.lines().collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    Err(format!("{what} failed:\n{}", shown.join("\n")))
}

/// Copies the built files to `out` and returns the source text of their table.
fn table(dist: &Path, out: &Path) -> io::Result<String> {
    let copies = out.join("dist");
    let _ = fs::remove_dir_all(&copies);
    let mut files = Vec::new();
    list(dist, &mut files)?;
    files.sort();
    let mut text = "/// All files, by path.\npub const FILES: &[File] = &[\n".to_owned();
    for file in &files {
        let bytes = fs::read(file)?;
        let relative = file.strip_prefix(dist).unwrap_or(file);
        let path = relative.to_string_lossy().replace('\\', "/");
        let target = copies.join(relative);
        fs::create_dir_all(target.parent().unwrap_or(&copies))?;
        fs::write(&target, &bytes)?;
        let form = |ending: &str| -> io::Result<String> {
            let compressed = with_ending(file, ending);
            if !compressed.is_file() {
                return Ok("None".to_owned());
            }
            let target = with_ending(&target, ending);
            fs::copy(compressed, &target)?;
            Ok(format!("Some(include_bytes!({:?}))", target.display().to_string()))
        };
        let (gzip, brotli) = (form("gz")?, form("br")?);
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "    File {{ path: {path:?}, kind: {:?}, etag: {:?}, immutable: {}, plain: include_bytes!({:?}), gzip: {gzip}, brotli: {brotli} }},",
            kind(&path),
            format!("W/\"{:016x}\"", hasher.finish()),
            path.starts_with("assets/"),
            target.display().to_string(),
        );
    }
    text.push_str(
        "];\n/// Why the page is not there; `None` if it is.\npub const ABSENT: Option<&str> = None;\n",
    );
    Ok(text)
}

/// Lists the built files, without stamps and compressed forms.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_form = path.extension().is_some_and(|ending| ending == "gz" || ending == "br");
        if path.is_dir() {
            list(&path, files)?;
        } else if !is_form && path.file_name().is_some_and(|name| name != ".inputs") {
            files.push(path);
        }
    }
    Ok(())
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{ending}"));
    name.into()
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}
