//go:build linux

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// person is enrolled, with a pod to work in, and counts runs of the plugin.
func person(t *testing.T) (*lab.Person, lab.Plugin) {
	p := lab.ForTest(t, lab.Options{})
	p.Must(p.Enroll(t.Context()))
	p.Must(p.Cluster.RunPod(t.Context(), "default", "p"))
	plugin, err := p.InterposePlugin(0)
	p.Must(err)
	return p, plugin
}

// cached is a program that debian.sh or make put into the checkout's .cache.
func cached(t *testing.T, path ...string) string {
	root, err := controlplane.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	return need.File(t, filepath.Join(append([]string{root, ".cache"}, path...)...))
}

// TestKubectlOldAndNew: one entry serves both. kubectl 1.20 knows version v1beta1
// of the plugin's protocol only.
func TestKubectlOldAndNew(t *testing.T) {
	old := cached(t, "debian", "usr", "bin", "kubectl")
	p, plugin := person(t)
	kubectl := func(t *testing.T, program, stdin string, args ...string) string {
		t.Helper()
		p := p.In(t)
		before := plugin.Runs()
		res, err := p.Run(t.Context(), lab.Run{Stdin: stdin}, program, args...)
		out, err := lab.Succeeded(res, err)
		p.Must(err)
		want := 1
		if strings.Contains(strings.Join(args, " "), "-f -") {
			want = 2 // kubectl makes two clients for it
		}
		if n := plugin.Runs() - before; n < 1 || n > want {
			t.Errorf("%s: the plugin was run %d times", strings.Join(args, " "), n)
		}
		return out
	}
	for program, version := range map[string]string{old: "v1.20", p.Cluster.Kubectl(): "v1.37"} {
		t.Run(version, func(t *testing.T) {
			name := "by-" + strings.ReplaceAll(version, ".", "-")
			if out := kubectl(t, program, "", "version", "-o", "json"); !strings.Contains(out, `"gitVersion": "`+version) {
				t.Errorf("not the version that it is to be: %s", out)
			}
			kubectl(t, program, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\ndata: {a: b}\n", "apply", "-f",
				"-")
			if out := kubectl(t, program, "", "get", "configmap", name, "-o", "jsonpath={.data.a}"); out != "b" {
				t.Errorf("got %q", out)
			}
			if out := kubectl(t, program, "through\n", "exec", "-i", "p", "--", "cat"); out != "through\n" {
				t.Errorf("exec: got %q", out)
			}
			kubectl(t, program, "", "delete", "configmap", name)
		})
	}
}

// TestPython: another implementation of the protocol, which tells the plugin
// nothing of the cluster.
func TestPython(t *testing.T) {
	const python = "/usr/bin/python3"
	if out, err := exec.Command(need.File(t, python), "-c", "import kubernetes").CombinedOutput(); err != nil {
		need.Missing(t, "Python's kubernetes module: "+string(out))
	}
	p, plugin := person(t)
	script, err := filepath.Abs("testdata/client.py")
	p.Must(err)
	out, err := lab.Succeeded(p.Run(t.Context(), lab.Run{}, python, script))
	p.Must(err)
	for _, want := range []string{"created from-python", "watched from-python", "forbidden 403", "exec inside trouble 0"} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("%q is not in %q", want, out)
		}
	}
	if n := plugin.Runs(); n != 1 {
		t.Errorf("the plugin was run %d times", n)
	}
}
