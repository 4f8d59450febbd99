//go:build unix

package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// A pipe that nobody writes to is refused and not waited for.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must.OK(t, syscall.Mkfifo(path, 0o600))
	if _, err := (Rules{Explicit: path}).List(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}

// The null device is a kubeconfig without anything, and stays what it is.
func TestNullDevice(t *testing.T) {
	if all, err := (Rules{Explicit: os.DevNull}).List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := prepare(os.DevNull, []byte("kind: Config\n")); err == nil ||
		!strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}

// What a kubeconfig names is read only if it is a file of a moderate size.
func TestNamedFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	must.OK(t, syscall.Mkfifo(pipe, 0o600))
	must.OK(t, os.WriteFile(large, nil, 0o600))
	must.OK(t, os.Truncate(large, maxNamed+1))
	for _, keys := range [][2]string{
		{"", "tokenFile: NAMED"},
		{"", "token: sesame, tokenFile: NAMED"},
		{"", "client-certificate: NAMED, client-key-data: QQ=="},
		{"", "client-certificate-data: QQ==, client-key: NAMED"},
		{", certificate-authority: NAMED", "token: sesame"},
		{", certificate-authority: NAMED, certificate-authority-data: QQ==", "token: sesame"},
	} {
		for path, words := range map[string]string{
			pipe: "not a regular file", "/dev/zero": "not a regular file", dir: "not a regular file", large: "larger than 1048576 bytes",
			filepath.Join(dir, "none"): "no such file",
		} {
			r, _ := one(t, strings.ReplaceAll("clusters: [{name: a, cluster: {server: 'https://a'"+keys[0]+"}}]\n"+
				"users: [{name: a, user: {"+keys[1]+"}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n", "NAMED", path))
			if _, err := r.RESTConfig(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), words) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("%s %s: %v", keys, path, err)
			}
			c, err := r.Get(t.Context(), "a")
			must.OK(t, err)
			if _, err := c.Cluster.CA(); strings.HasSuffix(keys[0], "NAMED") &&
				(err == nil || !strings.Contains(err.Error(), words)) {
				t.Errorf("%s %s: %v", keys, path, err)
			}
		}
	}
}
