//go:build linux

package scenarios

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestApprovalInterrupted: who leaves the wait for a certificate is told that the
// request is approved; it is on record, and the same command goes on.
func TestApprovalInterrupted(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	desk := u.newDesk("")
	name, request := unique("jane"), unique("slow")
	const signer = "example.com/nobody"
	_, id, _ := desk.ticket("--for", name, "--signer", signer)
	secret, err := base64.StdEncoding.DecodeString(u.admin("get", "secret", "-n", "kube-system", "bootstrap-token-"+id,
		"-o", "jsonpath={.data.token-secret}"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(requestFor(t, request, name, "", 0), "kubernetes.io/kube-apiserver-client", signer, 1)
	u.ok(u.Run(t.Context(), lab.Run{Stdin: text, Env: []string{"KUBECONFIG=/dev/null"}}, u.Cluster.Kubectl(), "create",
		"-f", "-",
		"--server", u.Cluster.Server(), "--certificate-authority", u.Cluster.CAFile(), "--token", id+"."+string(secret)))
	words := strings.Join(parse[struct{ Words []string }](t, desk.ok("csr", "show", request, "-o", "json")).Words, " ")
	approve := []string{"helpdesk", "approve", request, "--words", words, "--yes"}

	started, ended := make(chan int, 1), make(chan lab.Result, 1)
	go func() {
		res, err := u.Run(t.Context(), lab.Run{Env: desk.env, Started: func(pid int) { started <- pid }}, u.Binary,
			append(approve, "--timeout", "10m")...)
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	pid := <-started
	poll.Until(t, "the event that the request was approved", func() bool {
		return strings.Contains(u.admin("get", "events", "-n", "default", "-o", "jsonpath={.items[*].involvedObject.name}"),
			request)
	})
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case res := <-ended:
		u.wantWords(res.Stderr, "kubehsm bootstrap-token delete "+id, request+" is approved", "not ended yet")
		if res.Code != 130 {
			t.Error(res)
		}
	case <-time.After(poll.Patience):
		t.Fatal("it waits on")
	}
	record, err := os.ReadFile(filepath.Join(desk.home, "state", "helpdesk.jsonl"))
	if err != nil || !strings.Contains(string(record), `"approve"`) || !strings.Contains(string(record), request) {
		t.Errorf("the record: %v\n%s", err, record)
	}
	if out := desk.ok(append(approve, "--timeout", "1s")...); !strings.Contains(out, "not ended yet") {
		t.Errorf("once more: %s", out)
	}
}
