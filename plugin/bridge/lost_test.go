package bridge

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
)

// TestLostConnection: where the connection to the API server breaks before an answer,
// client-go asks again if it only reads, as it does where its own connection breaks. What
// may have changed something is not sent again.
func TestLostConnection(t *testing.T) {
	t.Parallel() // client-go waits before it asks again
	for name, o := range map[string]bridgetest.Options{"HTTP/2": {}, "HTTP/1.1": {HTTP1: true}} {
		t.Run("reading, "+name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{api: o})
			c := r.issue("prod", Client{})
			client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: r.ep.URL("prod"),
				TLSClientConfig: rest.TLSClientConfig{CAData: r.ep.CAPEM, CertData: c.Certificate, KeyData: c.Key},
				ContentConfig:   rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})
			check(t, err)
			b, err := client.Get().AbsPath("/cut").DoRaw(t.Context())
			if n := r.api.Cuts.Load(); err != nil || n != 2 || !strings.Contains(string(b), "Success") {
				t.Errorf("%d requests: %s %v", n, b, err)
			}
		})
		t.Run("changing, "+name, func(t *testing.T) {
			r := newRig(t, rigOptions{api: o})
			resp, err := r.client(r.issue("prod", Client{})).Post(r.ep.URL("prod")+"/cut", "application/json",
				strings.NewReader("{}"))
			check(t, err)
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			check(t, err)
			if n := r.api.Cuts.Load(); resp.StatusCode != http.StatusServiceUnavailable || n != 1 ||
				resp.Header["Retry-After"] != nil {
				t.Errorf("%d requests: %s %v %s", n, resp.Status, resp.Header, b)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) { // directly, a connection that is refused is not tried again
		r := newRig(t, rigOptions{})
		r.api.Close()
		resp, err := r.client(r.issue("prod", Client{})).Get(r.ep.URL("prod") + "/version")
		check(t, err)
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header["Retry-After"] != nil {
			t.Errorf("%s %v", resp.Status, resp.Header)
		}
	})
}
