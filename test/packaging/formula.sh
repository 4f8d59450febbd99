#!/usr/bin/env bash
# formula.sh fill VERSION ARCHIVE   prints the formula of the release VERSION, whose
#                                   source archive ARCHIVE is
# formula.sh check                  fills it for the commit that is checked out, and
#                                   installs it into a folder and runs its test, without Homebrew
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

fill() {
  local sum
  sum=$(sha256sum "$2")
  sed -e "s|__VERSION__|${1#v}|g" -e "s|__SHA256__|${sum%% *}|g" "$here/kubehsm.rb.tmpl" | sed '1,2d'
}

case ${1:-} in
  fill)
    [ $# = 3 ] && [ -s "$3" ] || { echo "usage: formula.sh fill VERSION ARCHIVE" >&2; exit 2; }
    fill "$2" "$3" ;;
  check)
    command -v ruby >/dev/null || { apt-get update -q; apt-get install -y -q --no-install-recommends ruby; }
    version=0.0.0-$(git -C "$here" rev-parse --short HEAD)
    git -C "$here/../.." archive --format=tar.gz --prefix="kubehsm-$version/" -o "$scratch/source.tar.gz" HEAD
    fill "$version" "$scratch/source.tar.gz" >"$scratch/kubehsm.rb"
    ruby -wc "$scratch/kubehsm.rb"
    ruby -w "$here/formula.rb" "$scratch/kubehsm.rb" "$scratch/source.tar.gz" "$scratch/prefix" ;;
  *) echo "usage: formula.sh fill VERSION ARCHIVE | check" >&2; exit 2 ;;
esac
