package enroll

import (
	"os"
	"os/exec"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestSettleProxy runs in processes of their own: net/http reads the environment
// once.
func TestSettleProxy(t *testing.T) {
	const ask = "KUBEHSM_TEST_SETTLE"
	if server := os.Getenv(ask); server != "" {
		c, err := settleProxy(cluster.Cluster{Server: server})
		must.OK(t, err)
		t.Logf("result: %q %v", c.ProxyURL, c.Direct)
		if want := os.Getenv(ask + "_WANT"); c.ProxyURL != want || c.Direct != (os.Getenv(ask+"_DIRECT") != "") {
			t.Fatalf("%q, direct: %v", c.ProxyURL, c.Direct)
		}
		return
	}
	for name, env := range map[string][]string{
		"none":           {ask + "_DIRECT=1"},
		"a proxy":        {"HTTPS_PROXY=http://proxy.example:3128", ask + "_WANT=http://proxy.example:3128"},
		"not for this":   {"HTTPS_PROXY=http://proxy.example:3128", "NO_PROXY=.example", ask + "_DIRECT=1"},
		"with a secret":  {"HTTPS_PROXY=http://me:geheim@proxy.example:3128"},
		"another scheme": {"HTTPS_PROXY=socks5h://proxy.example"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSettleProxy$", "-test.v")
		cmd.Env = append([]string{ask + "=https://api.example:6443"}, env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
