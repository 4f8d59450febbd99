package tui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
