package controlplane

import (
	"crypto/tls"
	"net/http"
	"testing"
)

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
