#!/usr/bin/env bash
# Installs what building and testing kubehsm needs on Debian (and its kin), and
# says what and why. What is there already is left alone; if nothing is missing
# nothing is run.
#
#   debian.sh demo    what `make demo` needs
#   debian.sh test    what `make test` needs
#   debian.sh check   what `make check` needs
#   debian.sh clients what its part "clients" needs, on top of that
#   debian.sh release what `make snapshot` needs
#   debian.sh make    make itself, for a machine that has not even that
#
# On another system it prints the list and stops. KUBEHSM_INSTALL=skip goes on
# without looking, for who has the parts from elsewhere.
set -euo pipefail

profile=${1:-}
case $profile in demo|test|check|clients|release|make) ;;
  *) echo "usage: debian.sh demo|test|check|clients|release|make" >&2; exit 2 ;; esac
[ "${KUBEHSM_INSTALL:-}" != skip ] || exit 0

go_wanted=1.26

# profiles | Debian package | reason
packages() {
  local wanted=$profile
  case $profile in check) wanted='test check' ;; clients) wanted='test check clients' ;; esac
  awk -F'|' -v wanted="$wanted" 'BEGIN { split(wanted, want, " ") }
    { for (i in want) if (index(" " $1 " ", " " want[i] " ")) { print; next } }' <<'LIST'
demo test release make| make              | runs the Makefile
demo test release | ca-certificates   | lets Go fetch modules over https
demo test release | gcc               | compiles the drivers' C parts (cgo)
demo test release | libc6-dev         | C headers for gcc
demo test release | pkg-config        | tells cgo where libpcsclite is
demo test release | libpcsclite-dev   | headers of the smart card interface that the PIV driver uses
release        | gcc-aarch64-linux-gnu | compiles the same for arm64
release        | libc6-dev-arm64-cross | C headers for that
demo test      | softhsm2          | a token in software, behind PKCS#11
test           | opensc            | pkcs11-tool and opensc-tool, to check our work with other people's tools
test           | opensc-pkcs11     | a second PKCS#11 module
test           | p11-kit           | lists configured PKCS#11 modules, and forwards them
check          | libnss3           | NSS's softokn, a module that is set up by words
test           | pcscd             | the smart card daemon; a private one is run
test           | vsmartcard-vpcd   | a reader in software for that daemon
check          | yubico-piv-tool   | checks the PIV side with Yubico's own tool
check          | ykcs11            | Yubico's PKCS#11 module
check          | opencryptoki      | a PKCS#11 token in software that really locks
check          | libtpm2-pkcs11-1  | the PKCS#11 module of TPMs
check          | swtpm             | a TPM in software
check          | libtss2-tcti-swtpm0 | how the resource manager reaches that TPM
check          | tpm2-abrmd        | the resource manager, which lets a TPM hold more than three keys
check          | libtss2-tcti-tabrmd0 | how the module reaches the resource manager
test           | dbus-daemon       | a private bus between the two
test           | dbus-bin          | asks that bus who is on it
test           | python3-dbusmock  | a logind on such a bus, to see what a suspend and a locked screen do
test           | iproute2          | brings up loopback in a private network namespace
test           | curl              | a client that another user runs, to see it refused
check          | jq                | kubectl's own test suite takes answers apart with it
check          | openssh-client    | signs and verifies the checksums of a release
check          | openssl           | that suite looks with it at whom the API server trusts
check          | tmux              | a terminal for the tests of the terminal UI
test           | patch             | checks that our diffs are what patch(1) understands
check          | less              | a pager that kubectl writes to
test           | procps            | pgrep; and watch, which runs kubectl again and again
clients        | python3-kubernetes | a client in another language
clients        | ruby-kubeclient   | a client that sends its plugin no request
clients        | npm               | fetches another such client, JavaScript's
test           | pinentry-tty      | a real pinentry, to check our side of that protocol
LIST
}

trim() { local s=$1; s=${s#"${s%%[![:space:]]*}"}; printf '%s' "${s%"${s##*[![:space:]]}"}"; }
# Node.js from elsewhere brings its own npm, and excludes Debian's.
installed() { [ "$1" = npm ] && command -v npm >/dev/null || [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null || true)" = "ii " ]; }
list() { while IFS='|' read -r _ name why; do printf '  %-20s %s\n' "$(trim "$name")" "$(trim "$why")"; done < <(packages); }

# Go comes first: Debian 12's own is too old, so apt cannot help.
check_go() {
  local have=
  if command -v go >/dev/null; then
    have=$(go env GOVERSION); have=${have#go}
    [ "$(printf '%s\n' "$go_wanted" "$have" | sort -V | head -n 1)" = "$go_wanted" ] && return 0
  fi
  echo "Go $go_wanted or newer is needed; found: ${have:-none on PATH}." >&2
  echo "Get it from https://go.dev/dl/ (Debian 12's own is too old), unpack it to /usr/local/go" >&2
  echo "and put /usr/local/go/bin on PATH." >&2
  return 1
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "This is not a Debian system. Install what these Debian packages hold, then run again with KUBEHSM_INSTALL=skip:" >&2
  list >&2
  [ "$profile" = make ] || check_go || true
  exit 1
fi
[ "$profile" = make ] || check_go

missing=()
while IFS='|' read -r _ name why; do
  name=$(trim "$name")
  installed "$name" && continue
  [ ${#missing[@]} -gt 0 ] || echo "Missing on this machine, to be installed with apt-get:"
  printf '  %-20s %s\n' "$name" "$(trim "$why")"
  missing+=("$name")
  case $name in
  vsmartcard-vpcd)
    echo "                    (a pcscd that runs on this machine will load it and listen on port 35963)" ;;
  tpm2-abrmd)
    echo "                    (it comes with a service for this machine's own TPM, which the tests do not use: without"
    echo "                    a TPM systemd waits for one and says so; systemctl disable tpm2-abrmd ends that)" ;;
  esac
done < <(packages)

# Debian's kubectl 1.20 is the oldest client that is tried. It is unpacked beside
# the build, not installed: the user's own kubectl stays.
old=$(dirname "$0")/../../.cache/debian
old_kubectl() {
  [ "$profile" = clients ] && [ ! -x "$old/usr/bin/kubectl" ] || return 0
  local dir; dir=$(mktemp -d)
  echo "Unpacking Debian's kubernetes-client into .cache/debian: the oldest kubectl that is tried"
  if ( cd "$dir" && apt-get -q download kubernetes-client ) && mkdir -p "$old"; then
    dpkg-deb -x "$dir"/kubernetes-client_*.deb "$old"
  else
    echo "It could not be had; the test that wants it says so." >&2
  fi
  rm -rf "$dir"
}

# Both majors of the JavaScript client, and a Node.js for them, beside the build.
# Nothing of them is run here.
javascript() {
  [ "$profile" = clients ] || return 0
  local from to; from=$(dirname "$0")/../clients/testdata/javascript; to=$(dirname "$0")/../../.cache/javascript
  mkdir -p "$to" && cp "$from/../matrix/matrix.mjs" "$to/"
  ! cmp -s "$from/package-lock.json" "$to/node_modules/kubehsm.lock" || return 0
  echo "Fetching the JavaScript client in both its majors into .cache/javascript (330 MB)"
  if cp "$from/package.json" "$from/package-lock.json" "$from/.npmrc" "$to/" &&
    npm ci --silent --ignore-scripts --no-audit --no-fund --prefix "$to"; then
    cp "$from/package-lock.json" "$to/node_modules/kubehsm.lock"
  else
    echo "It could not be had; the test that wants it says so." >&2
  fi
}
[ ${#missing[@]} -gt 0 ] || { old_kubectl; javascript; exit 0; }


root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "Run this as root, or install sudo: apt-get install ${missing[*]}" >&2; exit 1; }
  root=(sudo)
  echo "sudo may ask for your password."
fi
apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"; }
# One broken source among many must not stop the rest: what counts is the install.
apt update || echo "apt-get update failed in part; going on with what is there." >&2
apt install --no-install-recommends "${missing[@]}"
old_kubectl
javascript
