#!/usr/bin/env bash
# Builds for linux/arm64 by a cross compiler, and runs the program and the unit tests of packages that need no other
# program under qemu.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
test/install/debian.sh release
command -v qemu-aarch64-static >/dev/null || { apt-get update -q; apt-get install -y -q --no-install-recommends qemu-user-static; }
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
export GOOS=linux GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc PKG_CONFIG="$here/pkg-config-headers.sh"
qemu="qemu-aarch64-static -L /usr/aarch64-linux-gnu"

echo "== the program"
go build -buildvcs=false -trimpath -o "$scratch/kubehsm" .
$qemu "$scratch/kubehsm" version | tee "$scratch/version"
grep -q linux/arm64 "$scratch/version"
mkdir -m 700 "$scratch/home"
KUBEHSM_HOME="$scratch/home" $qemu "$scratch/kubehsm" kubeconfig list --kubeconfig /dev/null
KUBEHSM_HOME="$scratch/home" $qemu "$scratch/kubehsm" help exit-codes >/dev/null

echo "== unit tests"
# Left out are tests that start themselves once more, which takes an emulator that the kernel knows of.
go test -buildvcs=false -trimpath -vet=off -count=1 -timeout 30m -exec "$qemu" \
  -skip '^(TestNoLocks|TestDiskFull|TestKilled|TestApplyWithoutLocks)$' ./hsm ./hsm/shared/... ./hsm/attest/... ./csr/... \
  ./kubeconfig/... ./plugin/consent/... ./plugin/execcredential/... ./plugin/enrollment/... ./plugin/ask/...
