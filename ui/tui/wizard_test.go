package tui

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// TestOverwrite: an occupied slot is given up only after its serial is typed,
// and reusing another key afterwards overwrites nothing.
func TestOverwrite(t *testing.T) {
	r := newRig(t, newFake(), 100, 30, atEnroll)
	toToken(r)
	r.Press("down", "enter")
	r.Sees("reuse its")
	r.Press("end", "o") // 9e is empty
	r.Sees("overwrite: the slot is empty")
	r.Press("home")
	r.opens("o")
	r.Sees("Overwrite slot 9a?", "certificate for jane", "Type 12345678")
	r.Press("enter", "y")
	if len(r.m.dialogs.stack) != 1 {
		t.Fatal("a y is enough")
	}
	r.Press("backspace", `"12345678"`, "enter")
	r.Sees("What shall the new key be like")
	r.Press("x")
	r.Sees("--slot 9a")
	r.Press("esc", "esc")
	r.Sees("reuse its")
	r.Press("enter")
	r.Sees("Which cluster")
	r.Press("x")
	r.Sees("kubehsm enroll --key")
}

// TestDefaultsAreToldFirst: what stops the enrollment is said before its questions.
func TestDefaultsAreToldFirst(t *testing.T) {
	f := newFake()
	f.defaults = errors.New("the token still has secrets that everybody knows: the default PUK")
	for _, size := range [][2]int{{80, 24}, {60, 15}} {
		r := newRig(t, f, size[0], size[1], atEnroll)
		toToken(r)
		r.Press("enter")
		r.Sees("that everybody knows", "default PUK", "until they are changed", "A new key, or one")
	}
}

// TestForecast: what is certain to be refused is not filed before the risk is
// accepted.
func TestForecast(t *testing.T) {
	f := newFake()
	f.forecast = []csr.Point{{ID: "create", Verdict: csr.OK, Reason: "you may file requests"},
		{ID: "signer", Verdict: csr.Refuse, Reason: "nobody signs for this signer", Evidence: "no controller answers"}}
	r := newRig(t, f, 100, 40, atEnroll)
	toReview(r)
	r.Sees("Forecast", "✗ nobody signs for this signer [no controller answers]")
	r.Press("enter")
	r.Sees("enroll: the request will be refused: nobody signs")
	r.opens("A")
	r.Press("y")
	r.Until("worked out again", func() bool {
		return strings.Contains(r.View(), "Forecast") && !strings.Contains(r.View(), "accept the risk")
	})
	r.Press("enter")
	r.Sees("PIN of trial")
	if !f.got.AcceptForecast {
		t.Error("not accepted")
	}
}

// TestTicketInTheWizard: a ticket says which cluster and who; it is read like a
// secret and is nowhere on the screen.
func TestTicketInTheWizard(t *testing.T) {
	secret, err := bootstraptoken.Generate()
	if err != nil {
		t.Fatal(err)
	}
	tk := ticket.Ticket{Server: "https://10.0.0.1:6443", Token: secret, Expires: time.Now().Add(time.Hour).Truncate(time.Second),
		Terms: ticket.Terms{User: "jane", Groups: []string{"dev"}}, Pins: fakePins(t)}
	line, err := tk.Reveal()
	if err != nil {
		t.Fatal(err)
	}
	f := newFake()
	r := newRig(t, f, 100, 40, atEnroll)
	toCluster(r)
	r.Press("end", "enter")
	r.Sees("Ticket", "ticket")
	r.Press(`"nonsense"`, "enter")
	r.Sees("error: ")
	r.Press("esc", "enter")
	r.Until("asked again", func() bool { return strings.Contains(r.View(), "enter continue") })
	r.Press(`"`+line+`"`, "enter")
	r.Sees("This is what will be done", "by ticket", "jane", "dev")
	if strings.Contains(r.View(), line[:20]) {
		t.Error("the ticket is on the screen")
	}
	r.Press("enter")
	r.Sees("PIN of trial")
	if j := f.got.Join; j == nil || !bytes.Equal(j.Token.Key(), secret.Key()) || !bytes.Equal(j.DiscoveryToken.Key(), secret.Key()) {
		t.Error("the token is not the ticket's")
	}
}

// TestCardGetsAPUK: a card that joins by a ticket gets a random PUK, which is shown
// sealed to the help desk.
func TestCardGetsAPUK(t *testing.T) {
	secret, err := bootstraptoken.Generate()
	if err != nil {
		t.Fatal(err)
	}
	tk := ticket.Ticket{Server: "https://10.0.0.1:6443", Token: secret, Expires: time.Now().Add(time.Hour).Truncate(time.Second),
		Terms: ticket.Terms{User: "jane"}, Pins: fakePins(t)}
	line, err := tk.Reveal()
	if err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.tokens = []hsm.View{pivToken()}
	r := newRig(t, f, 100, 40, atEnroll)
	r.Sees("YubiKey")
	r.Press("enter")
	r.Sees("Slot 9d  empty")
	r.Press("enter")
	r.Sees("Algorithm")
	r.Press("enter")
	r.Sees("Which cluster")
	r.Press("end", "enter")
	r.Sees("Ticket", "ticket")
	r.Press(`"`+line+`"`, "enter")
	r.Sees("This is what will be done", "give it a random PUK")
	r.Press("P")
	r.Sees("To use the key.", "3 tries left")
	r.Press(`"12345678"`, "enter")
	r.Sees("Send this to the help desk", "sealed-for-"+secret.ID(), "helpdesk open --ticket-id "+secret.ID()+" --serial 12345678")
	r.Press("enter")
	r.Sees("This is what will be done")
}

// TestJoinInTheWizard: a cluster that no kubeconfig names is joined by address,
// hash and bootstrap token, or by a discovery file; the token is a secret.
func TestJoinInTheWizard(t *testing.T) {
	const token = "abcdef.0123456789abcdef"
	f := newFake()
	r := newRig(t, f, 100, 40, atEnroll)
	toCluster(r)
	r.Press("end", "up", "up")
	r.opens("enter")
	r.Sees("CA hash")
	r.Press(`"10.0.0.1:6443"`, "enter")
	r.Sees("✗ ") // without a hash anybody could pretend to be the cluster
	r.Press("tab", `"nonsense"`, "enter")
	r.Sees("✗ ")
	r.Press("ctrl+u", `"`+fakePins(t)[0].String()+`"`, "enter")
	r.Sees("Bootstrap token", "bootstrap token")
	r.Press(`"` + token + `"`)
	if strings.Contains(r.View(), "abcdef") {
		t.Error("the token is on the screen")
	}
	r.Press("enter")
	r.Sees("Who is it for", "10.0.0.1:6443")
	r.Press(`"jane"`, "enter")
	r.Sees("This is what will be done")
	r.Press("enter")
	r.Sees("PIN of trial")
	if j := f.got.Join; j == nil || j.Endpoint != "10.0.0.1:6443" || len(j.Pins) != 1 || j.Token.ID() != "abcdef" || string(j.Token.Key()) != "0123456789abcdef" || string(j.DiscoveryToken.Key()) != "0123456789abcdef" || f.got.Context != "" {
		t.Errorf("got %+v", f.got)
	}

	r = newRig(t, f, 100, 40, atEnroll)
	toCluster(r)
	r.Press("end", "up")
	r.opens("enter")
	r.Press("enter")
	r.Sees("name a file")
	r.Press(`"/etc/cluster.conf"`, "enter")
	r.Sees("Bootstrap token", "bootstrap token")
	r.Press(`"`+token+`"`, "enter")
	r.Sees("Who is it for", "by /etc/cluster.conf")
}

// TestSentCertificate: who may not read the certificate from the cluster goes on
// with a file, once there is a key for it.
func TestSentCertificate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sent.pem")
	if err := os.WriteFile(path, []byte("PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake()
	keyless, begun := journal(f), journal(f)
	keyless.Options.Name, begun.Request.KeyHash = "fresh", "5fff"
	f.unfinished = []enrolling.Progress{keyless, begun}
	r := newRig(t, f, 100, 30, atEnroll)
	r.Sees("Resume fresh")
	r.Press("i")
	r.Sees("a certificate was sent: it has no key yet")
	r.Press("end", "i")
	r.Sees("a certificate was sent: choose an enrollment")
	r.Press("up")
	r.opens("i")
	r.Press("enter")
	r.Sees("name a file")
	r.Press(`"`+path+`x"`, "enter")
	r.Sees("no such file")
	r.Press("esc")
	r.opens("i")
	r.Press(`"`+path+`"`, "enter")
	r.did(f, "certificate of "+begun.Options.Name+": PEM")
	r.Sees("This is what will be done")
}
