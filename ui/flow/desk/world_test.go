package desk

import (
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// testEnv works with folders of its own, and with no kubeconfig yet.
func testEnv(t *testing.T) *env.Env {
	t.Helper()
	root := t.TempDir()
	dirs, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: root}[k] })
	if err != nil {
		t.Fatal(err)
	}
	return &env.Env{Dirs: dirs, Executable: "/usr/local/bin/kubehsm", Kubeconfig: filepath.Join(root, "kubeconfig")}
}

// pointAt has the current context of the kubeconfig lead to a server.
func pointAt(t *testing.T, e *env.Env, server *httptest.Server) {
	t.Helper()
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	config := `{"apiVersion":"v1","kind":"Config","current-context":"prod",` +
		`"clusters":[{"name":"prod","cluster":{"server":"` + server.URL + `","certificate-authority-data":"` + authority + `"}}],` +
		`"users":[{"name":"admin","user":{"token":"admin"}}],"contexts":[{"name":"prod","context":{"cluster":"prod","user":"admin"}}]}`
	if err := os.WriteFile(e.Kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}
