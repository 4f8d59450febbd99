package tui_test

import (
	"context"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// throughToken has the current context sign in to the world's cluster with a key on a token, and a request and
// a ticket on record that were made from here.
func (w *world) throughToken() {
	w.T.Helper()
	key := w.Generate(w.soft, hsm.GenerateOptions{Label: "prod"})
	e := w.Enroll("prod-hsm", key, w.Certify(w.soft, key, "jane", "dev"))
	e.Cluster.Server = w.server.URL
	e.Cluster.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})
	var there certificatesv1.CertificateSigningRequest
	w.server.Get(flowtest.Requests, "kubehsm-jane-7x2kp", &there)
	filed := enrolling.Request{Name: "kubehsm-jane-7x2kp", Context: "prod-hsm", Server: w.server.URL, UID: "7",
		Created: tuitest.Now().Add(-2 * time.Hour), Spec: csr.Spec{Name: "kubehsm-jane-7x2kp", SignerName: csr.ClientSigner,
			Request: there.Spec.Request}}
	err := errors.Join(w.Env.Enrollments().Save(w.Signed(e)), enrolling.NewStore(w.Env).SaveRequest(filed))
	must.OK(w.T, err)
	w.current("prod-hsm")
}

// asked are the dialogs that asked for a PIN, a touch or a yes, by their titles.
func (r *rig) asked() (titles []string) {
	for _, m := range r.Given {
		if sent, ok := m.(task.Received); ok {
			m = sent.Msg
		}
		o, ok := m.(dialog.OpenMsg)
		if !ok {
			continue
		}
		switch o.Dialog.(type) {
		case *dialog.PIN, *dialog.Touch, *dialog.Confirm:
			titles = append(titles, o.Dialog.Title())
		}
	}
	return titles
}

// TestLookingAsksNobody: whatever is opened or read again, nobody is asked for a PIN, a touch or a yes, and no
// token signs. Where a token is locked, a line says how to see more.
func TestLookingAsksNobody(t *testing.T) {
	for name, agent := range map[string]func(*world){"no agent": func(*world) {}, "locked agent": func(w *world) { w.Agent() }} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.throughToken()
			agent(w)
			refuse := func(_ context.Context, op hsmtest.Op) error {
				if op == hsmtest.OpUnlock || op == hsmtest.OpSign {
					t.Errorf("a look takes %s", op)
				}
				return nil
			}
			w.soft.Before(refuse)
			w.card.Before(refuse)
			r := w.open(120, 40)
			atTokens(r)
			for _, look := range []struct {
				keys []string
				sees []string
			}{
				{[]string{"0"}, []string{"prod-hsm", "locked"}},
				{[]string{"1", "enter"}, []string{"change PIN"}},
				{[]string{"esc", "2"}, []string{"prod-hsm"}},
				{[]string{"3"}, []string{"The token of prod-hsm is locked", "U unlocks the token and reads the cluster's requests",
					"1 request filed from here", "kubehsm-jane-7x2kp"}},
				{[]string{"tab"}, []string{"show mine", "kubehsm-jane-7x2kp"}},
				{[]string{"tab"}, []string{"show pending", "kubehsm-jane-7x2kp"}},
				{[]string{"enter"}, []string{"The token of prod-hsm is locked", "U unlocks the token and reads the request"}},
				{[]string{"esc", "4"}, []string{"agent"}},
				{[]string{"5"}, []string{"The token of prod-hsm is locked", "U unlocks the token and reads the cluster's tickets"}},
				{[]string{"6"}, []string{"look again"}},
				{[]string{"1", "e"}, []string{"Change: u"}},
			} {
				r.Press(look.keys...)
				r.Sees(look.sees...)
				r.Press("r")
				r.Sees(look.sees...)
			}
			if titles := r.asked(); len(titles) > 0 {
				t.Errorf("asked: %q", titles)
			}
		})
	}
}

// TestHomeMissesToken: home and its header say that the token was pulled out. A screen that does not look at tokens
// says no more than the agent does.
func TestHomeMissesToken(t *testing.T) {
	w := newWorld(t)
	w.throughToken()
	r := w.open(120, 40)
	atTokens(r)
	r.Walk("0", "~prod-hsm", "~locked")
	w.soft.Unplug()
	r.Walk("r", "~the token of prod-hsm, trial, is not there", "~Token    ! not there", "~see what is wrong", "3",
		"~prod-hsm ○ locked")
	w.soft.Plug()
	r.Walk("0", "r", "~prod-hsm ○ locked", "~U unlock")
}

// TestUnlockAndRead: the key that the line names asks once, and what is read then is followed by itself. When the
// token is locked again, what was read last stays.
func TestUnlockAndRead(t *testing.T) {
	w := newWorld(t)
	w.throughToken()
	w.Agent()
	r := w.open(120, 40)
	atTokens(r)
	r.Walk("5", "~U unlocks the token and reads the cluster's tickets", "3",
		"~U unlocks the token and reads the cluster's requests", "~U unlock and read", "U", "~PIN of trial", "esc",
		"~cancelled", "~U unlock and read")
	r.Press("U") // a no is none for good
	r.Type("PIN of trial", pin)
	r.Walk("~2 requests pending", "~mallory", "~live", "5", "~for the new rack", "~nobody knows", "3", "down",
		"enter", "~kubehsm-jane-7x2kp", "~Fingerprint", "esc", "L", "~The token of prod-hsm is locked. As of 09:30.",
		"~2 requests pending", "~mallory")
	if titles := r.asked(); len(titles) != 2 {
		t.Errorf("asked: %q", titles)
	}
}
