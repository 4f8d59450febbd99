//go:build linux && helm

package clients

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// TestHelm installs, upgrades and removes a chart. It is part of `make clients`: helm
// is too much to compile for every run of the tests.
func TestHelm(t *testing.T) {
	helm := built(t, "helm")
	p, plugin := person(t)
	chart, err := filepath.Abs("testdata/chart")
	p.Must(err)
	for _, step := range []struct {
		args string
		want string
	}{
		{"install one " + chart + " --set word=first", "STATUS: deployed"},
		{"upgrade one " + chart + " --set word=second", "REVISION: 2"},
		{"get manifest one", "word: second"},
		{"list", "kubehsm-test"},
		{"rollback one 1", "Rollback was a success"},
		{"history one", "Rollback to 1"},
		{"uninstall one", "uninstalled"},
	} {
		before := plugin.Runs()
		out, err := lab.Succeeded(p.Run(t.Context(), lab.Run{}, helm, strings.Fields(step.args)...))
		p.Must(err)
		if !strings.Contains(out, step.want) {
			t.Errorf("helm %s: %q is not in %s", step.args, step.want, out)
		}
		if n := plugin.Runs() - before; n == 0 {
			t.Errorf("helm %s: the plugin was not run", step.args)
		}
	}
}
