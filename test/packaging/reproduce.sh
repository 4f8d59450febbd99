#!/usr/bin/env bash
# Builds what is published a second time and compares it with goreleaser's folder $1: in another folder, from another
# clone, with an empty build cache, another time zone, language and umask. What differs is named.
set -euo pipefail
dist=$(cd "${1:?usage: reproduce.sh DIST}" && pwd)
top=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
cd "$top"
[ -z "$(git status --porcelain)" ] || { echo "error: there are changes that no commit has; hint: commit them, or stash them" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
test/packaging/release.sh files "$dist"

echo "== once more, elsewhere"
again="$scratch/another folder/of a longer name"
git clone -q --no-local . "$again"
git -C "$again" remote set-url origin https://github.com/kubehsm/kubehsm
modules=$(go env GOMODCACHE)
(
  umask 077
  cd "$again"
  env -i PATH="$top/.cache/bin:$PWD/test/packaging:$PATH" HOME="$scratch" GOMODCACHE="$modules" GOFLAGS= GOCACHE="$scratch/build" \
    TZ=Pacific/Kiritimati LC_ALL=C goreleaser release --snapshot --clean
)
"$again/test/packaging/release.sh" files "$again/dist"
diff "$dist/release/SHA256SUMS" "$again/dist/release/SHA256SUMS" ||
  { echo "error: a second build of the same commit is different" >&2; exit 1; }
echo "every file is the same, byte for byte"
