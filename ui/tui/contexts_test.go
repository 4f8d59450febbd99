package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
)

// withOurs has a context of kubehsm's among the others.
func withOurs(f *fakeBackend) {
	f.contexts = append(f.contexts, contexts.View{Name: "prod-hsm", Cluster: "prod-hsm", Server: "https://127.0.0.1:40123/c/prod-hsm", User: "prod-hsm",
		UserKind: "kubehsm", Ours: true, APIServer: "https://prod.example.com:6443", Enrollment: "prod-hsm", File: "/home/jane/.kube/config"})
	f.contexts[0].UserKind, f.contexts[1].UserKind = "key-file", "exec"
}

func atContexts(r *rig) {
	atTokens(r)
	r.goTo("Contexts")
	r.Sees("● trial-admin", "key in a file", "prod-hsm", "in 9 d")
}

func contextsRig(t *testing.T) (*fakeBackend, *rig) {
	f := newFake()
	withOurs(f)
	r := newRig(t, f, 100, 30)
	atContexts(r)
	return f, r
}

func TestContextActions(t *testing.T) {
	f, r := contextsRig(t)
	r.Press("w")
	r.Sees("renew: it is not kubehsm's")
	r.Press("end")
	r.Press("m")
	r.Sees("move to a token: it signs in with a token already")
	r.Press("d")
	r.Sees("nothing to change")
	r.opens("X")
	r.Sees("Remove prod-hsm?", "The key stays on the token", "other-hsm", "+current-context: trial-admin")
	r.Press("enter") // the focus is on no
	r.Sees("Remove the enrollment: cancelled")
	r.opens("X")
	r.Press("y")
	r.did(f, "unenroll prod-hsm")
	r.opens("u")
	r.Press("y")
	r.did(f, "undo ")
	r.opens("H")
	r.Sees("set prod-hsm", "set trial-hsm")
	r.Press(`"trial"`, "enter")
	r.Sees("Take this back?")
	r.Press("y")
	r.did(f, "undo 1")
	r.Press("g")
	r.opens("D")
	r.Press("y")
	r.did(f, "drop trial-admin")
}

// TestRenew tells how far it is, and is cancelled.
func TestRenew(t *testing.T) {
	f, r := contextsRig(t)
	r.Press("end", "w")
	r.Until("it runs", func() bool { return len(r.m.dialogs.stack) > 0 })
	r.Time = r.Time.Add(5 * time.Second)
	r.Sees("Renew prod-hsm", "waiting for somebody to approve it", "5 s")
	r.Press("esc")
	r.Sees("Renew prod-hsm: cancelled")
	r.Press("w")
	go func() { f.renewed <- struct{}{} }() // the rig runs the program on this goroutine
	r.did(f, "renew prod-hsm")
	r.Sees("renewed until 2027-02-19")
}

// TestMigrate opens the wizard for the identity of the old credential.
func TestMigrate(t *testing.T) {
	f, r := contextsRig(t)
	r.Press("m")
	r.Sees("must be considered copied", "/home/jane/.kube/jane.key")
	r.Press("esc")
	r.Sees("Which token")
	r.Press("enter")
	r.Sees("A new key")
	r.Press("enter")
	r.Sees("Algorithm")
	r.Press("enter")
	r.Sees("Which cluster", "▌ trial-admin")
	r.Press("enter")
	r.Sees("Who is it for", "jane", "dev")
	if strings.Contains(strings.Join(f.deeds, " "), "drop") {
		t.Error("the old context is gone before the new one works")
	}
}
