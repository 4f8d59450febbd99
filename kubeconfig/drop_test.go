package kubeconfig

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

const shared = `apiVersion: v1
kind: Config
clusters:
- {name: c, cluster: {server: "https://127.0.0.1:1"}}
- {name: d, cluster: {server: "https://127.0.0.1:2"}}
contexts:
- {name: a, context: {cluster: c, user: u}}
- {name: b, context: {cluster: c, user: v}}
users:
- {name: u, user: {token: geheim}}
- {name: v, user: {token: other}}
current-context: a
`

// TestPlanDrop: a context goes with what only it uses, can be brought back, and
// nobody who stays is named as a loser.
func TestPlanDrop(t *testing.T) {
	r, path := one(t, shared)
	j := Backups(folder(t))
	p, err := r.PlanDrop(context.Background(), "a")
	must.OK(t, err)
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, `cluster "c" stays: it is used by b`) ||
		!strings.Contains(notes, "no context is current") || strings.Contains(notes, "will not work") {
		t.Errorf("notes: %s", notes)
	}
	if strings.Contains(p.Diff(), "geheim") {
		t.Error("the difference shows a token")
	}
	mustApply(t, p, j)
	list, err := r.List(context.Background())
	if now := text(t, path); err != nil || len(list) != 1 || list[0].Name != "b" || strings.Contains(now, "geheim") ||
		!strings.Contains(now, "name: c") || !strings.Contains(now, "name: d") {
		t.Errorf("%v, %v:\n%s", list, err, now)
	}
	mustUndo(t, r, j)
	if text(t, path) != shared {
		t.Errorf("undo left %s", text(t, path))
	}
	if _, err := r.PlanDrop(context.Background(), "z"); !errors.Is(err, ErrNoContext) {
		t.Errorf("got %v", err)
	}
}

// TestCluster: --cluster takes the place of the context's.
func TestCluster(t *testing.T) {
	r, _ := one(t, shared)
	r.Cluster = "d"
	c, err := r.Get(context.Background(), "")
	if err != nil || c.Name != "a" || c.Cluster.Server != "https://127.0.0.1:2" || c.User.Name != "u" {
		t.Errorf("%+v, %v", c, err)
	}
	rc, err := r.RESTConfig(context.Background(), "b")
	if err != nil || rc.Host != "https://127.0.0.1:2" || rc.BearerToken != "other" {
		t.Errorf("%+v, %v", rc, err)
	}
	r.Cluster = "nowhere"
	if _, err := r.RESTConfig(context.Background(), "a"); !errors.Is(err, ErrNoCluster) {
		t.Errorf("got %v", err)
	}
}
