package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestAnswerBreaksOff: an answer that breaks off is reported once, in our words. client-go's
// own words appear nowhere, not even on the process's stderr.
func TestAnswerBreaksOff(t *testing.T) {
	b := newBench(t)
	server := flowtest.New(t, "jane")
	flowtest.PointAt(t, &env.Env{Kubeconfig: filepath.Join(b.home, "kubeconfig")}, server.Server)
	server.Put(flowtest.Requests, flowtest.Object{"metadata": flowtest.Object{"name": "jane-1"}})
	server.Fail(flowtest.Cut, "get certificatesigningrequests")
	past, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must.OK(t, err)
	defer past.Close()
	stderr := os.Stderr
	os.Stderr = past
	defer func() { os.Stderr = stderr }()
	b.fails(1, "cannot reach the API server: it ended in the middle of its answer\nhint: check that ", "csr", "show", "jane-1")
	if info, err := past.Stat(); err != nil || info.Size() > 0 {
		t.Errorf("%d bytes past us, %v", info.Size(), err)
	}
}
