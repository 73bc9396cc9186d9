#!/bin/sh
# Prints the Homebrew formula of a release: formula.sh OWNER/REPOSITORY VERSION SHA256SUMS
# SHA256SUMS is the file of that name of the release. A missing archive is an error.
set -eu
repository=$1 version=$2 sums=$3

sum() {
    found=$(awk -v name="qualitytrace-$1.tar.gz" '$2 == name { print $1 }' "$sums")
    [ -n "$found" ] || { echo "$sums has no qualitytrace-$1.tar.gz" >&2; exit 1; }
    echo "$found"
}

archive() {
    digest=$(sum "$1")
    cat <<END
      url "https://github.com/$repository/releases/download/v$version/qualitytrace-$1.tar.gz"
      sha256 "$digest"
END
}

# Computed first: inside of the text below, a failure would go unnoticed.
mac_arm=$(archive aarch64-apple-darwin)
mac_intel=$(archive x86_64-apple-darwin)
linux_arm=$(archive aarch64-unknown-linux-musl)
linux_intel=$(archive x86_64-unknown-linux-musl)

cat <<END
class Qualitytrace < Formula
  desc "Trace-based testing in one binary"
  homepage "https://github.com/$repository"
  version "$version"
  license "Apache-2.0"

  on_macos do
    on_arm do
$mac_arm
    end
    on_intel do
$mac_intel
    end
  end

  on_linux do
    on_arm do
$linux_arm
    end
    on_intel do
$linux_intel
    end
  end

  def install
    bin.install "qualitytrace"
    generate_completions_from_executable(bin/"qualitytrace", "completion")
  end

  service do
    run [opt_bin/"qualitytrace", "serve"]
    keep_alive crashed: true
    log_path var/"log/qualitytrace.log"
    error_log_path var/"log/qualitytrace.log"
    environment_variables QUALITYTRACE_DATA_DIR: var/"lib/qualitytrace"
  end

  test do
    (testpath/"test.yaml").write <<~YAML
      type: Test
      spec:
        name: A test
        trigger: { type: http, httpRequest: { method: GET, url: "http://localhost/" } }
    YAML
    system bin/"qualitytrace", "check", "test.yaml"
  end
end
END
