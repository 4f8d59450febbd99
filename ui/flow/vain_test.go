package flow

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
)

// TestVainKey: before a key is made the API server must answer; a run that has
// its key asks nothing more than it did.
func TestVainKey(t *testing.T) {
	ctx := context.Background()
	e, _ := testEnv(t, "blue")
	var mu sync.Mutex
	var asked []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`))
	}))
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := strings.Replace(testKubeconfig, `https://10.0.0.1:6443", certificate-authority-data: "`,
		server.URL+`", certificate-authority-data: "`+base64.StdEncoding.EncodeToString(authority), 1)
	if err := os.WriteFile(e.Kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r := begin(t, e, EnrollOptions{User: "jane", AcceptForecast: true}, &typist{})
	if _, err := r.keyForRequest(ctx); !errors.Is(err, csr.ErrUnauthorized) || r.j.KeyHash != "" {
		t.Errorf("a credential that is not known: %v, key %q", err, r.j.KeyHash)
	}
	if _, err := r.makeKey(ctx); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	asked = nil
	mu.Unlock()
	if _, err := r.keyForRequest(ctx); err != nil {
		t.Errorf("with its key: %v", err)
	}
	if len(asked) > 0 {
		t.Errorf("a run that has its key asked for %q", asked)
	}
	server.Close()
	other := begin(t, e, EnrollOptions{Name: "other", User: "jane"}, &typist{})
	if _, err := other.keyForRequest(ctx); !errors.Is(err, csr.ErrUnreachable) || other.j.KeyHash != "" || other.j.Generating {
		t.Errorf("a server that is away: %v, key %q", err, other.j.KeyHash)
	}
}
