package flowtest

import (
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Kubeconfig is the file of [Env]: a context whose cluster nobody answers for, and one
// that does not verify its own.
const Kubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: prod
  cluster: {server: "https://10.0.0.1:6443", certificate-authority-data: ""}
- name: open
  cluster: {server: "https://10.0.0.2:6443", insecure-skip-tls-verify: true}
contexts:
- name: Prod/EU west
  context: {cluster: prod, user: jane}
- name: open
  context: {cluster: open, user: jane}
users:
- name: jane
  user: {token: secret}
current-context: Prod/EU west
`

// TempDir is t.TempDir in memory, where the system has that: what is tried here writes many
// files, and waits for the disk after each.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "flowtest")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		for i := 0; err != nil && i < 100; i++ { // a use case that was interrupted may be writing its last file
			time.Sleep(20 * time.Millisecond)
			err = os.RemoveAll(dir)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Env is an Env over folders of its own, with tokens labelled as named.
func Env(t testing.TB, labels ...string) (*env.Env, *hsmtest.Fake) {
	t.Helper()
	dir := TempDir(t)
	file := filepath.Join(dir, "kubeconfig")
	must.OK(t, os.WriteFile(file, []byte(Kubeconfig), 0o600))
	root := filepath.Join(dir, "home")
	must.OK(t, os.Mkdir(root, 0o700))
	dirs, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: root}[k] })
	must.OK(t, err)
	fake := hsmtest.NewFake(hsm.SchemePKCS11)
	for _, l := range labels {
		fake.Add(hsmtest.FakeOptions{Label: l})
	}
	return &env.Env{Dirs: dirs, Drivers: hsm.Drivers{fake}, Executable: "/usr/local/bin/kubehsm", Kubeconfig: file}, fake
}

// PointAt has the current context of the kubeconfig of e lead to a server.
func PointAt(t testing.TB, e *env.Env, server *httptest.Server) {
	t.Helper()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := strings.Replace(Kubeconfig, `https://10.0.0.1:6443", certificate-authority-data: "`,
		server.URL+`", certificate-authority-data: "`+base64.StdEncoding.EncodeToString(authority), 1)
	must.OK(t, os.WriteFile(e.Kubeconfig, []byte(config), 0o600))
}
