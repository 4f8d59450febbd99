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
	r.press("s")
	r.sees("make current: it is the current one")
	r.press("end")
	r.opens("s")
	r.sees("Write this?", "+current-context: trial-admin")
	r.press("y")
	r.did(f, "use prod-hsm")
	r.opens("D")
	r.press("y")
	r.did(f, "remove prod-hsm") // the enrolment stays
}

func TestConsentPolicy(t *testing.T) {
	f, r := contextsRig(t)
	f.policy = consent.Policy{Mode: consent.Writes}
	r.press("y")
	r.sees("what needs my yes: it is not kubehsm's")
	r.press("end", "y")
	r.sees("Which requests to prod.example.com need your yes?", "● writes", "all but reading needs your yes")
	r.press("down", "enter")
	r.sees("it is empty; verbs=* matches everything") // the policy rules wants one
	r.press(`"verbs=delete; dryrun"`, "enter")
	r.sees(`"dryrun" is none of verbs=`)
	for range len(" dryrun") {
		r.press("backspace")
	}
	r.press(`"verbs=get resources=secrets"`, "enter")
	r.did(f, "policy of prod-hsm: rules [verbs=delete verbs=get resources=secrets]")
	r.press("x")
	r.sees("Done before", "kubehsm consent set prod-hsm --policy rules --rule verbs=delete --rule 'verbs=get", "resources=secrets'")
	r.press("esc", "y")
	r.sees("● rules")
	r.press("enter")
	r.sees("nothing to change")
}

func TestFollowCluster(t *testing.T) {
	f, r := contextsRig(t)
	r.press("end")
	r.opens("F")
	r.sees("ask the cluster")
	r.press("enter")
	r.sees("Follow it?", "server: https://old:6443, now https://new:6443")
	r.press("y")
	r.did(f, "follow prod-hsm")
	r.opens("F")
	r.press(`"https://new:6443"`, "enter")
	r.sees("Does prod-hsm lead to new:6443 from now on?", "-server: https://old:6443", "+server: https://new:6443", "the enrolled authority's certificate")
	r.press("enter") // the focus is on no
	r.sees("Follow the cluster: cancelled")
	r.opens("F")
	r.press(`"https://new:6443"`, "enter")
	r.sees("Does prod-hsm lead")
	r.press("y")
	r.did(f, "move prod-hsm to https://new:6443")
	f.unproven = "the new server has another authority"
	for _, address := range []string{"", "https://evil:6443"} {
		r.opens("F")
		r.press(`"`+address+`"`, "enter")
		r.sees("error: what the cluster says of itself could not be proven", "hint: the new server has another authority")
		r.press("esc")
	}
}

func TestEntryForSigners(t *testing.T) {
	f, r := contextsRig(t)
	r.press("E")
	r.sees("entry for external signers: it is not kubehsm's")
	r.press("end")
	r.opens("E")
	r.sees("Write this?")
	r.press("y")
	r.did(f, "signer of prod-hsm")
	r.press("x")
	r.sees("kubehsm kubeconfig set prod-hsm --mode external-signer")
}

func TestUnlock(t *testing.T) {
	f, r := contextsRig(t)
	r.press("end")
	r.opens("o")
	r.sees("PIN of trial")
	r.press(`"648219"`, "enter")
	r.did(f, "unlock prod-hsm")
}

// TestRandomPUK: it is shown until it was kept, and not a moment before it is in force.
func TestRandomPUK(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atToken(r)
	r.opens("P")
	r.sees("A new PUK", "8 digits, shown once")
	r.press("down", "enter")
	r.sees("PIN of")
	r.press(`"648219"`, "enter")
	r.sees("Have you kept it?", "The new PUK, which is not shown again:")
	r.did(f, "change PUK to 8 bytes")
	r.press("n")
	r.sees("Have you kept it?")
	r.press("y")
	r.sees("the PUK is changed")
	f.set(func() { f.deedErr = hsm.ErrPINIncorrect }) // the one in force was mistyped
	r.opens("P")
	r.press("down", "enter")
	r.sees("PIN of")
	r.press(`"648219"`, "enter")
	r.sees("error: ")
	if strings.Contains(r.view(), "Have you kept it?") {
		t.Error("a PUK is shown that is surely not in force")
	}
}

func TestFileRequest(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atToken(r)
	r.opens("s")
	r.press("enter")
	r.sees("it is needed")
	r.press(`"jane"`, "tab", `"dev, ops"`, "enter")
	r.did(f, "request for jane in [dev ops] by kubernetes.io/kube-apiserver-client")
	r.press("x")
	r.sees("kubehsm csr create --user jane --group dev --group ops --key")
}

func TestFileAgain(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atRequests(r)
	r.press("a", "a")
	r.sees("not filed")
	r.press("g", "s")
	r.sees("file it again: it was filed")
	r.press("end", "s")
	r.did(f, "resume unfiled-1")
}

func TestRevoke(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDesk(r)
	r.opens("w")
	r.press("enter")
	r.sees("a user name is needed")
	r.press(`"jane"`, "enter")
	r.sees("Remove, deny and end these?", "rolebinding jane-edit in dev: edit", "ticket abcdef")
	r.press("enter") // the focus is on no
	r.sees("Take access away: cancelled")
	r.opens("w")
	r.press(`"jane"`, "enter")
	r.sees("Remove, deny and end these?")
	r.press("y")
	r.did(f, "revoke jane")
	r.sees("Done: rolebinding jane-edit in dev", "FAILED: ticket abcdef: forbidden", "The certificates cannot be revoked", `Through the group "dev" they still have view`)
}

func TestSeal(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDesk(r)
	r.opens("s")
	r.sees("A token for the safe", "trial")
	r.press("enter")
	r.sees("it is needed")
	r.press(`"sealed-1"`, "tab", `"safe in room 12"`, "enter")
	r.sees("PIN of trial")
	r.press(`"648219"`, "enter")
	r.sees("context sealed-1-sealed")
	r.did(f, "broke the glass as sealed-1-sealed: safe in room 12")
	f.set(func() { f.tokens = nil })
	r.press("esc", "1", "r")
	r.sees("No token is here")
	r.press("5", "s")
	r.sees("seal a token: insert the one that goes into the safe")
}

func TestOpenSealed(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDesk(r)
	r.opens("p")
	r.sees("abcdef") // the ticket under the cursor
	r.press("tab", `"12345678"`, "tab", `"KHSMPUK1-xyz"`, "enter")
	r.sees("The PUK of the token 12345678, which is not shown again:", "73519264")
	r.press("y")
	r.did(f, "forget abcdef")
	if strings.Contains(r.view(), "73519264") {
		t.Error("the PUK is still there")
	}
}

func TestRecordAndRoles(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDesk(r)
	r.press("d")
	r.sees("What was done from here, the latest first", "approve, kubehsm-jane, jane")
	r.press("esc")
	r.opens("o")
	r.press("enter")
	r.sees("missing: ClusterRole kubehsm:helpdesk, of helpdesk", "you may make tickets", "you may not approve requests")
	r.press("esc")
	r.opens("o")
	r.press("down", "enter")
	r.sees("Apply these?", "missing: ClusterRole kubehsm:helpdesk")
	r.press("y")
	r.did(f, "apply the roles")
	r.sees("applied: ClusterRole kubehsm:helpdesk")
	r.press("esc")
	r.opens("o")
	r.press(`"show"`, "enter")
	r.sees("kind: ClusterRole", "copy manifest")
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
	r.press("enter")
	r.sees("name a file")
	r.press(`"`+path+`"`, "enter")
	r.sees("It is NOT verified", "no PEM certificate")
	r.press("esc")
	r.opens("v")
	r.press(`"`+path+`x"`, "enter")
	r.sees("error: ", "no such file")
}

func TestMoveBridge(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atActivity(r)
	r.opens("b")
	r.press(`"80"`, "enter")
	r.sees("a number from 1024 to 65535")
	r.press("backspace", "backspace", `"27001"`, "enter")
	r.sees("Move it?", "to 127.0.0.1:27001", "written anew: prod-hsm")
	r.press("y")
	r.did(f, "move the bridge to 27001")
	r.press("u")
	r.sees("Start the agent at login", "systemctl --user daemon-reload", "copy file")
}

func TestReport(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDoctor(r)
	r.opens("b")
	r.press("enter")
	r.sees("name a file")
	r.press(`"/tmp/r.zip"`, "enter")
	r.did(f, "report to /tmp/r.zip")
	r.sees("the report is in /tmp/r.zip")
}
