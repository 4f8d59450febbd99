package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/ui/flow"
)

// withOurs has a context of kubehsm's among the others.
func withOurs(f *fakeBackend) {
	f.contexts = append(f.contexts, flow.ContextView{Name: "prod-hsm", Cluster: "prod-hsm", Server: "https://127.0.0.1:40123/c/prod-hsm", User: "prod-hsm",
		UserKind: "kubehsm", Ours: true, APIServer: "https://prod.example.com:6443", Enrollment: "prod-hsm", File: "/home/jane/.kube/config"})
	f.contexts[0].UserKind, f.contexts[1].UserKind = "key-file", "exec"
}

func atContexts(r *rig) {
	atTokens(r)
	r.goTo("Contexts")
	r.sees("● trial-admin", "key in a file", "prod-hsm", "in 9 d")
}

func contextsRig(t *testing.T) (*fakeBackend, *rig) {
	f := newFake()
	withOurs(f)
	r := newRig(t, f, 100, 30)
	atContexts(r)
	return f, r
}

func TestContextHealth(t *testing.T) {
	_, r := contextsRig(t)
	r.press("enter")
	r.sees("84ms", "the cluster takes you for jane")
	r.press("down", "enter")
	r.sees("fails", "error: certificate has expired", "hint: renew it")
	r.press("up")
	r.sees("takes you for jane") // each keeps its own
}

func TestContextActions(t *testing.T) {
	f, r := contextsRig(t)
	r.press("w")
	r.sees("renew: it is not kubehsm's")
	r.press("end")
	r.press("m")
	r.sees("move to a token: it signs in with a token already")
	r.press("d")
	r.sees("nothing to change")
	r.opens("X")
	r.sees("Remove prod-hsm?", "The key stays on the token", "other-hsm", "+current-context: trial-admin")
	r.press("enter") // the focus is on no
	r.sees("Remove the enrolment: cancelled")
	r.opens("X")
	r.press("y")
	r.did(f, "unenroll prod-hsm")
	r.opens("u")
	r.press("y")
	r.did(f, "undo ")
	r.opens("H")
	r.sees("set prod-hsm", "set trial-hsm")
	r.press(`"trial"`, "enter")
	r.sees("Take this back?")
	r.press("y")
	r.did(f, "undo 1")
	r.press("g")
	r.opens("D")
	r.press("y")
	r.did(f, "drop trial-admin")
}

// TestRenew tells how far it is, and is cancelled.
func TestRenew(t *testing.T) {
	f, r := contextsRig(t)
	r.press("end", "w")
	r.until("it runs", func() bool { return len(r.m.dialogs.stack) > 0 })
	r.now = r.now.Add(5 * time.Second)
	r.sees("Renew prod-hsm", "waiting for somebody to approve it", "5 s")
	r.press("esc")
	r.sees("Renew prod-hsm: cancelled")
	r.press("w")
	go func() { f.renewed <- struct{}{} }() // the rig runs the program on this goroutine
	r.did(f, "renew prod-hsm")
	r.sees("renewed until 2027-02-19")
}

// TestMigrate opens the wizard for the identity of the old credential.
func TestMigrate(t *testing.T) {
	f, r := contextsRig(t)
	r.press("m")
	r.sees("must be considered copied", "/home/jane/.kube/jane.key")
	r.press("esc")
	r.sees("Which token")
	r.press("enter")
	r.sees("A new key")
	r.press("enter")
	r.sees("Algorithm")
	r.press("enter")
	r.sees("Which cluster", "▌ trial-admin")
	r.press("enter")
	r.sees("Who is it for", "jane", "dev")
	if strings.Contains(strings.Join(f.deeds, " "), "drop") {
		t.Error("the old context is gone before the new one works")
	}
}

func TestRequestsOfAContext(t *testing.T) {
	_, r := contextsRig(t)
	r.press("down", "v")
	r.sees("2 requests pending")
	r.press("enter")
	r.sees("Requests in staging")
}
