#!/usr/bin/env bash
# Installs the Debian package from the folder $1 on a bare Debian in a folder of
# its own and uses it there, as a person would: nothing of this machine is in it.
# $2 is the Debian release, by its name; default this machine's. Needs root, for apt in the folder.
set -euo pipefail

# In a mount namespace of its own: what is mounted goes with it.
[ "${KUBEHSM_UNSHARED:-}" ] || KUBEHSM_UNSHARED=1 exec unshare --mount --propagation private "$0" "$@"

dist=$(cd "${1:?usage: debian.sh DIST [SUITE]}" && pwd)
[ "$(id -u)" = 0 ] || { echo "error: installing packages into a folder needs root" >&2; exit 1; }
deb=$(ls "$dist"/kubehsm_*_"$(dpkg --print-architecture)".deb)
command -v mmdebstrap >/dev/null || { apt-get update -q; apt-get install -y -q mmdebstrap; }

root=$(mktemp -d)
trap 'umount -q "$root/proc" || true; rm -rf --one-file-system -- "$root"' EXIT
suite=${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
echo "== a bare Debian ($suite)"
mmdebstrap --quiet --variant=apt --include=ca-certificates,man-db "$suite" "$root"
# Containers leave documentation out; we look at ours.
rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
mount -t proc proc "$root/proc"
cp "$deb" "$root/tmp/kubehsm.deb"
in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }

echo "== install"
in_root apt-get update -qq
in_root apt-get install -y -qq --no-install-recommends /tmp/kubehsm.deb softhsm2

fail() { echo "FAIL: $*" >&2; exit 1; }
echo "== use"
in_root sh -c '! ls /usr/lib/*/libpcsclite.so.1 2>/dev/null' || fail "libpcsclite is there: this does not show that nobody needs it for other tokens"
version=$(in_root kubehsm version)
echo "$version"
[ "$(in_root kubectl-hsm version)" = "$(in_root kubehsm version)" ] || fail "kubectl-hsm is another program"
[ "$(in_root kubehsm-credential version)" = "$(in_root kubehsm version)" ] || fail "kubehsm-credential executes another program"
in_root man --where kubehsm kubehsm-enroll >/dev/null || fail "no manual page"
in_root test -s /usr/share/bash-completion/completions/kubehsm || fail "no completion"
in_root grep -q 'ExecStart="/usr/bin/kubehsm" agent serve' /usr/lib/systemd/user/kubehsm-agent.service || fail "no unit file"
in_root sh -c 'cd /usr/share/doc/kubehsm && grep -q "Go standard library" copyright && [ -s docs/developer.md ] && [ -s docs/pictures/job.svg ]' || fail "no guides or licences"
needs=$(grep -ao 'GLIBC_2\.[0-9]*' "$root/usr/bin/kubehsm" | sort -uV | tail -n 1)
in_root dpkg -s kubehsm | grep -q "libc6 (>= ${needs#GLIBC_})" || fail "the package does not say that it needs $needs"
# A token in software, then a key on it: libraries are found and the program works.
in_root softhsm2-util --init-token --free --label trial --so-pin 12345678 --pin 123456 >/dev/null
in_root sh -c 'exec 3<<PIN
123456
PIN
kubehsm key generate --token pkcs11:token=trial --label demo --pin-fd 3'
in_root kubehsm key list -o json | grep -q '"demo"' || fail "the key is not listed"
in_root sh -c 'kubehsm doctor --offline -o json; [ $? -le 1 ]' | grep -q '"ID"\|"id"' || fail "doctor says nothing"

echo "== remove"
in_root apt-get purge -y -qq kubehsm
left=$(cd "$root" && find usr etc -name '*kubehsm*' -o -name 'kubectl-hsm*')
[ -z "$left" ] || fail "left behind: $left"
echo "== the RPM"
in_root apt-get install -y -qq --no-install-recommends rpm rpm2cpio cpio
cp "$dist"/kubehsm-*."$(uname -m)".rpm "$root/tmp/kubehsm.rpm"
wants=$(in_root rpm -qp --requires /tmp/kubehsm.rpm)
grep -qxF "libc.so.6($needs)(64bit)" <<<"$wants" || fail "the RPM does not require libc.so.6($needs)(64bit) but: $wants"
files=$(in_root rpm -qpl /tmp/kubehsm.rpm)
for file in /usr/bin/kubehsm /usr/bin/kubehsm-credential /usr/bin/kubectl-hsm /usr/share/man/man1/kubehsm.1.gz /usr/share/zsh/site-functions/_kubehsm \
  /usr/share/licenses/kubehsm/LICENSE /usr/share/licenses/kubehsm/THIRD-PARTY /usr/lib/systemd/user/kubehsm-agent.service; do
  grep -qxF "$file" <<<"$files" || fail "the RPM has no $file"
done
in_root sh -c 'mkdir /tmp/rpm && cd /tmp/rpm && rpm2cpio /tmp/kubehsm.rpm | cpio -idm --quiet --no-absolute-filenames'
[ "$(in_root /tmp/rpm/usr/bin/kubehsm version)" = "$version" ] || fail "the RPM holds another program"
echo "$suite: the Debian package installs, works and leaves nothing behind"
