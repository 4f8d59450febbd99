package controlplane

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// TestKubeletServesOnlyTheAPIServer: it runs commands for whoever it serves.
func TestKubeletServesOnlyTheAPIServer(t *testing.T) {
	c := ForTest(t)
	must.OK(t, c.RunPod(t.Context(), "default", "guarded"))
	url, client, err := c.probe(Kubelet)
	must.OK(t, err)
	transport := client.Transport.(*http.Transport)
	admin, err := tls.LoadX509KeyPair(c.pki.admin.cert, c.pki.admin.key)
	must.OK(t, err)
	for name, certificates := range map[string][]tls.Certificate{"nobody": nil, "admin": {admin}} {
		transport.TLSClientConfig.Certificates = certificates
		if err := get(t.Context(), client, url); err == nil {
			t.Errorf("%s is served", name)
		}
		client.CloseIdleConnections()
	}
}
