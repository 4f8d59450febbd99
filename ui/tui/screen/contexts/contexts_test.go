package contexts_test

import (
	"encoding/base64"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/session"
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
	r.Sees("trial-admin", "staging", "zeta-hsm", "embedded secret")
	return r
}

// live shows the same screen where the cluster of kubehsm's own context answers, and
// an agent runs.
func live(t *testing.T) (*screentest.Rig, *flowtest.Server, *hsmtest.FakeToken) {
	t.Helper()
	w := screentest.New(t)
	server := w.Cluster("admin", "system:masters", "system:authenticated")
	card := w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678"})
	key := w.Generate(card, hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Slot: "9a"})
	e := w.Enroll("zeta-hsm", key, w.Certify(card, key, "jane", "dev"))
	e.Cluster.Server = server.URL
	e.Cluster.CAData = authority(server)
	must.OK(t, w.Env.Enrollments().Save(w.Signed(e)))
	w.Agent()
	r := w.Open("2")
	r.Sees("trial-admin", "staging", "zeta-hsm")
	return r, server, card
}

func authority(s *flowtest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func enrolled(t *testing.T, r *screentest.Rig) (enrollment.Enrollment, error) {
	t.Helper()
	return r.World.Env.Enrollments().Load("zeta-hsm")
}

// TestUse: what is made current is taken back by undo.
func TestUse(t *testing.T) {
	r := open(t)
	r.Walk("home", "s", "~Write this?", "~-current-context: trial-admin", "~+current-context: staging", "n",
		"~Make it current: cancelled")
	before := r.World.Kubeconfig()
	r.Walk("s", "~Write this?", "y", "~kubectl uses staging now")
	r.World.HasKubeconfig("current-context: staging")
	r.Walk("~● staging", "s", "~make current: it is the current one", "u", "~Undo this?",
		"~+current-context: trial-admin", "y", "~the latest change is undone")
	if got := r.World.Kubeconfig(); got != before {
		t.Errorf("after undo:\n%s\nwas\n%s", got, before)
	}
}

// TestTakeOut: a context goes and comes back; of kubehsm's own the enrollment stays.
func TestTakeOut(t *testing.T) {
	r := open(t)
	r.Walk("end", "D", "~What do you want to remove?", "enter", "~Remove zeta-hsm?", "y", "~the context is removed")
	r.World.LacksKubeconfig("name: zeta-hsm")
	if _, err := enrolled(t, r); err != nil {
		t.Error(err)
	}
	r.Loses("signs in by token")
	r.Walk("u", "~Undo this?", "y", "~the latest change is undone", "~zeta-hsm")
}

// TestRemove: the record goes with the entry, the key stays.
func TestRemove(t *testing.T) {
	r := open(t)
	r.Walk("end", "D", "~What do you want to remove?", "down", "enter", "~Remove the enrollment zeta-hsm?",
		"~The key stays on the token", "esc", "~Remove the enrollment: cancelled")
	if _, err := enrolled(t, r); err != nil {
		t.Fatal(err)
	}
	r.Walk("D", "~What do you want to remove?", "down", "enter", "~Remove the enrollment zeta-hsm?", "y",
		"~zeta-hsm is removed")
	if _, err := enrolled(t, r); err == nil || strings.Contains(r.World.Kubeconfig(), "name: zeta-hsm") {
		t.Errorf("it is still there, or in\n%s", r.World.Kubeconfig())
	}
}

// TestConsent: a stricter policy counts at once, and the key signs it.
func TestConsent(t *testing.T) {
	r := open(t)
	r.Walk("end", "y", "~No kubeconfig can weaken it", "enter", "~nothing to change", "y",
		"~No kubeconfig can weaken it", "end", "enter")
	r.Type("PIN of", "123456")
	r.Until("set", func() bool { e, err := enrolled(t, r); return err == nil && e.Policy == consent.Always })
	r.Walk("~zeta-hsm: always", "y", "~No kubeconfig can weaken it", "~Signed by the key on", "up", "tab",
		`"verbs="`, "enter", `~"verbs=" is none of`)
	if e, err := enrolled(t, r); err != nil || e.Policy != consent.Always {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestConsentOfAKey: the dialog names the other enrollments of the key that ask, and says first that the record is
// not signed, on a small screen too.
func TestConsentOfAKey(t *testing.T) {
	r := open(t)
	e, err := enrolled(t, r)
	must.OK(t, err)
	other := e
	other.Name, other.Policy = "eta-hsm", consent.Writes
	other = r.World.Signed(other)
	must.OK(t, r.World.Env.Enrollments().Save(other))
	r.Walk("end", "y", "~apply too: eta-hsm", "end", "enter")
	r.Type("PIN of", "123456")
	r.Until("set", func() bool { e, err := enrolled(t, r); return err == nil && e.Policy == consent.Always })
	r.Sees("zeta-hsm: always")
	if e, err = enrolled(t, r); err != nil {
		t.Fatal(err)
	}
	e.Signed = enrollment.Signed{}
	must.OK(t, r.World.Env.Enrollments().Save(e))
	r.Send(tea.WindowSizeMsg{Width: 60, Height: 15})
	r.Walk("y", "~! enrollment zeta-hsm: its key has not signed", "~● always")
}

// TestConsentRules: rules are read before they are kept, and shown again.
func TestConsentRules(t *testing.T) {
	r := open(t)
	r.Walk("home", "y", "~consent policy: it is not kubehsm's", "end", "y",
		"~Which requests to 127.0.0.1:1 need your consent?", "~● session", "down", "down", "enter")
	r.Sees(`the policy "rules" needs a rule`)
	r.Walk(`"verbs=delete; dryrun"`, "enter", `~"dryrun" is none of verbs=`)
	for range len(" dryrun") {
		r.Press("backspace")
	}
	r.Press(`"verbs=get resources=secrets"`, "enter")
	r.Type("PIN of", "123456")
	r.Until("set", func() bool { e, err := enrolled(t, r); return err == nil && len(e.Rules) == 2 })
	r.Walk("~zeta-hsm: rules: ", "x", "~Done before", "~--policy rules --rule verbs=delete --rule 'verbs=get",
		"~resources=secrets'", "esc", "y", "~● rules", "enter", "~nothing to change")
}

// TestRepair: an entry that is as it should be is left alone, one for clients that
// sign themselves is written and taken back.
func TestRepair(t *testing.T) {
	r := open(t)
	r.Walk("end", "p", "~nothing to change", "E", "~Write this?", "~externalSigner", "y", "~the entry is for clients")
	r.World.HasKubeconfig("externalSigner")
	r.Walk("p", "~Write this?", "y", "~the entry is as it should be")
	r.World.LacksKubeconfig("externalSigner")
}

// TestRequestsThere goes to the requests of the context's cluster.
func TestRequestsThere(t *testing.T) {
	r := open(t)
	r.Walk("home", "v", "~check that https://127.0.0.1:2 is up and reachable")
}

// TestUnlock: the agent unlocks the token of the enrollment.
func TestUnlock(t *testing.T) {
	r, _, card := live(t)
	r.Walk("home", "U", "~unlock: it is not kubehsm's", "end", "U")
	r.Type("PIN of", card.PIN())
	r.Sees("the token of zeta-hsm is unlocked")
	s, err := session.Agent{Env: r.World.Env}.AgentStatus(t.Context())
	if err != nil || len(s.Tokens) != 1 || !s.Tokens[0].Unlocked {
		t.Errorf("%+v, %v", s.Tokens, err)
	}
}

// TestRenewLeft: a renewal that is left at the PIN leaves nothing to go on with.
func TestRenewLeft(t *testing.T) {
	r, _, _ := live(t)
	r.Walk("end", "w", "~Renew zeta-hsm now?", "y", "~PIN of", "esc", "~Renew zeta-hsm: cancelled")
	if begun, err := enrolling.NewStore(r.World.Env).Unfinished(t.Context()); err != nil || len(begun) != 0 {
		t.Errorf("a renewal that did nothing is under way: %+v, %v", begun, err)
	}
}

// TestRenew: a renewal tells how far it is, can be cancelled, and goes on where it was.
func TestRenew(t *testing.T) {
	r, server, card := live(t)
	before, err := enrolled(t, r)
	must.OK(t, err)
	r.Walk("home", "w", "~renew: it is not kubehsm's", "end", "w", "~Renew zeta-hsm now?", "~Its certificate ends in",
		"~It does not have to be renewed")
	r.Press("enter") // the focus is on no
	r.Walk("~Renew zeta-hsm: cancelled", "w", "~Renew zeta-hsm now?", "y")
	r.Type("PIN of", card.PIN())
	r.Until("filed", func() bool { return len(server.Names(flowtest.Requests)) == 1 })
	if strings.Contains(r.View(), "Working") {
		t.Error("a dialog flashes for short work")
	}
	r.Time = r.Time.Add(time.Second)
	r.Sees("Renew zeta-hsm", "Working", "waiting for")
	r.Press("q", "1") // keys are the dialog's
	r.Time = r.Time.Add(4 * time.Second)
	r.Walk("~Working • 5 s", "esc", "~Renew zeta-hsm: cancelled", "w", "~Go on with the renewal of zeta-hsm?")
	r.Press("enter") // the focus is on yes
	filed := server.Names(flowtest.Requests)
	server.Issue(filed[0])
	r.Sees("renewed until ")
	if again := server.Names(flowtest.Requests); !slices.Equal(again, filed) {
		t.Errorf("filed %q after %q", again, filed)
	}
	after, err := enrolled(t, r)
	if err != nil || after.KeyHash != before.KeyHash {
		t.Errorf("of another key, or %v", err)
	}
	chain, err := r.World.Env.Enrollments().Certificate(after)
	if err != nil || chain[0].SerialNumber.Int64() != 7 { // the test's signer issues this number
		t.Errorf("not the new certificate, or %v", err)
	}
}

// TestMigrate: the wizard opens with user and groups of the old credential, and leaves the
// old context as it is.
func TestMigrate(t *testing.T) {
	r, _, _ := live(t)
	before := r.World.Kubeconfig()
	r.Walk("end", "m", "~move to a token: it signs in with a token already", "home", "down", "m",
		"~When the new context works", "~must be considered copied", "esc", "~system:masters cannot be asked for",
		"~u user", "u", "~Who is it for", "~admin", "~system:masters")
	if r.World.Kubeconfig() != before {
		t.Error("the kubeconfig has changed before the new context works")
	}
}

// TestFollow: an enrollment follows a cluster that says where it is now.
func TestFollow(t *testing.T) {
	r, server, _ := live(t)
	moved := flowtest.New(t, "admin")
	r.Walk("end", "F", "~ask the cluster", "enter")
	r.Sees("error: ", "hint: ") // the cluster publishes no cluster-info
	r.Press("esc")
	clusterInfo(server, server)
	follow := func() { r.Press("F"); r.Sees("ask the cluster"); r.Press("enter") }
	follow()
	r.Sees("the cluster is where it was")
	clusterInfo(server, moved)
	follow()
	r.Walk("~error: what the cluster says of itself could not be proven", "~hint: ", "esc")
	clusterInfo(moved, moved)
	follow()
	r.Walk("~Update the enrollment?", "~server: "+server.URL+", now "+moved.URL, "n",
		"~Update the cluster: cancelled")
	follow()
	r.Walk("~Update the enrollment?", "~requires its PIN", "y")
	r.Type("PIN of", "123456")
	r.Walk("~zeta-hsm is updated")
	if e, err := enrolled(t, r); err != nil || e.Cluster.Server != moved.URL {
		t.Errorf("the enrollment leads to %s, %v", e.Cluster.Server, err)
	}
	r.World.HasKubeconfig("server: " + moved.URL)
}

// clusterInfo makes a cluster publish that it is at another server.
func clusterInfo(at, said *flowtest.Server) {
	const in = "/api/v1/namespaces/kube-public/configmaps"
	kubeconfig := "apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster: {server: \"" + said.URL +
		"\", certificate-authority-data: " + base64.StdEncoding.EncodeToString(authority(said)) + "}\n"
	at.Put(in, flowtest.Object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": flowtest.Object{"name": "cluster-info", "namespace": "kube-public"},
		"data":     flowtest.Object{"kubeconfig": kubeconfig}})
}

// TestFollowTo: an enrollment follows to an address that a person names, if the server there
// proves to be the same cluster.
func TestFollowTo(t *testing.T) {
	r, server, _ := live(t)
	moved := flowtest.New(t, "admin")
	to := func(address string) { r.Press("F"); r.Sees("ask the cluster"); r.Press(`"`+address+`"`, "enter") }
	r.Press("end")
	to("https://127.0.0.1:1")
	r.Walk("~error: what the cluster says of itself could not be proven", "~hint: ", "esc")
	to(moved.URL)
	r.Sees("Use the address "+strings.TrimPrefix(moved.URL, "https://")+" for zeta-hsm from now on?",
		"-server: "+server.URL, "+server: "+moved.URL, "a certificate of the authority that you")
	r.Press("enter") // the focus is on no
	r.Sees("Update the cluster: cancelled")
	to(moved.URL)
	r.Walk("~Use the address", "~requires its PIN", "y")
	r.Type("PIN of", "123456")
	r.Walk("~zeta-hsm is updated")
	if e, err := enrolled(t, r); err != nil || e.Cluster.Server != moved.URL {
		t.Errorf("the enrollment leads to %s, %v", e.Cluster.Server, err)
	}
	r.World.HasKubeconfig("server: " + moved.URL)
}

// TestTakeOutAnothers: a context that is not kubehsm's can be taken out and brought back too.
func TestTakeOutAnothers(t *testing.T) {
	r := open(t)
	r.Walk("home", "D", "~Remove staging?", "~-  name: staging", "y", "~the context is removed")
	r.World.LacksKubeconfig("name: staging")
	r.Walk("u", "~Undo this?", "y", "~the latest change is undone")
	r.World.HasKubeconfig("name: staging")
}

// TestSameKey: removing an enrollment leaves what others with the same key need.
func TestSameKey(t *testing.T) {
	r := open(t)
	e, err := enrolled(t, r)
	must.OK(t, err)
	e.Name = "eta-hsm"
	must.OK(t, r.World.Env.Enrollments().Save(r.World.Signed(e)))
	r.Walk("end", "D", "~What do you want to remove?", "down", "enter",
		"~Enrollments with the same key stay: eta-hsm", "y", "~zeta-hsm is removed")
	if _, err := r.World.Env.Enrollments().Load("eta-hsm"); err != nil {
		t.Error(err)
	}
}

// TestNames: the screen copies a context's name, names the commands and finds contexts.
func TestNames(t *testing.T) {
	r := open(t)
	r.Walk("end", "c", "~name copied")
	if r.Copied() != "zeta-hsm" {
		t.Errorf("copied %q", r.Copied())
	}
	r.Walk("x", "~kubectl --context zeta-hsm auth whoami", "~kubehsm consent show zeta-hsm",
		"~kubehsm kubeconfig use zeta-hsm", "esc", "/", `"stag"`)
	r.Loses("zeta-hsm")
	r.Walk("enter", "x", "~kubehsm kubeconfig migrate staging", "esc", "esc", "~zeta-hsm", "/", `"nothing"`, "enter",
		"c", "~copy name: no context is selected")
}
