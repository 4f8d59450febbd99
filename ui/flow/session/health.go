package session

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// Health is what came of signing in to a context's cluster.
type Health struct {
	Context string `json:"context"`
	Server  string `json:"server"`
	// User and Groups are whom the cluster takes the caller for; empty where the
	// cluster is too old to tell (before Kubernetes 1.28).
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// Took is how long it took.
	Took time.Duration `json:"took"`
}

// CheckContext signs in to the cluster of a context as kubectl would, and asks
// it who that is; "" is the current context. The user's token may ask for its
// PIN or a touch for that.
func (a Agent) CheckContext(ctx context.Context, name string) (Health, error) {
	c, err := a.Env.Rules().Get(ctx, name)
	if err != nil {
		return Health{}, err
	}
	h := Health{Context: c.Name, Server: c.Cluster.Server}
	began := time.Now()
	client, err := cluster.Access{Env: a.Env}.Client(ctx, c.Name)
	if err != nil {
		return h, err
	}
	me, err := client.Rights().WhoAmI(ctx)
	if errors.Is(err, csr.ErrNotServed) { // an old API server without this API has let us in
		err = nil
	}
	h.Took = time.Since(began).Round(time.Millisecond)
	h.User, h.Groups = me.User, me.Groups
	if err != nil && strings.HasPrefix(h.Server, "https://127.0.0.1:") {
		err = hint.With(err, "`kubehsm doctor` looks at the agent and its bridge")
	}
	return h, err
}
