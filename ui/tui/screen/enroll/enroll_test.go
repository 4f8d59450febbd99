package enroll_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/tui"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
)

const pin = "123456"

// rig shows the wizard where one token is plugged in and a cluster answers.
type rig struct {
	*screentest.Rig
	token  *hsmtest.FakeToken
	server *flowtest.Server
}

func open(t *testing.T) *rig {
	t.Helper()
	w := screentest.New(t)
	r := &rig{server: w.Cluster("admin", "system:masters"), token: w.Tokens.Add(hsmtest.FakeOptions{Label: "blue"})}
	r.untouched()
	r.Rig = w.OpenWizard()
	return r
}

// untouched has the token make keys that want no touch, as nobody touches it.
func (r *rig) untouched() { r.token.Describe(func(i *hsm.TokenInfo) { i.Can.Policies = false }) }

// toReview names a user in what is proposed.
func (r *rig) toReview(user string) {
	r.T.Helper()
	r.fill(user)
	r.Sees("This is what will be done", "Who      "+user)
}

func (r *rig) fill(user string) {
	r.T.Helper()
	r.Walk("~Change: u user", "u", "~Who is it for", `"`+user+`"`, "enter")
}

// toPIN begins what the review shows.
func (r *rig) toPIN() {
	r.T.Helper()
	r.toReview("jane")
	r.Walk("enter", "~PIN of blue")
}

// filed is the name of the one request there is.
func (r *rig) filed() string {
	r.T.Helper()
	r.Until("a request", func() bool { return len(r.server.Names(flowtest.Requests)) > 0 })
	names := r.server.Names(flowtest.Requests)
	if len(names) != 1 {
		r.T.Fatalf("filed: %q", names)
	}
	return names[0]
}

// TestEnrolled: the wizard enrolls a token, and signs in through agent and bridge.
func TestEnrolled(t *testing.T) {
	r := open(t)
	r.World.Agent()
	r.toPIN()
	r.Type("PIN of blue", pin)
	r.Sees("waiting for")
	r.server.Issue(r.filed())
	r.Sees("Enrolled: authenticated as jane", "kubectl")
	r.World.HasKubeconfig("trial-admin-hsm")
}

// TestEnroll goes all the way to the first use of the key. That needs an agent, which
// this world has no program for: it is said, what was done is kept, and the
// kubeconfig is not touched.
func TestEnroll(t *testing.T) {
	r := open(t)
	before := r.World.Kubeconfig()
	r.toPIN()
	r.Type("PIN of blue", pin)
	r.Sees("waiting for")
	r.server.Issue(r.filed())
	r.Sees("Not finished", "✓ store the certificate", "✗ sign in with the token", "start the agent", "continues from here")
	all, err := r.World.Env.Enrollments().List()
	if err != nil || len(all) != 1 || all[0].User != "jane" || all[0].Context != "trial-admin" {
		t.Fatalf("enrolled %+v, %v", all, err)
	}
	if chain, err := r.World.Env.Enrollments().Certificate(all[0]); err != nil || chain[0].Subject.CommonName != "jane" {
		t.Errorf("the certificate: %v", err)
	}
	for _, s := range r.World.Slots(r.token) {
		if s.Certificate == nil || s.Certificate.Subject.CommonName != "jane" {
			t.Errorf("on the token: %+v", s)
		}
	}
	if got := r.World.Kubeconfig(); got != before {
		t.Errorf("the kubeconfig was changed:\n%s", got)
	}
}

// TestWrongPIN: the last try is used only after a yes.
func TestWrongPIN(t *testing.T) {
	r := open(t)
	r.toPIN()
	r.Walk(`"111111"`, "enter", "~2 tries left", `"111111"`, "enter", "~One try is left", "~Use the last try?")
	r.Press("enter") // the focus is on no
	r.Sees("Not finished", "cancelled")
	if n := r.token.Tries(); n != 1 {
		t.Errorf("%d tries left: the last one was used", n)
	}
	r.Walk("r", "~Use the last try?", "y", "~The last try", `"`+pin+`"`, "enter")
	r.filed()
	if n := r.token.Tries(); n != 3 {
		t.Errorf("%d tries left", n)
	}
}

// TestDeclinedPIN: nothing was made, and the review is still there.
func TestDeclinedPIN(t *testing.T) {
	r := open(t)
	r.toPIN()
	r.Walk("esc", "~Not finished", "~cancelled", "esc", "~This is what will be done")
	if len(r.World.Slots(r.token)) != 0 || len(r.server.Names(flowtest.Requests)) != 0 {
		t.Error("something was made")
	}
}

// TestStopAndGoOn: what was done is kept, and neither key nor request is made twice,
// also by a program that is started anew.
func TestStopAndGoOn(t *testing.T) {
	r := open(t)
	r.toPIN()
	r.Type("PIN of blue", pin)
	r.Sees("waiting for")
	name := r.filed()
	r.Walk("esc", "~Stop here?", "y", "~Stopped", "~Finished steps are kept")
	again := r.World.OpenWizard()
	again.Walk("~Resume trial-admin-hsm", "enter", "~This is what will be done", "~the one that was made before",
		"enter", "~waiting for")
	r.server.Issue(name)
	again.Sees("✓ store the certificate")
	if r.filed() != name || len(r.World.Slots(r.token)) != 1 {
		t.Error("made twice")
	}
}

// TestDrop: what was begun can be dropped, after a yes.
func TestDrop(t *testing.T) {
	r := open(t)
	r.toPIN()
	r.Walk("esc", "~Not finished")
	again := r.World.OpenWizard()
	again.Walk("~Resume trial-admin-hsm", "~D drop it", "D", "~Drop what was begun for trial-admin-hsm?",
		"~It cannot be resumed then.")
	again.Press("enter") // the focus is on no
	again.Walk("~Drop trial-admin-hsm: cancelled", "~Resume trial-admin-hsm", "D",
		"~Drop what was begun for trial-admin-hsm?", "y", "~trial-admin-hsm: dropped", "~This is what will be done")
	if begun, err := enrolling.NewStore(r.World.Env).All(); err != nil || len(begun) != 0 {
		t.Errorf("it is still there: %+v, %v", begun, err)
	}
}

// TestDenied: why is said, and that it was for good.
func TestDenied(t *testing.T) {
	r := open(t)
	r.toPIN()
	r.Type("PIN of blue", pin)
	r.Sees("waiting for")
	r.server.Deny(r.filed(), "ask the desk first")
	r.Sees("Not finished", "was denied: ask the desk", "a denial is final")
}

// TestRequestGone: a request that is removed while it is awaited is not awaited on.
func TestRequestGone(t *testing.T) {
	r := open(t)
	r.toPIN()
	r.Type("PIN of blue", pin)
	r.Sees("waiting for")
	r.server.Delete(flowtest.Requests, r.filed())
	r.Sees("Not finished", "error: ")
}

// TestTokenPulled: a token that is pulled out before its key was made is told, and the
// enrollment goes on when it is back.
func TestTokenPulled(t *testing.T) {
	r := open(t)
	r.toPIN()
	r.token.Unplug()
	r.Walk(`"`+pin+`"`, "enter", "~Not finished", "~error: ")
	if n := len(r.server.Names(flowtest.Requests)); n != 0 {
		t.Fatalf("%d requests", n)
	}
	r.token.Plug()
	r.Press("r")
	r.Type("PIN of blue", pin)
	r.filed()
}

// TestAPIGone: a cluster that breaks before the request is filed is told, and the key
// is not made again.
func TestAPIGone(t *testing.T) {
	r := open(t)
	r.toPIN()
	r.server.Break(http.StatusInternalServerError)
	r.Walk(`"`+pin+`"`, "enter", "~Not finished", "~✗ file the request")
	r.server.Break(0)
	r.Press("r")
	r.filed()
	if n := len(r.World.Slots(r.token)); n != 1 {
		t.Errorf("%d keys", n)
	}
}

// TestSendToAdmin: who may not file requests gets one to send.
func TestSendToAdmin(t *testing.T) {
	r := open(t)
	r.server.Forbid("create certificatesigningrequests")
	r.toReview("jane")
	r.Walk("~will be printed for an admin to file", "enter")
	r.Type("PIN of blue", pin)
	r.Walk("~copy for the admin", "c")
	r.Until("copied", func() bool { return strings.Contains(r.Copied(), "CertificateSigningRequest") })
}

// TestDraft: what was chosen before anything was done is kept while the program runs.
func TestDraft(t *testing.T) {
	r := open(t)
	r.Walk("~Change: u user", "s", "~A new key", "enter", "~Algorithm", "down", "enter", "~new, ecdsa-p384", "esc",
		"~SLOT", "R", "~Continue with your choices", "enter", "~new, ecdsa-p384")
}

// TestAwaited: the review waits for its token, and says which others are here and how to take one of
// them. A token that is pulled out while the review is shown is awaited again.
func TestAwaited(t *testing.T) {
	w := screentest.New(t)
	r := &rig{server: w.Cluster("admin", "system:masters"), token: w.Tokens.Add(hsmtest.FakeOptions{Label: "blue"})}
	r.untouched()
	mistyped := hsm.URI{Scheme: hsm.SchemePKCS11, Token: "bleu"}
	r.Rig = w.Start(100, 30, tui.Options{Start: tui.ScreenEnroll, Enroll: enrolling.Options{Token: mistyped}})
	r.Walk("~Insert your key", "~but not the right one", "~pkcs11:token=bleu", "~blue", "~t chooses one of them", "t",
		"~Which token", "~blue", "enter", "~Who      admin")
	r.token.Unplug()
	r.Time = r.Time.Add(time.Minute)
	r.Sees("Insert your key")
	r.token.Plug()
	r.Time = r.Time.Add(time.Minute)
	r.Sees("Who      admin")
}

// TestSeenElsewhere: an enrollment that goes on behind another screen is in the header, and its end
// is told there.
func TestSeenElsewhere(t *testing.T) {
	r := open(t)
	r.World.Agent()
	r.toPIN()
	r.Type("PIN of blue", pin)
	r.Walk("~waiting for", "c")
	name := r.filed()
	r.Until("the line is copied", func() bool {
		return r.Copied() == "kubehsm csr approve "+name+"  # or: kubectl certificate approve "+name
	})
	r.Press("w")
	r.Until("the words are copied", func() bool { return len(strings.Fields(r.Copied())) == 8 })
	r.Walk("6", "~trial-admin-hsm: wait for approval")
	r.server.Issue(name)
	r.Walk("~trial-admin-hsm is enrolled", "1", "~Enrolled: authenticated as jane", "enter")
	r.Loses("trial-admin-hsm is enrolled")
}

// TestWayBack: esc leads from the details to the short plan, and what was given at the start is still
// there after the wizard was left.
func TestWayBack(t *testing.T) {
	w := screentest.New(t)
	w.Cluster("admin", "system:masters")
	w.Tokens.Add(hsmtest.FakeOptions{Label: "blue"})
	r := w.Start(100, 30, tui.Options{Start: tui.ScreenEnroll, Enroll: enrolling.Options{User: "joe"}})
	r.Walk("~Who      joe", "~v details", "v", "~v in short", "esc", "~Who      joe", "~v details", "esc")
	r.Loses("Who      joe")
	r.Walk("e", "~Who      joe")
}

// TestUnreachable: an enrollment whose cluster does not answer is not begun.
func TestUnreachable(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("admin", "system:masters")
	w.Tokens.Add(hsmtest.FakeOptions{Label: "blue"})
	server.Close()
	r := w.Start(100, 30, tui.Options{Start: tui.ScreenEnroll, Enroll: enrolling.Options{User: "joe"}})
	r.Sees("r tries again, o chooses another cluster.", "no key was made yet")
}
