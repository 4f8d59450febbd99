package tui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/consent"
)

func TestUseContext(t *testing.T) {
	f, r := contextsRig(t)
	r.Press("s")
	r.Sees("make current: it is the current one")
	r.Press("end")
	r.opens("s")
	r.Sees("Write this?", "+current-context: trial-admin")
	r.Press("y")
	r.did(f, "use prod-hsm")
	r.opens("D")
	r.Press("y")
	r.did(f, "remove prod-hsm") // the enrolment stays
}

func TestConsentPolicy(t *testing.T) {
	f, r := contextsRig(t)
	f.policy = consent.Policy{Mode: consent.Writes}
	r.Press("y")
	r.Sees("what needs my yes: it is not kubehsm's")
	r.Press("end", "y")
	r.Sees("Which requests to prod.example.com need your yes?", "● writes", "all but reading needs your yes")
	r.Press("down", "enter")
	r.Sees("it is empty; verbs=* matches everything") // the policy rules wants one
	r.Press(`"verbs=delete; dryrun"`, "enter")
	r.Sees(`"dryrun" is none of verbs=`)
	for range len(" dryrun") {
		r.Press("backspace")
	}
	r.Press(`"verbs=get resources=secrets"`, "enter")
	r.did(f, "policy of prod-hsm: rules [verbs=delete verbs=get resources=secrets]")
	r.Press("x")
	r.Sees("Done before", "kubehsm consent set prod-hsm --policy rules --rule verbs=delete --rule 'verbs=get", "resources=secrets'")
	r.Press("esc", "y")
	r.Sees("● rules")
	r.Press("enter")
	r.Sees("nothing to change")
}

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

func TestEntryForSigners(t *testing.T) {
	f, r := contextsRig(t)
	r.Press("E")
	r.Sees("entry for external signers: it is not kubehsm's")
	r.Press("end")
	r.opens("E")
	r.Sees("Write this?")
	r.Press("y")
	r.did(f, "signer of prod-hsm")
	r.Press("x")
	r.Sees("kubehsm kubeconfig set prod-hsm --mode external-signer")
}

func TestUnlock(t *testing.T) {
	f, r := contextsRig(t)
	r.Press("end")
	r.opens("o")
	r.Sees("PIN of trial")
	r.Press(`"648219"`, "enter")
	r.did(f, "unlock prod-hsm")
}

// TestRandomPUK: it is shown until it was kept, and not a moment before it is in force.
func TestRandomPUK(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atToken(r)
	r.opens("P")
	r.Sees("A new PUK", "8 digits, shown once")
	r.Press("down", "enter")
	r.Sees("PIN of")
	r.Press(`"648219"`, "enter")
	r.Sees("Have you kept it?", "The new PUK, which is not shown again:")
	r.did(f, "change PUK to 8 bytes")
	r.Press("n")
	r.Sees("Have you kept it?")
	r.Press("y")
	r.Sees("the PUK is changed")
	f.set(func() { f.deedErr = hsm.ErrPINIncorrect }) // the one in force was mistyped
	r.opens("P")
	r.Press("down", "enter")
	r.Sees("PIN of")
	r.Press(`"648219"`, "enter")
	r.Sees("error: ")
	if strings.Contains(r.View(), "Have you kept it?") {
		t.Error("a PUK is shown that is surely not in force")
	}
}

func TestFileRequest(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atToken(r)
	r.opens("s")
	r.Press("enter")
	r.Sees("it is needed")
	r.Press(`"jane"`, "tab", `"dev, ops"`, "enter")
	r.did(f, "request for jane in [dev ops] by kubernetes.io/kube-apiserver-client")
	r.Press("x")
	r.Sees("kubehsm csr create --user jane --group dev --group ops --key")
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

func TestRevoke(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDesk(r)
	r.opens("w")
	r.Press("enter")
	r.Sees("a user name is needed")
	r.Press(`"jane"`, "enter")
	r.Sees("Remove, deny and end these?", "rolebinding jane-edit in dev: edit", "ticket abcdef")
	r.Press("enter") // the focus is on no
	r.Sees("Take access away: cancelled")
	r.opens("w")
	r.Press(`"jane"`, "enter")
	r.Sees("Remove, deny and end these?")
	r.Press("y")
	r.did(f, "revoke jane")
	r.Sees("Done: rolebinding jane-edit in dev", "FAILED: ticket abcdef: forbidden", "The certificates cannot be revoked", `Through the group "dev" they still have view`)
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

func TestRecordAndRoles(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDesk(r)
	r.Press("d")
	r.Sees("What was done from here, the latest first", "approve, kubehsm-jane, jane")
	r.Press("esc")
	r.opens("o")
	r.Press("enter")
	r.Sees("missing: ClusterRole kubehsm:helpdesk, of helpdesk", "you may make tickets", "you may not approve requests")
	r.Press("esc")
	r.opens("o")
	r.Press("down", "enter")
	r.Sees("Apply these?", "missing: ClusterRole kubehsm:helpdesk")
	r.Press("y")
	r.did(f, "apply the roles")
	r.Sees("applied: ClusterRole kubehsm:helpdesk")
	r.Press("esc")
	r.opens("o")
	r.Press(`"show"`, "enter")
	r.Sees("kind: ClusterRole", "copy manifest")
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

func TestMoveBridge(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atActivity(r)
	r.opens("b")
	r.Press(`"80"`, "enter")
	r.Sees("a number from 1024 to 65535")
	r.Press("backspace", "backspace", `"27001"`, "enter")
	r.Sees("Move it?", "to 127.0.0.1:27001", "written anew: prod-hsm")
	r.Press("y")
	r.did(f, "move the bridge to 27001")
	r.Press("u")
	r.Sees("Start the agent at login", "systemctl --user daemon-reload", "copy file")
}

func TestReport(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDoctor(r)
	r.opens("b")
	r.Press("enter")
	r.Sees("name a file")
	r.Press(`"/tmp/r.zip"`, "enter")
	r.did(f, "report to /tmp/r.zip")
	r.Sees("the report is in /tmp/r.zip")
}
