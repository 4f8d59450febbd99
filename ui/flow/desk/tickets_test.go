package desk

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestTicketThatWasNotMade: a ticket that the cluster may have all the same is deleted, and if it
// cannot be, the error says how.
func TestTicketThatWasNotMade(t *testing.T) {
	w := desk(t)
	e := w.Env
	for _, c := range []struct {
		name         string
		post, delete flowtest.Fate
		left         bool
	}{
		{"refused", 403, flowtest.Dropped, false},
		{"the answer is lost, and it was not made", flowtest.Dropped, 404, false},
		{"the server broke", 500, 404, false},
		{"nobody knows", flowtest.Dropped, 403, true},
	} {
		w.Server.Before(func(right string) flowtest.Fate {
			return map[string]flowtest.Fate{"create secrets": c.post, "delete secrets": c.delete}[right]
		})
		if _, err := NewTickets(e).Make(t.Context(), "", TicketOptions{Terms: ticket.Terms{User: "jane"}}); err == nil ||
			strings.Contains(hinting.Of(err), "bootstrap-token delete") != c.left {
			t.Errorf("%s: %v, hint %q", c.name, err, hinting.Of(err))
		}
	}
	w = desk(t) // to the former server a connection may be open
	w.Server.Close()
	if _, err := NewTickets(w.Env).Make(t.Context(), "", TicketOptions{Terms: ticket.Terms{User: "jane"}}); !errors.Is(err,
		apierror.ErrUnreachable) {
		t.Errorf("without a server: %v", err)
	}
}

// TestJoinLine: a token that can only file requests is made, and the line has the cluster's authority in it
// where the cluster shows no cluster-info, or where that is asked for.
func TestJoinLine(t *testing.T) {
	w := desk(t)
	b := NewBootstrapTokens(w.Env)
	b.patience = 100 * time.Millisecond
	o := LineOptions{TTL: time.Hour, Lifetime: DefaultLineLifetime, Groups: []string{"dev", "a b"}, Name: "prod"}
	const ends = " --group dev --group 'a b' --name prod --expiration 168h"
	v, err := b.JoinLine(t.Context(), "", o)
	if err != nil || len(v.Warnings) > 0 || !strings.HasPrefix(v.Join, "kubehsm join --discovery-file 'data:") || !strings.HasSuffix(v.Join, ends) ||
		!strings.Contains(v.Join, " --tls-bootstrap-token "+v.Token+" ") {
		t.Fatalf("%s, %v", v.Join, err)
	}
	var secret struct{ Data map[string][]byte }
	if !w.Server.Get(flowtest.Secrets, "bootstrap-token-"+v.ID, &secret) ||
		string(secret.Data["auth-extra-groups"]) != ticket.Group {
		t.Errorf("the cluster has %q", secret.Data)
	}
	w.Server.Allow("get configmaps")
	w.Server.Put("/api/v1/namespaces/kube-public/configmaps", flowtest.Object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": flowtest.Object{"name": "cluster-info", "namespace": "kube-public"},
		"data":     flowtest.Object{"kubeconfig": "apiVersion: v1"}})
	if v, err = b.JoinLine(t.Context(), "", o); err != nil || !strings.Contains(v.Join, "'data:") {
		t.Errorf("where nobody signs cluster-info: %s, %v", v.Join, err)
	}
	o.Whole, o.Lifetime = true, 24*time.Hour
	if v, err = b.JoinLine(t.Context(), "", o); err != nil || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "weekend") {
		t.Errorf("of a day: %q", v.Warnings)
	}
	if v, err = b.JoinLine(t.Context(), "", o); err != nil || !strings.Contains(v.Join, "'data:") {
		t.Errorf("%s, %v", v.Join, err)
	}
	w.Server.Forbid("create secrets")
	if _, err := b.JoinLine(t.Context(), "", o); err == nil {
		t.Error("a line was made without a token")
	}
	o.FileOnly, o.TTL = true, time.Minute
	if _, err := b.JoinLine(t.Context(), "", o); !errors.Is(err, bootstraptoken.ErrInvalid) {
		t.Errorf("a file-only token for a minute: %v", err)
	}
	config, err := os.ReadFile(w.Env.Kubeconfig)
	must.OK(t, err)
	config = regexp.MustCompile(`certificate-authority-data: "[^"]*"`).ReplaceAll(config, []byte(`certificate-authority-data: ""`))
	must.OK(t, os.WriteFile(w.Env.Kubeconfig, config, 0o600))
	o.TTL = time.Hour
	if _, err := b.JoinLine(t.Context(), "", o); err == nil || !strings.Contains(err.Error(), "names no certificate authority") {
		t.Errorf("without the cluster's authority: %v", err)
	}
}
