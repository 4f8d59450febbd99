#!/usr/bin/env bash
# release.sh files DIST        copies what is published of goreleaser's folder DIST into DIST/release
# release.sh sign FOLDER KEY   writes FOLDER/SHA256SUMS.sig with an SSH key, or the public half of one in a token or agent
# release.sh notes VERSION     prints the section of VERSION in docs/CHANGELOG.md, or that of what is unreleased
#
# docs/releasing.md says when; docs/install.md says how the signature is verified.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '2,4s/^# /usage: /p' "$0" >&2; exit 2; }

sum() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; } # macOS has the latter

case ${1:-} in
  files)
    [ $# = 2 ] && [ -d "$2" ] || usage
    rm -rf -- "$2/release"
    mkdir -- "$2/release"
    shopt -s nullglob
    files=("$2"/kubehsm*.{tar.gz,zip,deb,rpm,cdx.json} "$2"/krew/hsm.yaml)
    [ ${#files[@]} -gt 0 ] || { echo "error: nothing to publish in $2; hint: run make snapshot" >&2; exit 1; }
    cp -- "${files[@]}" "$2/release/"
    (cd "$2/release" && sum -- * >../sums)
    mv -- "$2/sums" "$2/release/SHA256SUMS" ;;
  sign)
    [ $# = 3 ] && [ -s "$2/SHA256SUMS" ] || usage
    # Sums of files that are not there as they are listed are not signed.
    (cd "$2" && sum -c SHA256SUMS >&2)
    rm -f -- "$2/SHA256SUMS.sig"
    ssh-keygen -Y sign -n kubehsm-release -f "$3" "$2/SHA256SUMS" ;;
  notes)
    [ $# = 2 ] || usage
    awk -v want="${2#v}" '
      /^## \[/ { on = index($0, "## [" want "]") == 1; next }
      on { print; some = 1 }
      END { exit !some }' "$here/../../docs/CHANGELOG.md" ||
      { echo "error: docs/CHANGELOG.md has no section [${2#v}]; hint: rename [Unreleased] in the tagged commit" >&2; exit 1; } ;;
  *) usage ;;
esac
