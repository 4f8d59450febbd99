package kubeconfig

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/need"
)

// list is an access control list as the kernel has it: the owner reads and writes, the user with id 4242 reads, the group
// and others may do nothing. The mask, which the mode shows as the group's right, is reading.
func list() []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 6, ^uint32(0)}, {0x02, 4, 4242}, {0x04, 0, ^uint32(0)}, {0x10, 4, ^uint32(0)}, {0x20, 0, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// set sets an attribute, or skips the test where the file system has none.
func set(t *testing.T, path, name string, value []byte) {
	t.Helper()
	if err := unix.Setxattr(path, name, value, 0); errors.Is(err, unix.ENOTSUP) {
		need.Missing(t, "no attribute "+name+" on this file system")
	} else if err != nil {
		t.Fatal(err)
	}
}

// attribute is a file's attribute, "" if it has none.
func attribute(t *testing.T, path, name string) string {
	t.Helper()
	b := make([]byte, 1<<10)
	n, err := unix.Getxattr(path, name, b)
	if err != nil && !errors.Is(err, unix.ENODATA) {
		t.Fatal(err)
	}
	return string(b[:max(n, 0)])
}

// TestKeepsAttributes: a file that is replaced keeps its access control list, the mask of which never becomes the
// group's right, and its other attributes. It takes none from its folder.
func TestKeepsAttributes(t *testing.T) {
	for name, c := range map[string]struct {
		list, folder []byte
		mode         os.FileMode
	}{
		"a list":              {list: list(), mode: 0o640},
		"none, but in folder": {folder: list(), mode: 0o640},
	} {
		t.Run(name, func(t *testing.T) {
			r, path := one(t, kubectlStyle)
			need.NoError(t, os.Chmod(path, 0o640))
			set(t, path, "user.note", []byte("mine"))
			if c.list != nil {
				set(t, path, accessList, c.list)
			}
			if c.folder != nil {
				set(t, filepath.Dir(path), "system.posix_acl_default", c.folder)
			}
			mustApply(t, mustPlan(t, r, entry("prod")), "")
			info, err := os.Stat(path)
			need.NoError(t, err)
			if got := attribute(t, path, accessList); got != string(c.list) || info.Mode().Perm() != c.mode ||
				attribute(t, path, "user.note") != "mine" {
				t.Errorf("mode %v, list %x, note %q", info.Mode(), got, attribute(t, path, "user.note"))
			}
		})
	}
}

// TestMounted: a kubeconfig that is a mount of its own, as in containers, is written in place; a copy that an interrupted
// run has left is not overwritten, and told of beforehand.
func TestMounted(t *testing.T) {
	if dir := os.Getenv("KUBECONFIG_TEST_MOUNTED"); dir != "" {
		mounted(t, filepath.Join(dir, "config"))
		return
	}
	unshare := need.Program(t, "unshare")
	if out, err := exec.Command(unshare, "-Urm", "true").CombinedOutput(); err != nil {
		need.Missing(t, "no user and mount namespaces: "+strings.TrimSpace(string(out)))
	}
	dir := t.TempDir()
	for _, name := range []string{"config", "outside"} {
		need.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(kubectlStyle), 0o600))
	}
	cmd := exec.Command(unshare, "-Urm", "sh", "-ec",
		`mount --bind "$KUBECONFIG_TEST_MOUNTED/outside" "$KUBECONFIG_TEST_MOUNTED/config"
		exec "$0" -test.run='^TestMounted$' -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), "KUBECONFIG_TEST_MOUNTED="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestMounted") {
		t.Fatalf("%v\n%s", err, out)
	}
	if text(t, filepath.Join(dir, "config")) != kubectlStyle || !strings.Contains(text(t, filepath.Join(dir, "outside")), "prod") {
		t.Error("the file that is mounted has not changed, or another one has")
	}
}

func mounted(t *testing.T, path string) {
	p := mustPlan(t, Rules{Explicit: path}, entry("prod"))
	need.NoError(t, p.Writable())
	need.NoError(t, os.WriteFile(asItWas(path), nil, 0o600))
	err := p.Apply(context.Background(), "")
	for _, err := range []error{p.Writable(), err} {
		if err == nil || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("beside a copy: %v", err)
		}
	}
	if text(t, path) != kubectlStyle {
		t.Error("the file has changed")
	}
	need.NoError(t, os.Remove(asItWas(path)))
	mustApply(t, p, "")
	if !strings.Contains(text(t, path), "prod") {
		t.Error("the file has not changed")
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
