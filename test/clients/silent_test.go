//go:build linux

package clients

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
)

// earlier writes the kubeconfig as kubehsm wrote it before entries had a request
// and its version for clients that send none, and names the file.
func earlier(p *lab.Person) string {
	config, err := clientcmd.LoadFromFile(p.Kubeconfig)
	p.Must(err)
	user := config.AuthInfos[lab.Enrolled].Exec
	env := user.Env[:0]
	for _, v := range user.Env {
		if v.Name != "KUBERNETES_EXEC_INFO" {
			env = append(env, v)
		}
	}
	user.Args, user.Env = user.Args[:3], env
	file := filepath.Join(p.Dir, "earlier")
	p.Must(clientcmd.WriteToFile(*config, file))
	return file
}

// tries runs a program with today's entry and with an earlier one.
func tries(t *testing.T, want []string, program ...string) {
	p, plugin := person(t)
	for _, kubeconfig := range []string{p.Kubeconfig, earlier(p)} {
		before := plugin.Runs()
		run := lab.Run{Env: []string{"KUBECONFIG=" + kubeconfig}}
		out, err := lab.Succeeded(p.Run(t.Context(), run, program[0], program[1:]...))
		p.Must(err)
		for _, line := range want {
			if !strings.Contains(out, line+"\n") {
				t.Errorf("%s: %q is not in %q", filepath.Base(kubeconfig), line, out)
			}
		}
		if n := plugin.Runs() - before; n == 0 {
			t.Errorf("%s: the plugin was not run", filepath.Base(kubeconfig))
		}
	}
}

// TestJavaScript: this client sets no KUBERNETES_EXEC_INFO. The second major
// version sends its requests by Node's fetch, with a header that browsers send.
func TestJavaScript(t *testing.T) {
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	node := cached(t, "javascript", "node_modules", "node-linux-"+arch, "bin", "node")
	script := cached(t, "javascript", "client.mjs")
	for _, client := range []string{"client-node-1", "client-node-2"} {
		t.Run(client, func(t *testing.T) {
			tries(t, []string{"created from-javascript", "listed 1", "applied c", "watched from-javascript", "forbidden 403",
				"exec inside Success"}, node, script, client)
		})
	}
}

// TestRuby: neither does this one.
func TestRuby(t *testing.T) {
	const ruby = "/usr/bin/ruby"
	if out, err := exec.Command(need.File(t, ruby), "-e", "require 'kubeclient'").CombinedOutput(); err != nil {
		need.Missing(t, "Ruby's kubeclient: "+string(out))
	}
	script, err := filepath.Abs("testdata/client.rb")
	if err != nil {
		t.Fatal(err)
	}
	tries(t, []string{"created from-ruby", "listed 1", "watched from-ruby", "patched c", "forbidden 403"}, ruby, script)
}
