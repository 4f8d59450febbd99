//go:build linux

package transparency

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	t.Run("versions", func(t *testing.T) {
		p := p.In(t)
		const now = "client.authentication.k8s.io/v1beta1"
		for version, want := range map[string]string{
			"client.authentication.k8s.io/v1": "namespace/default", now: "namespace/default",
			"client.authentication.k8s.io/v1alpha1": "exec plugin: invalid apiVersion",
			"client.authentication.k8s.io/v2":       "exec plugin: invalid apiVersion",
		} {
			config, err := os.ReadFile(p.Kubeconfig)
			p.Must(err)
			other := filepath.Join(p.Dir, "version.kubeconfig")
			p.Must(os.WriteFile(other, []byte(strings.Replace(string(config), now, version, 1)), 0o600))
			res, err := p.Kubectl(t.Context(), "--kubeconfig", other, "get", "namespaces", "-o", "name")
			p.Must(err)
			if !strings.Contains(res.Stdout+res.Stderr, want) {
				t.Errorf("%s: %s", version, res)
			}
		}
	})
	t.Run("other credentials take precedence", func(t *testing.T) {
		p := p.In(t)
		keyFile := filepath.Join(p.Cluster.Dir(), "pki", "admin.key")
		certificate := filepath.Join(p.Cluster.Dir(), "pki", "admin.crt")
		for _, c := range []struct{ flags, words string }{
			{"--token=abc", "takes no bearer token or password"},
			{"--username=jane --password=secret", "takes no bearer token or password"},
			{"--client-certificate=" + certificate + " --client-key=" + keyFile, "accepts only client certificates that the agent issued"},
		} {
			before := plugin.Runs()
			res, err := p.Kubectl(t.Context(), append(strings.Fields(c.flags), "get", "namespaces")...)
			p.Must(err)
			if res.Code != 1 || !strings.Contains(res.Stderr, c.words) {
				t.Errorf("%s: want words about %q: %s", c.flags, c.words, res)
			}
			if n := plugin.Runs() - before; n > 0 && !strings.Contains(c.flags, "client-certificate") {
				t.Errorf("%s: the plugin was run %d times", c.flags, n)
			}
		}
	})
	t.Run("twenty at once dial once", func(t *testing.T) {
		p := p.In(t)
		p.Do("agent", "stop")
		p.Must(p.Unlock(t.Context()))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := lab.Succeeded(p.Kubectl(t.Context(), "get", "namespaces")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		st, err := p.Status(t.Context())
		p.Must(err)
		if st.Dials != 1 || st.Signatures != 1 {
			t.Errorf("%d dials and %d signatures", st.Dials, st.Signatures)
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
			t.Error(fmt.Sprint("the plugin was run ", n, " times"))
		}
	})
}
