//! The OpenTelemetry Collector, built from its modules by its own builder.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{folder_of, go, once};
use crate::process;

const VERSION: &str = "v0.158.0";
/// The matching version of the modules that have reached 1.0.
const STABLE: &str = "v1.64.0";
/// To be raised with changes of `PARTS`, so that an older build is not used.
const RECIPE: u32 = 2;

const CORE: &str = "go.opentelemetry.io/collector";
const CONTRIB: &str = "github.com/open-telemetry/opentelemetry-collector-contrib";

/// The modules of the Collector: section, repository, module, version.
const PARTS: [(&str, &str, &str, &str); 18] = [
    ("receivers", CORE, "receiver/otlpreceiver", VERSION),
    ("receivers", CONTRIB, "receiver/zipkinreceiver", VERSION),
    ("processors", CORE, "processor/batchprocessor", VERSION),
    ("processors", CORE, "processor/memorylimiterprocessor", VERSION),
    ("processors", CONTRIB, "processor/filterprocessor", VERSION),
    ("processors", CONTRIB, "processor/transformprocessor", VERSION),
    ("exporters", CORE, "exporter/debugexporter", VERSION),
    ("exporters", CORE, "exporter/nopexporter", VERSION),
    ("exporters", CORE, "exporter/otlpexporter", VERSION),
    ("exporters", CORE, "exporter/otlphttpexporter", VERSION),
    ("exporters", CONTRIB, "exporter/fileexporter", VERSION),
    ("exporters", CONTRIB, "exporter/prometheusexporter", VERSION),
    ("exporters", CONTRIB, "exporter/zipkinexporter", VERSION),
    ("extensions", CONTRIB, "extension/storage/filestorage", VERSION),
    ("extensions", CONTRIB, "extension/healthcheckextension", VERSION),
    ("providers", CORE, "confmap/provider/envprovider", STABLE),
    ("providers", CORE, "confmap/provider/fileprovider", STABLE),
    ("providers", CORE, "confmap/provider/yamlprovider", STABLE),
];

/// Builds the Collector unless it is there already.
pub(crate) fn install() -> Result<PathBuf> {
    let place = format!("otelcol-{VERSION}-{RECIPE}/otelcol");
    once(&place, &format!("building the OpenTelemetry Collector {VERSION} (some minutes)"), build)
}

fn build(new: &Path) -> Result<()> {
    let dir = folder_of(new);
    let source = dir.join("source");
    fs::create_dir_all(&source).with_context(|| format!("failed to make the folder {}", source.display()))?;
    let builder = format!("{CORE}/cmd/builder@{VERSION}");
    process::run(go(dir)?.arg("install").arg(builder).env("GOBIN", dir))?;
    let recipe = dir.join("builder.yaml");
    fs::write(&recipe, builder_yaml(&source)).context("failed to write the recipe")?;
    // The builder's own `go mod tidy` would fetch what only tests of the modules need.
    let mut generate = Command::new(dir.join("builder"));
    generate.arg("--config").arg(&recipe).args(["--skip-get-modules", "--skip-compilation"]);
    process::run(&mut generate)?;
    fs::write(source.join("go.mod"), go_mod()).context("failed to write go.mod")?;
    let flags = ["build", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-o"];
    process::run(go(&source)?.args(flags).arg(new).arg("."))
}

fn builder_yaml(source: &Path) -> String {
    let version = VERSION.trim_start_matches('v');
    let mut text = format!(
        "dist: {{ name: otelcol, output_path: {:?}, version: \"{version}\" }}\n",
        source.display().to_string()
    );
    let mut section = "";
    for (of, repository, module, version) in PARTS {
        if of != section {
            let _ = writeln!(text, "{of}:");
            section = of;
        }
        let _ = writeln!(text, "  - gomod: {repository}/{module} {version}");
    }
    text
}

fn go_mod() -> String {
    let mut text = format!("module otelcol\n\ngo 1.25\n\nrequire (\n\t{CORE}/otelcol {VERSION}\n");
    for (_, repository, module, version) in PARTS {
        let _ = writeln!(text, "\t{repository}/{module} {version}");
    }
    text.push_str(")\n");
    text
}
