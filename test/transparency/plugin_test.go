//go:build linux

package transparency

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// TestPlugin is what KEP-541 asks of exec plugins and their clients, as far as
// it is not tested elsewhere: prompts are in package e2e, informers in informers.
func TestPlugin(t *testing.T) {
	t.Parallel()
	p := lab.ForTest(t, lab.Options{Cluster: controlplane.ForTest(t)})
	p.Must(p.Enroll(t.Context()))
	plugin, err := p.InterposePlugin(0)
	p.Must(err)

	t.Run("run only as needed", func(t *testing.T) {
		p := p.In(t)
		p.Must(p.Cluster.RunPod(t.Context(), "default", "needed"))
		for _, c := range []struct {
			command, stdin string
			most           int
		}{
			{"api-resources", "", 1}, // many requests, as nothing is cached yet
			{"get configmaps,secrets,pods,services -A", "", 1},
			{"exec needed -- true", "", 1}, // connections of its own
			{"apply -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: needed, namespace: default}\n", 2},
		} {
			before := plugin.Runs()
			res, err := p.Run(t.Context(), lab.Run{Stdin: c.stdin}, p.Cluster.Kubectl(), strings.Fields(c.command)...)
			_, _ = lab.Succeeded(res, err) // some of what it asks for is forbidden
			if n := plugin.Runs() - before; n < 1 || n > c.most {
				t.Errorf("%s: %d runs, want at most %d", c.command, n, c.most)
			}
		}
	})
	t.Run("no hot loop while nobody can be asked", func(t *testing.T) {
		p := p.In(t)
		p.Do("agent", "lock")
		before := plugin.Runs()
		res, err := p.Kubectl(t.Context(), "get", "namespaces")
		p.Must(err)
		if res.Code != 1 || !strings.Contains(res.Stderr, "kubehsm unlock") {
			t.Error(res)
		}
		if n := plugin.Runs() - before; n < 1 || n > 10 { // kubectl tries discovery five times
			t.Errorf("the plugin was run %d times", n)
		}
	})
}
