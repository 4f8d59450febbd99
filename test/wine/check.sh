#!/usr/bin/env bash
# Runs the Windows program under Wine 10: unit tests of the packages with code for Windows, then the program itself, on a
# virtual card and with kubectl.exe on a real control plane (wine_test.go). Wine is Debian 13's, in a folder of its own
# below .cache, which stays (1 GB). Needs root, for that folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ "$(id -u)" = 0 ] || { echo "error: a Debian in a folder needs root" >&2; exit 1; }
need() { command -v "$1" >/dev/null || { apt-get update -q; apt-get install -y -q --no-install-recommends "$2"; }; }
need mmdebstrap mmdebstrap
need x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64-win32

mkdir -p .cache/windows
KUBEHSM_WINE=$(cd .cache/windows && pwd -P)/debian
if [ ! -x "$KUBEHSM_WINE/usr/bin/wine-stable" ]; then
  echo "== a Debian 13 with Wine"
  rm -rf --one-file-system -- "$KUBEHSM_WINE" "$KUBEHSM_WINE.new"
  mmdebstrap --quiet --variant=apt --include=wine,wine64,libpcsclite1 trixie "$KUBEHSM_WINE.new"
  mv -- "$KUBEHSM_WINE.new" "$KUBEHSM_WINE"
fi
# Wine's winscard speaks to this machine's pcscd, by the library that came with that.
mkdir -p "$KUBEHSM_WINE/opt/pcsc" "$KUBEHSM_WINE/opt/kubehsm"
cp -L -- "$(ldconfig -p | awk '/libpcsclite\.so\.1 .*x86-64/ {print $NF; exit}')" "$KUBEHSM_WINE/opt/pcsc/libpcsclite.so.1"

windows=(env GOOS=windows GOARCH=amd64 CGO_ENABLED=1 CC=x86_64-w64-mingw32-gcc)
echo "== the programs"
"${windows[@]}" go build -buildvcs=false -trimpath -o "$KUBEHSM_WINE/opt/kubehsm/kubehsm.exe" .
GOOS=windows CGO_ENABLED=0 go -C test/cluster build -buildvcs=false -trimpath -o "$KUBEHSM_WINE/opt/kubehsm/kubectl.exe" \
  k8s.io/kubernetes/cmd/kubectl

echo "== unit tests"
WINEPREFIX=$(mktemp -d)
export KUBEHSM_WINE WINEPREFIX
trap 'for how in -k -w; do test/wine/exec.sh wineserver $how || true; done; rm -rf -- "$WINEPREFIX"' EXIT
"${windows[@]}" go test -buildvcs=false -trimpath -vet=off -count=1 -p 1 -exec "$PWD/test/wine/exec.sh" \
  ./hsm/shared/hint ./hsm/pkcs11/p11kit ./plugin/home ./plugin/process ./plugin/socket
"${windows[@]}" go test -buildvcs=false -trimpath -vet=off -count=1 -exec "$PWD/test/wine/exec.sh" -run '^TestProcessOf$' \
  ./plugin/bridge

echo "== the program"
CI=true go test -buildvcs=false -trimpath -count=1 -timeout 30m -tags wine -v ./test/wine
