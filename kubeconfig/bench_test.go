package kubeconfig

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubehsm/kubehsm/test/must"
)

// big is a kubeconfig of n contexts, each with its own cluster and user, as the
// cloud tools write them; ca is the size of the CA data.
func big(n, ca int) []byte {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nclusters:\n")
	for i := range n {
		fmt.Fprintf(&b,
			"- cluster:\n    certificate-authority-data: %s\n    server: https://10.0.0.1:%d\n  name: cluster-%d\n",
			strings.Repeat("QUJD", ca/4), i, i)
	}
	b.WriteString("contexts:\n")
	for i := range n {
		fmt.Fprintf(&b, "- context:\n    cluster: cluster-%d\n    namespace: default\n    user: user-%d\n  name: ctx-%d\n", i,
			i, i)
	}
	b.WriteString("current-context: ctx-0\nkind: Config\npreferences: {}\nusers:\n")
	for i := range n {
		fmt.Fprintf(&b,
			"- name: user-%d\n  user:\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      args:\n      - eks\n      - get-token\n      command: aws\n      env: null\n      interactiveMode: IfAvailable\n      provideClusterInfo: false\n", i)
	}
	return []byte(b.String())
}

// BenchmarkBig measures plan and apply with 5,000 contexts.
func BenchmarkBig(b *testing.B) {
	for _, ca := range []int{0, 1460} {
		data := big(5000, ca)
		name := fmt.Sprintf("%dMB/", len(data)>>20)
		b.Run(name+"plan+apply", func(b *testing.B) {
			r, path := one(b, string(data))
			j := Backups(b.TempDir())
			for b.Loop() {
				b.StopTimer()
				must.OK(b, os.WriteFile(path, data, 0o600))
				b.StartTimer()
				mustApply(b, mustPlan(b, r, entry("prod")), j)
			}
		})
	}
}

// BenchmarkContexts measures what a person with 300 contexts waits for.
func BenchmarkContexts(b *testing.B) {
	r, _ := one(b, string(big(300, 1460)))
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.List(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("use", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.PlanUse(b.Context(), "ctx-7"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// modify adds a context as `kubectl config set-context` does.
func modify(path, name string) error {
	access := clientcmd.NewDefaultPathOptions()
	access.LoadingRules.ExplicitPath = path
	c, err := access.GetStartingConfig()
	if err != nil {
		return err
	}
	c = c.DeepCopy()
	c.Contexts[name] = api.NewContext()
	c.Contexts[name].Cluster, c.Contexts[name].AuthInfo = name, name
	return clientcmd.ModifyConfig(access, *c, false)
}
