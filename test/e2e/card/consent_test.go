//go:build linux && cgo

package card

import (
	"strings"
	"testing"
)

// TestConsentByTouch: where the key wants a touch for every use, a touch is the
// yes, and the token signs what was agreed to.
func TestConsentByTouch(t *testing.T) {
	p := newPerson(t)
	p.enrollTouched()
	p.ok(p.Kubehsm(t.Context(), "consent", "set", "prod-hsm", "--policy", "writes", "--yes"))

	s := p.terminal(p.Cluster.Kubectl(), "create", "configmap", "touched-"+strings.ToLower(t.Name()))
	p.touch(s) // another policy begins with another connection
	s.WaitFor("create configmaps", `Namespace     "default"`, "prod-hsm at ", "to allow it")
	p.touch(s)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("created") {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	p.atRest("a consent")
	out := p.ok(p.Kubehsm(t.Context(), "audit"))
	if !strings.Contains(out, `create configmaps in "default", touch, signed`) {
		t.Errorf("the audit log:\n%s", out)
	}
	// On a terminal in raw mode no touch line would be seen: the question comes first.
	if err := p.Cluster.RunPod(t.Context(), "default", "touched"); err != nil {
		t.Fatal(err)
	}
	s = p.terminal("/bin/sh", "-c", "kubectl exec -it touched -- echo in the pod")
	s.WaitFor("pods/exec", `"touched"`, "Allow it, and touch the token then? [y/N]")
	s.Type("y\r")
	<-p.wanted
	<-p.touched
	s.WaitFor("in the pod")
	s.Exit()
	s = p.terminal("/bin/sh", "-c", "kubectl get pods >/dev/null && echo read; kubectl delete configmap touched-"+
		strings.ToLower(t.Name()))
	s.WaitFor("read", "delete configmaps", `"touched-`)
	p.touch(s)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("deleted") {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
}
