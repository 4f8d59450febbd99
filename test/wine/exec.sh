#!/usr/bin/env bash
# Runs a Windows program under Wine, or wineserver, in the Debian folder KUBEHSM_WINE and with the Wine folder WINEPREFIX:
# go test -exec test/wine/exec.sh. Of this machine the program sees /tmp and the current folder.
set -euo pipefail
[ "${KUBEHSM_UNSHARED:-}" ] || KUBEHSM_UNSHARED=1 exec unshare --mount --propagation private "$0" "$@"
for dir in /proc /dev /tmp "$PWD"; do
  mkdir -p -- "$KUBEHSM_WINE$dir"
  mount --rbind "$dir" "$KUBEHSM_WINE$dir"
done
[ "$1" = wineserver ] || set -- wine "$@"
exec chroot "$KUBEHSM_WINE" env -i -C "$PWD" PATH=/usr/bin:/bin HOME=/root XDG_RUNTIME_DIR=/tmp WINEDEBUG=-all \
  WINEPREFIX="$WINEPREFIX" "$@"
