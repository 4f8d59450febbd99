package session

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestCheckContext: whom the cluster takes the caller for, or why it cannot be told.
func TestCheckContext(t *testing.T) {
	for _, c := range []struct {
		name, context string
		before        func(context.CancelFunc, *flowtest.Server)
		want          error
		hint          string
	}{
		{name: "admitted"},
		{name: "no such context", context: "none", want: kubeconfig.ErrNoContext},
		{name: "denied", before: func(_ context.CancelFunc, s *flowtest.Server) { s.Break(http.StatusUnauthorized) },
			want: apierror.ErrUnauthorized, hint: "`kubehsm doctor` looks at the agent and its bridge"},
		{name: "API server gone", before: func(_ context.CancelFunc, s *flowtest.Server) { s.Close() },
			want: apierror.ErrUnreachable, hint: "`kubehsm doctor` looks at the agent and its bridge"},
		{name: "ctrl-c", before: func(stop context.CancelFunc, _ *flowtest.Server) { stop() }, want: context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, _ := flowtest.Env(t)
			server := flowtest.New(t, "jane", "dev")
			flowtest.PointAt(t, e, server.Server)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if c.before != nil {
				c.before(stop, server)
			}
			h, err := Agent{Env: e}.CheckContext(ctx, c.context)
			if !errors.Is(err, c.want) || !strings.Contains(hinting.Of(err), c.hint) {
				t.Fatalf("got %v (hint: %s), want %v", err, hinting.Of(err), c.want)
			}
			if c.want == nil && (h.User != "jane" || h.Server != server.URL || h.Context != "Prod/EU west") {
				t.Errorf("%+v", h)
			}
			if c.want != nil && h.User != "" {
				t.Errorf("an error, and the user is %q", h.User)
			}
		})
	}
}
