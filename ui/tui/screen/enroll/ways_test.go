package enroll_test

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/tui"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
)

// openCard shows the wizard where a card with the default PUK is plugged in that has
// a key in slot 9a.
func openCard(t *testing.T, width, height int) *rig {
	t.Helper()
	w := screentest.New(t)
	r := &rig{server: w.Cluster("admin", "system:masters"),
		token: w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678", Can: hsmtest.Administered()})}
	key := w.Generate(r.token, hsm.GenerateOptions{Slot: "9a"})
	w.Certify(r.token, key, "jane")
	r.Rig = w.Start(width, height, tui.Options{Start: tui.ScreenEnroll})
	r.Sees("12345678")
	return r
}

// TestOverwrite: an occupied slot is given up only after its serial is typed,
// and reusing another key afterwards overwrites nothing.
func TestOverwrite(t *testing.T) {
	r := openCard(t, 100, 30)
	r.Walk("~in slot 82", "~slot 9a holds another key", "s")
	r.Sees("reuse its", "For a further key") // the cursor is on 82
	r.Press("end", "o")                      // 95 is empty
	r.Walk("~overwrite: the slot is empty", "home", "o", "~Overwrite slot 9a?", "~certificate for jane",
		"~Type 12345678", "enter", "y")
	r.Sees("Type 12345678") // "y" is not enough
	r.Walk("backspace", `"12345678"`, "enter", "~Settings of the new key", "x", "~--slot 9a", "esc", "esc",
		"~reuse its", "home", "enter", "~slot 9a, which is there", "x", "~kubehsm enroll", "~--key",
		"~'piv:serial=12345678;slot=9a'")
	if strings.Contains(r.View(), "--slot") {
		t.Errorf("a key that is reused is made:\n%s", r.View())
	}
}

// TestDefaultsAreToldFirst: default secrets that cannot be replaced on the way stop the enrollment,
// and are named before all else. It begins only after a yes to that risk.
func TestDefaultsAreToldFirst(t *testing.T) {
	for _, size := range [][2]int{{100, 40}, {80, 24}, {60, 15}} {
		r := openCard(t, size[0], size[1])
		r.token.Describe(func(i *hsm.TokenInfo) { i.Can.ChangePIN = false })
		r.Walk("s", "~reuse its", "end", "enter", "~Algorithm", "enter", "~default secrets", "~PUK",
			"~A accepts the risk", "enter", "~enroll: ", "~default secrets", "A", "~Continue anyway?", "y")
		r.Loses("accept the risk", "Continue anyway")
		r.Walk("~Who ", "enter", "~PIN of")
	}
}

// TestUnverified: a cluster that is not verified is enrolled only by typing its host.
func TestUnverified(t *testing.T) {
	w := screentest.New(t)
	r := &rig{server: w.Cluster("admin", "system:masters"), token: w.Tokens.Add(hsmtest.FakeOptions{Label: "blue"})}
	unverified := regexp.MustCompile(`certificate-authority-data: .*`).ReplaceAllString(w.Kubeconfig(),
		"insecure-skip-tls-verify: true")
	must.OK(t, os.WriteFile(w.Env.Kubeconfig, []byte(unverified), 0o600))
	r.untouched()
	r.Rig = w.OpenWizard()
	r.Walk("~does not verify its API server", "~accepts the risk", "A")
	host := strings.TrimPrefix(r.server.URL, "https://")
	r.Walk("~Enroll it without verifying it?", "~"+host, `"`+host+`"`, "enter", "~This is what will be done",
		"~Who      admin", "enter")
	r.Type("PIN of blue", pin)
	r.filed()
}

// TestBegunAnewOnce: when an enrollment that was begun anew fails, trying again goes on from
// there and makes no second key.
func TestBegunAnewOnce(t *testing.T) {
	r := open(t)
	r.toPIN()
	r.Walk("esc", "~Not finished")
	other := r.World.OpenWizard()
	other.Walk("~Resume trial-admin-hsm", "down", "enter")
	again := &rig{Rig: other, token: r.token, server: r.server}
	again.fill("joe")
	again.Walk("~was begun with user", "~start over", "a", "~Start over?", "y", "~This is what will be done",
		"~Who      joe")
	r.server.Break(500)
	again.Press("enter")
	again.Type("PIN of blue", pin)
	again.Sees("Not finished")
	r.server.Break(0)
	again.Press("r")
	again.filed()
	if n := len(r.World.Slots(r.token)); n != 1 {
		t.Errorf("%d keys", n)
	}
}

// pins returns the pins of the API server's authority.
func (r *rig) pins() []discovery.Pin {
	r.T.Helper()
	pins, err := discovery.PinsOf(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw}))
	must.OK(r.T, err)
	return pins
}

// ticket is a line from the help desk.
func (r *rig) ticket(terms ticket.Terms) (line, id string) {
	r.T.Helper()
	secret, err := bootstraptoken.Generate()
	must.OK(r.T, err)
	tk := ticket.Ticket{Server: r.server.URL, Token: secret, Expires: time.Now().Add(time.Hour).Truncate(time.Second),
		Terms: terms, Pins: r.pins()}
	if line, err = tk.Reveal(); err != nil {
		r.T.Fatal(err)
	}
	return line, secret.ID()
}

func (r *rig) toCluster() {
	r.T.Helper()
	r.Walk("~Change: u user", "o", "~Which cluster", "~staging")
}

// TestTicket: a ticket names the cluster and the user. It is typed like a secret and appears
// nowhere on the screen.
func TestTicket(t *testing.T) {
	r := open(t)
	line, _ := r.ticket(ticket.Terms{User: "jane", Groups: []string{"dev"}})
	r.toCluster()
	r.Walk("end", "enter", "~Ticket", "~enter continue", `"nonsense"`, "enter", "~error: ", "esc", "enter",
		"~enter continue", `"`+line+`"`, "enter")
	r.Loses("enter continue")
	r.Sees("discover the cluster: the cluster publishes no cluster-info")
	if strings.Contains(r.View(), line[:20]) {
		t.Error("the ticket is on the screen")
	}
}

// TestJoin: a cluster that no kubeconfig names is joined by address, hash and bootstrap
// token, or by a discovery file. The bootstrap token is typed like a secret.
func TestJoin(t *testing.T) {
	const token = "abcdef.0123456789abcdef"
	r := open(t)
	r.toCluster()
	r.Walk("end", "up", "up", "enter", "~CA hash", `"10.0.0.1:6443"`, "enter")
	r.Sees("✗ ") // a hash is wanted, or anybody could pretend to be the cluster
	r.Walk("tab", `"nonsense"`, "enter", "~✗ ", "ctrl+u", `"`+r.pins()[0].String()+`"`, "enter", "~Bootstrap token",
		"~enter continue", `"`+token+`"`)
	if strings.Contains(r.View(), "abcdef") {
		t.Error("the token is on the screen")
	}
	r.Walk("enter", "~Who is it for", "~10.0.0.1-6443-hsm")

	r = open(t)
	r.toCluster()
	r.Walk("end", "up", "enter", "~A file, or an https URL.", "enter", "~name a file", `"/etc/cluster.conf"`, "enter",
		"~Bootstrap token", "~enter continue", `"`+token+`"`, "enter", "~Who is it for")
}

// TestSentCertificate: a user who may not read the certificate from the cluster goes on with
// a file, once the enrollment has a key.
func TestSentCertificate(t *testing.T) {
	r := open(t)
	keyless := enrolling.Progress{Options: enrolling.Options{Name: "fresh", Context: "staging", User: "jane",
		Token: r.token.Info().URI()}}
	store := enrolling.NewStore(r.World.Env)
	r.toPIN()
	r.Type("PIN of blue", pin)
	r.Sees("waiting for")
	name := r.filed()
	r.server.Forbid("get certificatesigningrequests", "list certificatesigningrequests",
		"watch certificatesigningrequests")
	r.Walk("esc", "~Stop here?", "y", "~Stopped")
	r.server.Issue(name)
	must.OK(t, store.Save(&keyless))
	path := filepath.Join(t.TempDir(), "sent.pem")
	must.OK(t, os.WriteFile(path, r.server.Issued(name), 0o600))
	again := r.World.OpenWizard()
	again.Walk("~Resume fresh", "/", `"fresh"`, "enter", "i", "~I received a certificate: it has no key yet", "esc",
		"end", "i", "~I received a certificate: choose an unfinished", "/", `"trial"`, "enter", "i",
		"~Continue with a certificate that you received", "enter", "~name a file", `"`+path+`x"`, "enter",
		"~no such file", "esc", "i", "~Continue with a certificate that you received", `"`+path+`"`, "enter",
		"~This is what will be done")
	if p, err := store.Load("trial-admin-hsm"); err != nil || len(p.Certificate) == 0 {
		t.Errorf("the certificate was not taken: %v", err)
	}
}

// TestGroupWithAComma: a group's name may have a comma, typed or found, and stays one group.
func TestGroupWithAComma(t *testing.T) {
	w := screentest.New(t)
	r := &rig{server: w.Cluster("admin", `a,b`, `c\d`), token: w.Tokens.Add(hsmtest.FakeOptions{Label: "blue"})}
	r.untouched()
	r.Rig = w.OpenWizard()
	r.Walk(`~Who      admin, in a,b, c\d`, "u", `~a\,b, c\\d`, "tab", `"x\,y, c\d, x\,y"`, "enter",
		`~Who      admin, in x,y, c\d`, "u", `~x\,y, c\\d`, "esc", `~Who      admin, in x,y`, "x", "~--group x,y")
}
