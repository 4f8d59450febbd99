package tui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFollowCluster(t *testing.T) {
	f, r := contextsRig(t)
	r.Press("end")
	r.opens("F")
	r.Sees("ask the cluster")
	r.Press("enter")
	r.Sees("Follow it?", "server: https://old:6443, now https://new:6443")
	r.Press("y")
	r.did(f, "follow prod-hsm")
	r.opens("F")
	r.Press(`"https://new:6443"`, "enter")
	r.Sees("Does prod-hsm lead to new:6443 from now on?", "-server: https://old:6443", "+server: https://new:6443", "the enrolled authority's certificate")
	r.Press("enter") // the focus is on no
	r.Sees("Follow the cluster: cancelled")
	r.opens("F")
	r.Press(`"https://new:6443"`, "enter")
	r.Sees("Does prod-hsm lead")
	r.Press("y")
	r.did(f, "move prod-hsm to https://new:6443")
	f.unproven = "the new server has another authority"
	for _, address := range []string{"", "https://evil:6443"} {
		r.opens("F")
		r.Press(`"`+address+`"`, "enter")
		r.Sees("error: what the cluster says of itself could not be proven", "hint: the new server has another authority")
		r.Press("esc")
	}
}

func TestUnlock(t *testing.T) {
	f, r := contextsRig(t)
	r.Press("end")
	r.opens("o")
	r.Sees("PIN of trial")
	r.Press(`"648219"`, "enter")
	r.did(f, "unlock prod-hsm")
}

func TestFileAgain(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atRequests(r)
	r.Press("a", "a")
	r.Sees("not filed")
	r.Press("g", "s")
	r.Sees("file it again: it was filed")
	r.Press("end", "s")
	r.did(f, "resume unfiled-1")
}

func TestSeal(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDesk(r)
	r.opens("s")
	r.Sees("A token for the safe", "trial")
	r.Press("enter")
	r.Sees("it is needed")
	r.Press(`"sealed-1"`, "tab", `"safe in room 12"`, "enter")
	r.Sees("PIN of trial")
	r.Press(`"648219"`, "enter")
	r.Sees("context sealed-1-sealed")
	r.did(f, "broke the glass as sealed-1-sealed: safe in room 12")
	f.set(func() { f.tokens = nil })
	r.Press("esc", "1", "r")
	r.Sees("No token is here")
	r.Press("5", "s")
	r.Sees("seal a token: insert the one that goes into the safe")
}

func TestOpenSealed(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDesk(r)
	r.opens("p")
	r.Sees("abcdef") // the ticket under the cursor
	r.Press("tab", `"12345678"`, "tab", `"KHSMPUK1-xyz"`, "enter")
	r.Sees("The PUK of the token 12345678, which is not shown again:", "73519264")
	r.Press("y")
	r.did(f, "forget abcdef")
	if strings.Contains(r.View(), "73519264") {
		t.Error("the PUK is still there")
	}
}

func TestVerifyAttestation(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDesk(r)
	path := filepath.Join(t.TempDir(), "a.pem")
	if err := os.WriteFile(path, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.opens("v")
	r.Press("enter")
	r.Sees("name a file")
	r.Press(`"`+path+`"`, "enter")
	r.Sees("It is NOT verified", "no PEM certificate")
	r.Press("esc")
	r.opens("v")
	r.Press(`"`+path+`x"`, "enter")
	r.Sees("error: ", "no such file")
}
