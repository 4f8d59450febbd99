package enroll

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// TestNoKeyWithoutCluster: before a key is made the API server must answer; a run that has
// its key asks nothing more than it did.
func TestNoKeyWithoutCluster(t *testing.T) {
	ctx := context.Background()
	e, _ := flowtest.Env(t, "blue")
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
	flowtest.PointAt(t, e, server)
	r := begin(t, e, enrolling.Options{User: "jane", AcceptForecast: true}, &typist{})
	if _, err := r.keyForRequest(ctx); !errors.Is(err, apierror.ErrUnauthorized) || r.record.Request.KeyHash != "" {
		t.Errorf("a credential that is not known: %v, key %q", err, r.record.Request.KeyHash)
	}
	makeKey(t, r)
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
	other := begin(t, e, enrolling.Options{Name: "other", User: "jane"}, &typist{})
	if _, err := other.keyForRequest(ctx); !errors.Is(err, apierror.ErrUnreachable) ||
		other.record.Request.KeyHash != "" || other.record.Generating {
		t.Errorf("a server that is away: %v, key %q", err, other.record.Request.KeyHash)
	}
}

// TestNoKeyOnEKS: where the cluster signs no client certificates no key is made,
// even if another request looks signed; and nobody is told to wait on.
func TestNoKeyOnEKS(t *testing.T) {
	ctx := context.Background()
	e, _ := flowtest.Env(t, "blue")
	pending := `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"x","uid":"u","resourceVersion":"1"},` +
		`"spec":{"signerName":"kubernetes.io/kube-apiserver-client"},"status":{}}`
	signed := strings.Replace(pending, `"status":{}`, `"status":{"certificate":"LS0t"}`, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch path := r.URL.Path; {
		case path == "/version":
			_, _ = w.Write([]byte(`{"gitVersion":"v1.31.2-eks-7f9249a"}`))
		case strings.HasSuffix(path, "/certificatesigningrequests/x"):
			_, _ = w.Write([]byte(pending))
		case strings.HasSuffix(path, "/certificatesigningrequests") && r.URL.Query().Get("watch") == "":
			_, _ = w.Write([]byte(`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequestList","metadata":{},"items":[` + signed + `]}`))
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
		}
	}))
	defer server.Close()
	flowtest.PointAt(t, e, server)
	r := begin(t, e, enrolling.Options{User: "jane"}, &typist{})
	if _, err := r.keyForRequest(ctx); !errors.Is(err, request.ErrForecast) ||
		!strings.Contains(err.Error(), "Amazon EKS") || r.record.Request.KeyHash != "" {
		t.Errorf("a key on EKS: %v, key %q", err, r.record.Request.KeyHash)
	}
	r.record.Request.Name, r.record.Request.UID, r.record.Options.Timeout = "x", "u", time.Millisecond
	_, err := r.awaitApproval(ctx)
	if hint := hinting.Of(err); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(hint, "nothing is lost") ||
		!strings.Contains(hint, "Amazon EKS") {
		t.Errorf("a wait on EKS: %v, hint: %s", err, hint)
	}
}
