package contexts_test

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
)

// open shows the screen of a kubeconfig with two contexts of others and, below
// them, one of kubehsm's own.
func open(t *testing.T) *screentest.Rig {
	t.Helper()
	w := screentest.New(t)
	card := w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678"})
	key := w.Generate(card, hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Slot: "9a"})
	w.Enroll("zeta-hsm", key, w.Certify(card, key, "jane", "dev"))
	r := w.Open("2")
	r.Sees("trial-admin", "staging", "zeta-hsm", "secret in here")
	return r
}

func enrolled(t *testing.T, r *screentest.Rig) (enrollment.Enrollment, error) {
	t.Helper()
	return r.World.Env.Enrollments().Load("zeta-hsm")
}

// TestUse: what is made current is taken back by undo.
func TestUse(t *testing.T) {
	r := open(t)
	r.Press("home", "s")
	r.Sees("Write this?", "-current-context: trial-admin", "+current-context: staging")
	r.Press("n")
	r.Sees("Make it current: cancelled")
	before := r.World.Kubeconfig()
	r.Press("s")
	r.Sees("Write this?")
	r.Press("y")
	r.Sees("kubectl uses staging now")
	r.World.HasKubeconfig("current-context: staging")
	r.Sees("● staging")
	r.Press("s")
	r.Sees("make current: it is the current one")
	r.Press("u")
	r.Sees("Take this back?", "+current-context: trial-admin")
	r.Press("y")
	r.Sees("the latest change is taken back")
	if got := r.World.Kubeconfig(); got != before {
		t.Errorf("after undo:\n%s\nwas\n%s", got, before)
	}
}

// TestHistory: an earlier step is taken back too.
func TestHistory(t *testing.T) {
	r := open(t)
	r.Press("home", "s")
	r.Sees("Write this?")
	r.Press("y")
	r.Sees("kubectl uses staging now")
	r.Press("H")
	r.Sees("choose one to take back")
	r.Press("enter")
	r.Sees("Take this back?")
	r.Press("y")
	r.Sees("taken back")
	r.World.HasKubeconfig("current-context: trial-admin")
}

// TestHealth asks the cluster whom it takes a context for.
func TestHealth(t *testing.T) {
	r := open(t)
	r.Press("home", "down", "enter")
	r.Sees("fails", "error: ")
	r.World.Cluster("admin", "system:masters")
	r.Press("enter")
	r.Sees("Works: the cluster takes you for admin")
	r.Press("up", "enter")
	r.Sees("fails", "error: ")
	r.Press("down")
	r.Sees("Works: the cluster takes you for admin") // each keeps its own
}

// TestTakeOut: a context goes and comes back; of kubehsm's own the enrollment stays.
func TestTakeOut(t *testing.T) {
	r := open(t)
	r.Press("end", "D")
	r.Sees("Take zeta-hsm out?")
	r.Press("y")
	r.Sees("the context is gone")
	r.World.LacksKubeconfig("name: zeta-hsm")
	if _, err := enrolled(t, r); err != nil {
		t.Error(err)
	}
	r.Loses("signs in by token")
	r.Press("u")
	r.Sees("Take this back?")
	r.Press("y")
	r.Sees("the latest change is taken back", "zeta-hsm")
}

// TestRemove: the record goes with the entry, the key stays.
func TestRemove(t *testing.T) {
	r := open(t)
	r.Press("home", "X")
	r.Sees("remove enrollment: it is not kubehsm's")
	r.Press("end", "X")
	r.Sees("Remove zeta-hsm?", "The key stays on the token")
	r.Press("esc")
	r.Sees("Remove the enrollment: cancelled")
	if _, err := enrolled(t, r); err != nil {
		t.Fatal(err)
	}
	r.Press("X")
	r.Sees("Remove zeta-hsm?")
	r.Press("y")
	r.Sees("zeta-hsm is removed")
	if _, err := enrolled(t, r); err == nil || strings.Contains(r.World.Kubeconfig(), "name: zeta-hsm") {
		t.Errorf("it is still there, or in\n%s", r.World.Kubeconfig())
	}
}

// TestConsent: a stricter policy counts at once.
func TestConsent(t *testing.T) {
	r := open(t)
	r.Press("end", "y")
	r.Sees("No kubeconfig can weaken it")
	r.Press("enter")
	r.Sees("nothing to change")
	r.Press("y")
	r.Sees("No kubeconfig can weaken it")
	r.Press("end", "enter")
	r.Until("set", func() bool { e, err := enrolled(t, r); return err == nil && e.Policy == consent.Always })
	r.Press("y")
	r.Sees("No kubeconfig can weaken it")
	r.Press("up", "tab", `"verbs="`, "enter")
	r.Sees(`"verbs=" is none of`)
	if e, err := enrolled(t, r); err != nil || e.Policy != consent.Always {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestConsentRules: rules are read before they are kept, and shown again.
func TestConsentRules(t *testing.T) {
	r := open(t)
	r.Press("home", "y")
	r.Sees("what needs my yes: it is not kubehsm's")
	r.Press("end", "y")
	r.Sees("Which requests to 127.0.0.1:1 need your yes?", "● session")
	r.Press("down", "down", "enter")
	r.Sees("it is empty; verbs=* matches everything") // the policy rules wants one
	r.Press(`"verbs=delete; dryrun"`, "enter")
	r.Sees(`"dryrun" is none of verbs=`)
	for range len(" dryrun") {
		r.Press("backspace")
	}
	r.Press(`"verbs=get resources=secrets"`, "enter")
	r.Until("set", func() bool { e, err := enrolled(t, r); return err == nil && len(e.Rules) == 2 })
	r.Sees("zeta-hsm: rules: ")
	r.Press("x")
	r.Sees("Done before", "--policy rules --rule verbs=delete --rule 'verbs=get", "resources=secrets'")
	r.Press("esc", "y")
	r.Sees("● rules")
	r.Press("enter")
	r.Sees("nothing to change")
}

// TestRepair: an entry that is as it should be is left alone, one for clients that
// sign themselves is written and taken back.
func TestRepair(t *testing.T) {
	r := open(t)
	r.Press("end", "d")
	r.Sees("nothing to change")
	r.Press("E")
	r.Sees("Write this?", "externalSigner")
	r.Press("y")
	r.Sees("the entry is for clients")
	r.World.HasKubeconfig("externalSigner")
	r.Press("d")
	r.Sees("Write this?")
	r.Press("y")
	r.Sees("the entry is as it should be")
	r.World.LacksKubeconfig("externalSigner")
}

// TestRequestsThere goes to the requests of the context's cluster.
func TestRequestsThere(t *testing.T) {
	r := open(t)
	r.Press("home", "v")
	r.Sees("is https://127.0.0.1:2 up, and reachable from here?")
}
