package enroll

import (
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// Until there is a key, the cluster is the one that the context names now: the
// request is filed there.
func TestClusterOfALaterRun(t *testing.T) {
	e, _ := flowtest.Env(t, "blue")
	o := enrolling.Options{Name: "prod-hsm", User: "jane"}
	begin(t, e, o, &typist{})
	moved := strings.Replace(flowtest.Kubeconfig, "https://10.0.0.1:6443", "https://10.0.0.9:6443", 1)
	must.OK(t, os.WriteFile(e.Kubeconfig, []byte(moved), 0o600))
	second := begin(t, e, o, &typist{})
	if got := second.record.Cluster.Server; got != "https://10.0.0.9:6443" {
		t.Errorf("before there is a key: %s", got)
	}
}
