package controlplane

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
)

func TestRunPod(t *testing.T) {
	c := ForTest(t)
	for range 2 { // again does no harm
		if err := c.RunPod(t.Context(), "default", "probe"); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct{ stdin, command, out string }{
		{"", "exec probe -- echo there", "there\n"},
		{"through\n", "exec -i probe -- cat", "through\n"},
		{"", "exec probe -- sh -c echo>log", ""},
		{"", "logs probe", "\n"},
		{"heard\n", "attach -q -i probe", "attached\nheard\n"},
	} {
		out, err := c.Admin(t.Context(), want.stdin, strings.Fields(want.command)...)
		if err != nil {
			t.Error(err)
		}
		if out != want.out {
			t.Errorf("%s: got %q, want %q", want.command, out, want.out)
		}
	}
	_, err := c.Admin(t.Context(), "", "exec", "probe", "--", "sh", "-c", "exit 7")
	if err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("exit 7: %v", err)
	}
}

// TestKubeletServesOnlyTheAPIServer: it runs commands for whoever it serves.
func TestKubeletServesOnlyTheAPIServer(t *testing.T) {
	c := ForTest(t)
	if err := c.RunPod(t.Context(), "default", "guarded"); err != nil {
		t.Fatal(err)
	}
	url, client, err := c.probe(Kubelet)
	if err != nil {
		t.Fatal(err)
	}
	transport := client.Transport.(*http.Transport)
	admin, err := tls.LoadX509KeyPair(c.pki.admin.cert, c.pki.admin.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, certificates := range map[string][]tls.Certificate{"nobody": nil, "admin": {admin}} {
		transport.TLSClientConfig.Certificates = certificates
		if err := get(t.Context(), client, url); err == nil {
			t.Errorf("%s is served", name)
		}
		client.CloseIdleConnections()
	}
}
